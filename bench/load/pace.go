package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wskit/wskit/bench/stats"
)

// PacePlan is how a run goes whose requests are sent by the clock, whatever the server does.
type PacePlan struct {
	Rate     float64         // requests a second, at random times and on random connections; the first one is due at once
	Duration time.Duration   // how long they are sent; 0 = until Stop
	Stop     <-chan struct{} // ends the run when it is closed, after what was due by then
}

// PaceResult has the latency of a request from the time at which it was due, not from that at which it was sent: one
// that is sent late because the server or the sender was slow has waited as long as its user has.
type PaceResult struct {
	Answered            int
	P50, P99, P999, Max time.Duration
	Late                time.Duration // p99.9 of the time between due and sent
}

// Pace sends chat.echo requests at a rate. It returns when every request is answered.
func (s *Swarm) Pace(ctx context.Context, plan PacePlan) (PaceResult, error) {
	if plan.Rate <= 0 || plan.Duration <= 0 && plan.Stop == nil {
		return PaceResult{}, errors.New("load: a pace needs a rate, and a duration or a channel that stops it")
	}
	expected := int(1.1 * plan.Rate * plan.Duration.Seconds())
	p := &paceRun{
		plan: plan, ring: s.requests(64), random: rand.New(rand.NewPCG(1, 2)), began: time.Now(),
		latencies: make([]time.Duration, 0, expected), late: make([]time.Duration, 0, expected),
	}
	for _, c := range s.conns {
		c.due = c.due[:0]
	}
	if err := s.drive(ctx, p); err != nil {
		return PaceResult{}, err
	}
	slices.Sort(p.latencies)
	slices.Sort(p.late)
	return PaceResult{
		Answered: len(p.latencies),
		P50:      stats.Quantile(p.latencies, 0.5), P99: stats.Quantile(p.latencies, 0.99), P999: stats.Quantile(p.latencies, 0.999),
		Max: p.latencies[len(p.latencies)-1], Late: stats.Quantile(p.late, 0.999),
	}, nil
}

type paceRun struct {
	plan   PacePlan
	ring   requestRing
	random *rand.Rand
	began  time.Time

	next      time.Duration // when the next request is due; the first at the beginning, so that each run has one
	owed      int
	stopped   bool
	latencies []time.Duration
	late      []time.Duration
}

// step draws the time of the next request.
func (p *paceRun) step() {
	p.next += time.Duration(p.random.ExpFloat64() / p.plan.Rate * float64(time.Second))
}

func (p *paceRun) start(*Swarm) error { return nil }

// due sends what is due, and returns how long it is until the next request.
func (p *paceRun) due(s *Swarm) (time.Duration, error) {
	stop := false
	select {
	case <-p.plan.Stop:
		stop = true
	default:
	}
	for !p.stopped {
		now := time.Since(p.began)
		if p.plan.Duration > 0 && p.next >= p.plan.Duration || stop && now < p.next {
			p.stopped = true
			break
		}
		if now < p.next {
			return p.next - now, nil
		}
		c := s.conns[p.random.IntN(len(s.conns))]
		c.due = append(c.due, p.next)
		p.late = append(p.late, now-p.next)
		p.owed++
		c.sent++
		if err := c.send(p.ring.run(c.sent, 1)); err != nil {
			return 0, err
		}
		p.step()
	}
	return time.Second, nil
}

func (p *paceRun) received(c *conn, f frame) error {
	if !f.deflated && !bytes.Contains(f.payload, answeredMark) {
		return fmt.Errorf("load: not a reply: %.200q", f.payload)
	}
	if len(c.due) == 0 {
		return errors.New("load: a reply without a request")
	}
	p.latencies = append(p.latencies, time.Since(p.began)-c.due[0]) // a server answers in order
	c.due = c.due[:copy(c.due, c.due[1:])]
	p.owed--
	return nil
}

func (p *paceRun) drained(*conn) error { return nil }
func (p *paceRun) done(time.Time) bool { return p.stopped && p.owed == 0 }
func (p *paceRun) idle() bool          { return p.owed == 0 }
