package webhook

import (
	"context"
	"encoding/json"
	"time"

	"github.com/wskit/wskit/pubsub"
)

// maxBatch is how many events a request has at most.
const maxBatch = 100

// request is what is sent at once.
type request struct {
	events []Event
	facts  []fact
	is     map[fact]bool
	sent   pubsub.Position // of the last event of Send
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
	page, err := s.shared.Log.Read(ctx, s.names.queue, s.o.queue(), o)
	if err != nil {
		s.again(q.facts)
		return err
	}
	if page.Lost != pubsub.LossNone {
		o.From = pubsub.Position{}
		if page, err = s.shared.Log.Read(ctx, s.names.queue, s.o.queue(), o); err != nil {
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
