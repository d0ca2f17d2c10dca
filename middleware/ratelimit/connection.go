package ratelimit

import (
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// NewPerConnection returns middleware that limits each connection by itself. The
// state is in the connection and ends with it: there is no key, no store is asked,
// and after the connection's first frame nothing is allocated (a [limit.SlidingLog]
// grows with what it remembers).
//
// It is for smoothing and for sparing the store, and no protection by itself: who
// connects again begins afresh, and who opens ten connections has ten limits. Keep
// a limit by user or address behind it.
//
// Before other limits in Use it spares them, and their rejections count against the
// connection; behind them it counts what they let pass.
//
// The rejection names the limiter "connection" and the policy; give that a name with
// [limit.Named]. Options.Key must be nil.
// It panics when the policy is invalid.
func NewPerConnection(policy limit.Policy, o Options) ingress.Middleware {
	plan, err := limit.Compile(policy)
	if err != nil {
		panic("ratelimit: NewPerConnection: " + err.Error())
	}
	m := &perConnection{rejecter: rejecter{Options: o}, plan: plan, start: time.Now()}
	if m.Key != nil {
		panic("ratelimit: NewPerConnection with a Key; the subject is the connection: leave it nil, or use New")
	}
	m.epoch = m.start.UnixMicro()
	m.state = ingress.NewKey[*connState]()
	return m.middleware
}

type perConnection struct {
	rejecter
	plan  *limit.Plan
	start time.Time
	epoch int64 // start, in microseconds
	state *ingress.Key[*connState]
}

// connState is a connection's, whose frames come one at a time.
type connState struct{ words []int64 }

const connectionLimiter = "connection"

func (m *perConnection) middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		cost := 1
		if m.Cost != nil {
			if cost = m.Cost(c); cost < 1 {
				return m.invalidCost(c, connectionLimiter, cost)
			}
		}
		var d limit.Decision
		m.take(&d, c, int64(cost))
		switch {
		case !d.Allowed:
			if err := m.limited(c, connectionLimiter, int64(cost), &d); err != nil {
				return err
			}
		case d.Wait > 0 && !m.Shadow:
			if err := c.Hold(d.Wait); err != nil {
				return err
			}
		}
		return next(c)
	}
}

func (m *perConnection) take(d *limit.Decision, c *ingress.Context, cost int64) {
	s, ok := m.state.Get(&c.Identity)
	if !ok {
		s = &connState{words: make([]int64, 0, m.plan.Width())}
		m.state.Set(&c.Identity, s)
	}
	// The monotonic clock is never set back.
	now := m.epoch + time.Since(m.start).Microseconds()
	s.words, _ = m.plan.Take(d, s.words, now, cost)
}
