package webhook

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// run sends whenever no other process does, until ctx ends.
func (w *Webhook) run(ctx context.Context) {
	lease := limit.Lease{Key: w.names.sender, ID: w.self}
	for ctx.Err() == nil {
		began := time.Now()
		d, err := w.shared.Limits.Acquire(ctx, lease, 1, w.shared.ProcessTimeout)
		switch {
		case err == nil && d.Allowed:
			err = w.lead(ctx, lease, began)
		case err == nil: // the backend works, and another process sends
			w.fails.Works()
		}
		if err != nil && err != errTaken && ctx.Err() == nil {
			w.fails.Failed(err)
		}
		sleep(ctx, w.shared.ProcessTimeout/6)
	}
}

// sender sends while this process has the lease.
type sender struct {
	*Webhook
	state *state
	truth *truth
	until atomic.Int64 // when the lease ends, in ns since began
	began time.Time

	queued  chan struct{} // holds a token when events of Send may wait
	reading bool          // some may wait
	follows map[string]context.CancelFunc
	running sync.WaitGroup
}

// lead sends until ctx ends or the lease is lost, which began at an instant.
func (w *Webhook) lead(ctx context.Context, lease limit.Lease, began time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &sender{
		Webhook: w, truth: newTruth(), began: began, queued: make(chan struct{}, 1), reading: true,
		follows: make(map[string]context.CancelFunc),
	}
	s.until.Store(int64(w.shared.ProcessTimeout))
	s.running.Go(func() { cancel(s.keepLease(ctx, lease)) })
	w.stats.sender.Store(true)
	defer func() {
		w.stats.sender.Store(false)
		w.stats.behind(time.Time{})
		cancel(nil)
		s.running.Wait()
		if context.Cause(ctx) != errTaken {
			s.release(lease)
		}
	}()
	var err error
	if s.state, err = load(ctx, w); err != nil {
		return err
	}
	sub, err := w.shared.Log.Subscribe(ctx, w.names.queue, func(pubsub.Message) { wakeUp(s.queued) })
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	for i := range shards {
		if err := s.watch(ctx, w.names.facts+strconv.Itoa(i), func(m pubsub.Member) (fact, bool) { return factOf(m.Data) }); err != nil {
			return err
		}
	}
	s.compare()
	for {
		if err := s.step(ctx); err == errTaken || ctx.Err() != nil {
			return errTaken
		} else if err != nil {
			s.fails.Failed(err)
			sleep(ctx, retry)
		}
	}
}

// release lets another process send.
func (s *sender) release(lease limit.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), retry)
	defer cancel()
	_ = s.shared.Limits.Release(ctx, []limit.Lease{lease}) // or it ends by itself
}

// keepLease renews the lease until ctx ends, and returns errTaken when it is lost.
func (s *sender) keepLease(ctx context.Context, lease limit.Lease) error {
	for sleep(ctx, min(s.shared.ProcessTimeout/3, s.left())) {
		began := time.Since(s.began)
		call, cancel := context.WithTimeout(ctx, s.left())
		d, err := s.shared.Limits.Acquire(call, lease, 1, s.shared.ProcessTimeout)
		cancel()
		switch {
		case err == nil && d.Allowed:
			s.until.Store(int64(began + s.shared.ProcessTimeout))
		case err == nil || s.left() == 0:
			return errTaken
		}
	}
	return nil
}

// left is how long this process may send.
func (s *sender) left() time.Duration {
	return max(0, time.Duration(s.until.Load())-time.Since(s.began))
}

// watch takes the facts of a topic of the presence, until ctx ends.
func (s *sender) watch(ctx context.Context, topic string, of func(pubsub.Member) (fact, bool)) error {
	src := &source{truth: s.truth, fact: of, by: make(map[string]fact)}
	sub, err := s.shared.Presence.Watch(ctx, topic, src.report)
	if err != nil {
		return err
	}
	s.running.Go(func() {
		<-ctx.Done()
		_ = sub.Close()
		src.close()
	})
	return nil
}

// compare has all facts looked at of which something was said, or that are true.
func (s *sender) compare() {
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	now := time.Now()
	for f := range s.truth.count {
		s.truth.changed[f] = now
	}
	for f := range s.state.said {
		s.truth.changed[f] = now
	}
	for f := range s.state.doubt {
		s.truth.changed[f] = now
	}
}

// follow begins or ends to watch the members of a topic.
func (s *sender) follow(ctx context.Context, topic string, is bool) {
	stop, follows := s.follows[topic]
	if !s.o.Members || is == follows {
		return
	}
	if !is {
		stop()
		delete(s.follows, topic)
		return
	}
	ctx, s.follows[topic] = context.WithCancel(ctx)
	s.running.Go(func() {
		for s.watch(ctx, topic, func(m pubsub.Member) (fact, bool) { return memberOf(topic, m), true }) != nil {
			if !sleep(ctx, retry) {
				return
			}
		}
	})
}

// memberOf is the fact that a user is present; the connections of a user are one member.
func memberOf(topic string, m pubsub.Member) fact {
	if m.User != "" {
		return fact{Kind: members, Topic: topic, User: m.User}
	}
	return fact{Kind: members, Topic: topic, Connection: m.ID}
}

// step sends a request, or waits for something to send.
func (s *sender) step(ctx context.Context) error {
	q, due := s.collect(ctx)
	if err := s.collectSent(ctx, &q); err != nil {
		return err
	}
	if len(q.events) == 0 {
		return s.idle(ctx, due)
	}
	s.stats.behind(time.Now())
	first, err := s.state.begin(ctx, q.facts, len(q.events))
	if err != nil {
		s.again(q.facts)
		return err
	}
	for i := range q.events {
		e := &q.events[i]
		e.Seq = first + int64(i)
		if e.ID == "" {
			e.ID = strconv.FormatInt(e.Seq, 10)
		}
	}
	if err := s.deliver(ctx, q); err != nil {
		return err
	}
	for {
		if err = s.state.done(ctx, q.facts, q.is, q.sent); err == nil {
			break
		}
		s.fails.Failed(err)
		if !sleep(ctx, retry) {
			return errTaken
		}
	}
	s.stats.behind(time.Time{})
	return nil
}

// idle waits until there may be something to send.
func (s *sender) idle(ctx context.Context, due time.Time) error {
	if err := s.state.rest(ctx); err != nil {
		return err
	}
	s.fails.Works()
	renew := time.NewTicker(time.Hour)
	defer renew.Stop()
	var late <-chan time.Time
	if !due.IsZero() {
		late = time.After(time.Until(due))
	}
	for {
		select {
		case <-ctx.Done():
			return errTaken
		case <-s.truth.wake:
			return nil
		case <-s.queued:
			s.reading = true
			return nil
		case <-late:
			return nil
		case <-renew.C:
			if err := s.state.renew(ctx); err != nil {
				return err
			}
		}
	}
}

// deliver sends a request until it is answered, for as long as Options.Keep. It fails with errTaken when this process
// may not send any more.
func (s *sender) deliver(ctx context.Context, q request) error {
	body, err := json.Marshal(map[string][]Event{"events": q.events})
	if err != nil {
		return err
	}
	id := "msg_" + q.events[0].ID
	end := time.Now().Add(s.o.Keep)
	for wait := retry; ; wait = min(2*wait, time.Minute) {
		attempt, cancel := context.WithTimeout(ctx, min(s.o.Timeout, s.left()))
		err := s.post.send(attempt, id, body)
		cancel()
		switch {
		case context.Cause(ctx) == errTaken || s.left() == 0:
			return errTaken
		case err == nil:
			s.fails.Works()
			s.stats.sent.Add(int64(len(q.events)))
			return nil
		}
		s.fails.Failed(err)
		s.stats.failed.Add(1)
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			return errTaken
		}
		if time.Now().After(end) {
			s.dropped(len(q.events), "the service has not taken the request for as long as Keep")
			return nil
		}
	}
}
