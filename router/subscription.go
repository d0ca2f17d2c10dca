package router

import (
	"context"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// A topic is subscribed to with the broker for as long as it has members. The first
// member begins an attempt: a goroutine that calls Broker.Subscribe, for that member and
// all that join meanwhile. There is one such call of a topic at a time. Each member
// waits for it by its own context, and may leave.
//
// When all that waited have left, the attempt's context is cancelled. A member that
// comes before the call has returned begins the next attempt, which takes the
// subscription over if the call succeeds all the same, and is made after it otherwise.
//
// Under topic.mu these hold: there is a subscription only while there are members or waiting
// members, and members only while there is a subscription (with a broker); never a subscription
// and an attempt; members wait only while there is an attempt, or have yet to see its
// result.

// await returns the attempt to wait for. t.mu is held.
func (t *topic) await(r *Router) *attempt {
	running := t.attempt
	if running != nil && running.ctx.Err() == nil {
		return running
	}
	a := &attempt{done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	t.attempt = a
	if running == nil {
		r.topics.hold(t) // until the call has returned
		go t.subscribe(r, a)
	}
	return a
}

var errSubscribeExited = errors.New("runtime.Goexit called by the broker's Subscribe")

// subscribe makes an attempt.
func (t *topic) subscribe(r *Router, a *attempt) {
	in := &subscription{topic: t, router: r}
	if t.history != nil {
		in.log = in.newFollowed()
	}
	returned := false
	var err error
	defer func() {
		if !returned {
			err = errSubscribeExited
			if v := recover(); v != nil {
				err = panicError("the broker's Subscribe", v)
			}
			r.fault(Fault{Err: err, Stack: stack()})
		}
		t.subscribed(r, a, in, err)
	}()
	in.sub, err = r.opts.Broker.Subscribe(a.ctx, t.name, in.deliver)
	if err == nil && in.log != nil {
		err = in.begin(a.ctx)
	}
	returned = true
}

// subscribed settles an attempt with what the broker has returned.
func (t *topic) subscribed(r *Router, a *attempt, in *subscription, err error) {
	t.mu.Lock()
	a.cancel() // not before the lock: to await it would look given up
	latest := t.attempt
	switch {
	case t.waiting == 0:
		t.attempt = nil
		t.mu.Unlock()
		if err == nil {
			in.end()
		}
	case err == nil:
		t.subscription, t.attempt = in, nil
		close(latest.done)
		t.mu.Unlock()
		if in.log != nil {
			r.heads.add(in)
		}
	case latest != a:
		t.mu.Unlock()
		go t.subscribe(r, latest)
		return
	default:
		t.attempt = nil
		a.err = err
		close(a.done)
		t.mu.Unlock()
	}
	latest.cancel()
	r.topics.release(t)
}

// unwanted gives up the subscription, or the attempt at it, when no member is left that
// needs it. t.mu is held; what is returned is to be ended when it is not.
func (t *topic) unwanted() (last *subscription) {
	if len(t.members) > 0 || t.waiting > 0 {
		return nil
	}
	if t.attempt != nil {
		t.attempt.cancel()
	}
	last, t.subscription = t.subscription, nil
	return last
}

func (in *subscription) end() {
	in.closed.Store(true)
	if in.log != nil {
		in.log.cancel()
		in.log.pages.Drop()
		in.router.heads.remove(in)
	}
	in.flush()
	_ = in.sub.Close()
}

// deliver takes what the broker delivers.
func (in *subscription) deliver(m pubsub.Message) {
	watched := in.watchDelivery(m)
	in.mu.Lock()
	in.sent = 0
	err := in.handle(m)
	sent := in.sent
	later := in.expects(m.Frame) || m.More
	full := in.hold(m.Frame, in.router.opts.Limits.MaxQueued)
	in.mu.Unlock()
	if err != nil {
		in.router.refuseForeign(in.topic.name, err)
	}
	if !later || full || in.closed.Load() {
		in.flush()
	}
	in.delivered(watched, sent)
}

// handle queues a message for the members, or takes note of a loss. in.mu is held.
func (in *subscription) handle(m pubsub.Message) error {
	if m.Lost {
		in.router.stats.lost.Add(1)
	}
	switch {
	case in.log != nil:
		return in.follow(m)
	case m.Lost:
		in.router.lost(in.topic.name)
		return nil
	default:
		return in.pass(m)
	}
}

// pass delivers a message to the members. in.mu is held.
func (in *subscription) pass(m pubsub.Message) error {
	if err := in.router.errForeign(&in.peeker, m.Frame); err != nil {
		return err
	}
	t := in.topic
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.subscription == in { // a later one may have taken its place
		in.sent = t.deliver(m, &in.deferredFlush)
	}
	return nil
}
