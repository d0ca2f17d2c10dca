package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// FanPlan is how a fan-out run goes. The first connection of the swarm publishes, all
// others subscribe.
type FanPlan struct {
	InFlight int           // publishes the publisher has not yet received back itself
	Duration time.Duration // how long it publishes
}

// FanResult is what the subscribers counted.
type FanResult struct {
	Published int
	Delivered int // at the subscribers; the publisher's own copies are not counted
	Lost      int // what the server dropped on the way to slow subscribers
	Elapsed   time.Duration
}

// joinTime lets the last subscriber join: many servers register a connection only
// after its handshake was answered.
const joinTime = 200 * time.Millisecond

// quietAfter ends a run whose missing deliveries no longer come: they were dropped.
const quietAfter = 500 * time.Millisecond

// Fan publishes chat.send and counts the chat.message every subscriber receives. The
// publisher's own copy is its acknowledgement.
func (s *Swarm) Fan(ctx context.Context, plan FanPlan) (FanResult, error) {
	if plan.InFlight < 1 || plan.Duration <= 0 || len(s.conns) < 2 {
		return FanResult{}, errors.New("load: a fan-out needs a duration, 1 publish in flight and 2 connections")
	}
	if err := s.Hold(ctx, joinTime); err != nil {
		return FanResult{}, err
	}
	f := &fanRun{
		plan:        plan,
		ring:        newRequestRing("chat.send", plan.InFlight),
		publisher:   s.conns[0],
		subscribers: len(s.conns) - 1,
		began:       time.Now(),
	}
	f.lastHeard = f.began
	if err := s.drive(ctx, f); err != nil {
		return FanResult{}, err
	}
	f.result.Elapsed = f.lastHeard.Sub(f.began)
	f.result.Lost = f.result.Published*f.subscribers - f.result.Delivered
	return f.result, nil
}

type fanRun struct {
	plan        FanPlan
	ring        requestRing
	publisher   *conn
	subscribers int
	began       time.Time

	stopped   bool
	heard     int // deliveries, the publisher's among them
	heardThen int // at the last batch
	lastHeard time.Time
	result    FanResult
}

var (
	deliveredMark  = []byte(`"chat.message"`)
	subscribedMark = []byte(`"$ws:subscribed"`)
)

func (f *fanRun) start(*Swarm) error {
	f.publisher.inFlight = 0
	return f.drained(f.publisher)
}

func (f *fanRun) received(c *conn, fr frame) error {
	if bytes.Contains(fr.payload, subscribedMark) { // of a topic with history, once
		return nil
	}
	if !bytes.Contains(fr.payload, deliveredMark) {
		return fmt.Errorf("load: not a delivery: %.200q", fr.payload)
	}
	f.heard++
	if c == f.publisher {
		c.inFlight--
	} else {
		f.result.Delivered++
	}
	return nil
}

func (f *fanRun) drained(c *conn) error {
	count := f.plan.InFlight - c.inFlight
	if c != f.publisher || f.stopped || count == 0 {
		return nil
	}
	frames := f.ring.run(c.sent, count)
	c.sent += count
	c.inFlight += count
	f.result.Published += count
	return c.send(frames)
}

func (f *fanRun) done(now time.Time) bool {
	if f.heard != f.heardThen {
		f.heardThen, f.lastHeard = f.heard, now
	}
	f.stopped = f.stopped || now.Sub(f.began) >= f.plan.Duration
	complete := f.heard == f.result.Published*(f.subscribers+1)
	return f.stopped && (complete || now.Sub(f.lastHeard) > quietAfter)
}

func (f *fanRun) idle() bool { return f.publisher.inFlight == 0 }
