package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wskit/wskit/bench/stats"
)

// Plan is how an echo run goes.
type Plan struct {
	InFlight int           // requests each connection keeps unanswered; at least 1
	Duration time.Duration // how long new requests are sent; 0 = until Messages
	Messages int           // how many requests are sent in all; 0 = until Duration
	Latency  bool          // take the time of every exchange; needs InFlight 1
}

// Result is what an echo run counted. Every request sent was answered.
type Result struct {
	Answered int           // replies of the expected type
	Refused  int           // RPC_ERROR replies
	Elapsed  time.Duration // from the first request to the last answer
	P50, P99 time.Duration // only with Plan.Latency
}

// Echo sends chat.echo requests on every connection and counts the answers. A window
// slides: as many answers as one read brings are followed by as many new requests in
// one write. It returns when every request is answered.
func (s *Swarm) Echo(ctx context.Context, plan Plan) (Result, error) {
	switch {
	case plan.InFlight < 1:
		return Result{}, errors.New("load: a plan needs at least 1 request in flight")
	case plan.Duration <= 0 && plan.Messages <= 0:
		return Result{}, errors.New("load: a plan needs a duration or a number of messages")
	case plan.Latency && plan.InFlight != 1:
		return Result{}, errors.New("load: latency is measured with 1 request in flight")
	}
	e := &echoRun{plan: plan, ring: s.requests(plan.InFlight), began: time.Now()}
	if err := s.drive(ctx, e); err != nil {
		return Result{}, err
	}
	e.result.Elapsed = time.Since(e.began)
	if len(e.latencies) > 0 {
		slices.Sort(e.latencies)
		e.result.P50 = stats.Quantile(e.latencies, 0.5)
		e.result.P99 = stats.Quantile(e.latencies, 0.99)
	}
	return e.result, nil
}

type echoRun struct {
	plan  Plan
	ring  requestRing
	began time.Time

	sent, owed int
	stopped    bool
	result     Result
	latencies  []time.Duration
}

var (
	answeredMark = []byte(`"chat.echoed"`)
	refusedMark  = []byte(`"RPC_ERROR"`)
)

func (e *echoRun) start(s *Swarm) error {
	for _, c := range s.conns {
		c.inFlight = 0
		if err := e.drained(c); err != nil {
			return err
		}
	}
	return nil
}

func (e *echoRun) received(c *conn, f frame) error {
	// The type stands first in the frame, so the search ends at once.
	switch {
	case f.deflated || bytes.Contains(f.payload, answeredMark): // no server here compresses a short refusal
		e.result.Answered++
	case bytes.Contains(f.payload, refusedMark):
		e.result.Refused++
	default:
		return fmt.Errorf("load: neither a reply nor an RPC_ERROR: %.200q", f.payload)
	}
	if e.plan.Latency {
		e.latencies = append(e.latencies, time.Since(e.began)-time.Duration(c.sentAt))
	}
	c.inFlight--
	e.owed--
	return nil
}

// drained fills the connection's window again.
func (e *echoRun) drained(c *conn) error {
	count := e.plan.InFlight - c.inFlight
	if e.plan.Messages > 0 {
		count = min(count, e.plan.Messages-e.sent)
	}
	if e.stopped || count == 0 {
		return nil
	}
	frames := e.ring.run(c.sent, count)
	c.sent += count
	c.inFlight += count
	e.sent += count
	e.owed += count
	if e.plan.Latency {
		c.sentAt = int64(time.Since(e.began))
	}
	return c.send(frames)
}

func (e *echoRun) done(now time.Time) bool {
	if e.plan.Duration > 0 && now.Sub(e.began) >= e.plan.Duration {
		e.stopped = true
	}
	return e.owed == 0
}

func (e *echoRun) idle() bool { return e.owed == 0 }
