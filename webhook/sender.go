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
		d, err := w.shared.leases.Acquire(ctx, lease, 1, w.shared.timeout)
		if err == nil && d.Allowed {
			err = w.lead(ctx, lease, began)
		}
		if err != nil && err != errTaken && ctx.Err() == nil {
			w.fails.Failed(err)
		}
		sleep(ctx, w.shared.timeout/6)
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
	s.until.Store(int64(w.shared.timeout))
	s.running.Go(func() { cancel(s.keepLease(ctx, lease)) })
	w.stats.sender.Store(true)
	defer func() {
		w.stats.sender.Store(false)
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
	sub, err := w.shared.log.Subscribe(ctx, w.names.queue, func(pubsub.Message) { wakeUp(s.queued) })
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
	_ = s.shared.leases.Release(ctx, []limit.Lease{lease}) // or it ends by itself
}

// keepLease renews the lease until ctx ends, and returns errTaken when it is lost.
func (s *sender) keepLease(ctx context.Context, lease limit.Lease) error {
	for sleep(ctx, min(s.shared.timeout/3, s.left())) {
		began := time.Since(s.began)
		call, cancel := context.WithTimeout(ctx, s.left())
		d, err := s.shared.leases.Acquire(call, lease, 1, s.shared.timeout)
		cancel()
		switch {
		case err == nil && d.Allowed:
			s.until.Store(int64(began + s.shared.timeout))
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
	sub, err := s.shared.presence.Watch(ctx, topic, src.report)
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

// follow begins or ends to watch who is present in a topic.
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

// maxBatch is how many events a request has at most.
const maxBatch = 100

// request is what is sent at once.
type request struct {
	events []Event
	facts  []fact
	is     map[fact]bool
	sent   pubsub.Position // of the last event of Send
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

// again has all looked at again that could not be sent.
func (s *sender) again(facts []fact) {
	s.reading = true
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	for _, f := range facts {
		if _, changed := s.truth.changed[f]; !changed {
			s.truth.changed[f] = time.Time{}
		}
	}
}

// collect takes the facts that have changed, and says when the next one may be taken that has to wait; zero: there is
// none.
func (s *sender) collect(ctx context.Context) (q request, due time.Time) {
	now := time.Now()
	q.is = make(map[fact]bool)
	if s.state.reset {
		q.events = append(q.events, Event{Type: reset, Time: now})
	}
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	for f, since := range s.truth.changed {
		if len(q.events) == maxBatch {
			break
		}
		is := s.truth.count[f] > 0
		at := since.Add(max(0, s.o.Grace))
		switch {
		case is == s.state.said[f] && !s.state.doubt[f]:
		case !is && now.Before(at):
			if due.IsZero() || at.Before(due) {
				due = at
			}
			continue
		default:
			e := f.event(is)
			e.Time = now
			q.events, q.facts, q.is[f] = append(q.events, e), append(q.facts, f), is
		}
		delete(s.truth.changed, f)
		if f.Kind == topics {
			s.follow(ctx, f.Topic, is)
		}
	}
	return q, due
}

// collectSent takes events of Send, as many as there is room for.
func (s *sender) collectSent(ctx context.Context, q *request) error {
	select {
	case <-s.queued:
		s.reading = true
	default:
	}
	room := maxBatch - len(q.events)
	if !s.reading || room == 0 {
		return nil
	}
	o := pubsub.ReadOptions{From: s.state.sent, Messages: room, Bytes: 1 << 20}
	page, err := s.shared.log.Read(ctx, s.names.queue, s.o.queue(), o)
	if err != nil {
		s.again(q.facts)
		return err
	}
	if page.Lost != pubsub.LossNone {
		o.From = pubsub.Position{}
		if page, err = s.shared.log.Read(ctx, s.names.queue, s.o.queue(), o); err != nil {
			s.again(q.facts)
			return err
		}
	}
	s.missing(page)
	s.reading = page.More
	for _, m := range page.Messages {
		q.sent = m.Position
		var e entry
		if err := json.Unmarshal(m.Frame, &e); err != nil {
			s.dropped(1, "it is not of this package")
			continue
		}
		q.events = append(q.events, Event{ID: m.Position.String(), Type: e.Type, Topic: e.Topic, Time: e.Time, Data: e.Data})
	}
	return nil
}

// missing finds out whether events of Send have gone from the log before they were read.
func (s *sender) missing(page pubsub.Page) {
	before, oldest := s.state.sent, page.Head.Offset+1
	if len(page.Messages) > 0 {
		oldest = page.Messages[0].Position.Offset
	}
	switch {
	case before.Epoch != 0 && (page.Head.Epoch != before.Epoch || oldest <= before.Offset):
		s.o.Logger.Warn("webhook: the backend has lost its log of events; some may not be sent, or sent again", "name", s.o.Name)
	case oldest > before.Offset+1:
		s.dropped(int(oldest-before.Offset-1), "more than MaxQueued waited, or longer than Keep")
	default:
		return
	}
	if len(page.Messages) == 0 {
		s.state.sent = page.Head
	}
}

func (w *Webhook) dropped(n int, why string) {
	w.stats.dropped.Add(int64(n))
	w.o.Logger.Warn("webhook: events were dropped", "name", w.o.Name, "events", n, "reason", why)
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

// Stats are figures of this process.
type Stats struct {
	// Sender says that this process sends at present.
	Sender bool
	// Sent are the events that were answered 2xx, Failed the requests that were not, which are repeated.
	Sent, Failed int64
	// Dropped are the events that will not be sent.
	Dropped int64
	// Behind is since when the request is repeated that is being sent; zero if there is none.
	Behind time.Time
}

type counters struct {
	sender                atomic.Bool
	sent, failed, dropped atomic.Int64
	since                 atomic.Pointer[time.Time]
}

// behind notes since when a request is being sent; zero: none is.
func (c *counters) behind(since time.Time) { c.since.Store(&since) }

// Stats returns the figures of this process.
func (w *Webhook) Stats() Stats {
	s := Stats{
		Sender: w.stats.sender.Load(), Sent: w.stats.sent.Load(), Failed: w.stats.failed.Load(), Dropped: w.stats.dropped.Load(),
	}
	if since := w.stats.since.Load(); since != nil {
		s.Behind = *since
	}
	return s
}
