package ratelimit

import (
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// NewPerConnection returns middleware that limits each connection separately. The state is in
// the connection and ends with it: there is no key and no store, and after the first frame
// nothing is allocated (a [limit.SlidingLog] grows with its entries).
//
// It reduces the load of stores. It does not protect by itself: a client that reconnects gets a
// new limit, and one with ten connections has ten limits. Use it together with a limit by user
// or address.
//
// If it is added before other limits, frames that it rejects do not reach them. If it is added
// after them, it counts the frames that they let pass.
//
// The name of the limiter in rejections is "connection"; name the policy with [limit.Named].
// At most one Options may be given. It panics if the policy is not valid.
func NewPerConnection(policy limit.Policy, options ...Options) ingress.Middleware {
	plan, err := limit.Compile(policy)
	if err != nil {
		panic("ratelimit: NewPerConnection: " + err.Error())
	}
	o := given.Must("ratelimit", "NewPerConnection", options)
	m := &perConnection{Enforcer: enforce.Enforcer{Options: o.enforced()}, cost: o.Cost, plan: plan, start: time.Now()}
	m.epoch = m.start.UnixMicro()
	m.state = ingress.NewKey[*connState]()
	return m.middleware
}

type perConnection struct {
	enforce.Enforcer
	cost  func(*ingress.Context) int
	plan  *limit.Plan
	start time.Time
	epoch int64 // start, in microseconds
	state *ingress.Key[*connState]
}

// connState is the state of a connection, whose frames come one at a time.
type connState struct{ words []int64 }

const connectionLimiter = "connection"

func (m *perConnection) middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		if c.Exempt {
			return next(c)
		}
		if c.Peek {
			if a := m.announced(); a.Name != "" && !a.Hidden {
				var d limit.Decision
				m.plan.Peek(&d, m.stateOf(c).words, m.now(), 1)
				a.Report(c, m.plan, nil, 1, &d)
			}
			return next(c)
		}
		cost, err := m.CostOf(c, m.cost, connectionLimiter)
		if err != nil {
			return err
		}
		var d limit.Decision
		m.take(&d, c, cost)
		if c.State.Limits != nil {
			a := m.announced()
			a.Report(c, m.plan, nil, cost, &d)
		}
		switch {
		case !d.Allowed:
			if err := m.Refuse(c, &d, enforce.Limited{Limiter: connectionLimiter, Cost: cost}, false); err != nil {
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
	s := m.stateOf(c)
	s.words, _ = m.plan.Take(d, s.words, m.now(), cost)
}

func (m *perConnection) stateOf(c *ingress.Context) *connState {
	s, ok := m.state.Get(&c.Identity)
	if !ok {
		s = &connState{words: make([]int64, 0, m.plan.Width())}
		m.state.Set(&c.Identity, s)
	}
	return s
}

// now is the monotonic clock, which is never set back.
func (m *perConnection) now() int64 { return m.epoch + time.Since(m.start).Microseconds() }

// announced returns the limit as clients see it.
func (m *perConnection) announced() enforce.Announced {
	a := enforce.Announced{Source: m, Name: m.Announce, Hidden: m.Shadow || m.Silent}
	if m.cost == nil {
		a.Cost = 1
	}
	return a
}
