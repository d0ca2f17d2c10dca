package hub

import (
	"context"
	"sync"
)

// A topic is subscribed to with the broker for as long as it has members. The first
// member begins an attempt: a goroutine that calls Broker.Subscribe, for that member and
// all that join while it runs. There is one such call of a topic at a time. Each member
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

// table has the topics that have members in this process.
type table struct {
	mu sync.RWMutex
	m  map[string]*topic

	historyOf func(topic string) *History
}

// topic is a topic with its members.
type topic struct {
	name    string
	history *History // nil: none
	refs    int      // members on a connection's list, and a running call of Subscribe; guarded by table.mu

	mu           sync.RWMutex
	members      []*Member     // that have joined
	waiting      int           // members that wait for the subscription
	subscription *subscription // the subscription, or nil
	attempt      *attempt      // what they wait for, or nil
	occupied     bool          // what Config.OnTopic was last called for
}

// attempt is one at subscribing a topic.
type attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when it has succeeded or failed
	err    error         // set before done is closed
}

// acquire finds or makes a topic, and holds it until it is released as often.
func (ts *table) acquire(name string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.m[name]
	if t == nil {
		t = &topic{name: name, history: ts.historyOf(name)}
		ts.m[name] = t
	}
	t.refs++
	return t
}

// hold is acquire for a topic that is held already.
func (ts *table) hold(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.refs++
}

func (ts *table) release(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(ts.m, t.name)
	}
}

// find returns a topic that has members in this process, or is about to have, or nil.
func (ts *table) find(name string) *topic {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.m[name]
}

// subscribed returns the subscription of a topic, or nil.
func (ts *table) subscribed(name string) *subscription {
	t := ts.find(name)
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.subscription
}

func (t *topic) add(m *Member) {
	m.index = len(t.members)
	t.members = append(t.members, m)
}

// remove takes out a member that add has put in.
func (t *topic) remove(m *Member) {
	last := len(t.members) - 1
	moved := t.members[last]
	t.members[m.index], t.members[last] = moved, nil
	moved.index = m.index
	t.members = t.members[:last]
}

// report calls Config.OnTopic if the topic has got its first member, or has lost its last one. No lock is held.
func (t *topic) report(h *Hub) {
	if h.OnTopic == nil || IsReserved(t.name) {
		return
	}
	t.mu.Lock()
	occupied := len(t.members) > 0
	changed := occupied != t.occupied
	t.occupied = occupied
	t.mu.Unlock()
	if changed {
		h.OnTopic(t.name)
	}
}

// admit adds a member that gets what is published from now on.
func (t *topic) admit(m *Member) {
	t.add(m)
	if t.history != nil {
		m.welcome()
	}
}

// await returns the attempt to wait for. t.mu is held.
func (t *topic) await(h *Hub) *attempt {
	running := t.attempt
	if running != nil && running.ctx.Err() == nil {
		return running
	}
	a := &attempt{done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	t.attempt = a
	if running == nil {
		h.table.hold(t) // until the call has returned
		go t.subscribe(h, a)
	}
	return a
}

// subscribe makes an attempt.
func (t *topic) subscribe(h *Hub, a *attempt) {
	in := &subscription{topic: t, hub: h}
	if t.history != nil {
		in.log = in.newFollowed()
	}
	returned := false
	var err error
	defer func() {
		if !returned {
			err = h.Panicked("the broker's Subscribe", recover())
		}
		t.subscribed(h, a, in, err)
	}()
	in.sub, err = h.Broker.Subscribe(a.ctx, t.name, in.deliver)
	if err == nil && in.log != nil {
		err = in.begin(a.ctx)
	}
	returned = true
}

// subscribed settles an attempt with what the broker has returned.
func (t *topic) subscribed(h *Hub, a *attempt, in *subscription, err error) {
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
			h.ends.add(in)
		}
	case latest != a:
		t.mu.Unlock()
		go t.subscribe(h, latest)
		return
	default:
		t.attempt = nil
		a.err = err
		close(a.done)
		t.mu.Unlock()
	}
	latest.cancel()
	h.table.release(t)
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
