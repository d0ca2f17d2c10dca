package limit

import (
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/engine"
)

// A Plan is a policy that was checked and made ready, for authors of a [Store]. A
// [Limiter] passes its plan to the store as the policy; a store calls [Compile] on
// whatever it gets, which costs nothing for a plan.
//
// Take, Peek, Refund and Reset are the algorithms as pure functions: state, instant and
// cost in; decision and next state out. Instants are microseconds since the Unix epoch,
// 0 ≤ now < 2⁵². State is a sequence of integers below 2⁵³. No state is the same as all
// zeros: nothing was used.
//
// A plan never changes and may be used by any number of goroutines.
type Plan struct{ compiled *engine.Plan }

// Compile checks a policy and makes it ready. The error says what is wrong and what would be right.
// Use it for policies that come from configuration, because [New] panics on an invalid one.
// Compiling a plan returns that plan.
func Compile(policy Policy) (*Plan, error) {
	if plan, ok := policy.(*Plan); ok && plan != nil {
		return plan, nil
	}
	compiled, err := compile(policy)
	if err != nil {
		return nil, err
	}
	return &Plan{compiled}, nil
}

func compile(policy Policy) (*engine.Plan, error) {
	if policy == nil {
		return nil, errors.New("limit: the policy is nil: pass one, such as limit.TokenBucket{Capacity: 200, Refill: 100, Per: time.Second}")
	}
	return policy.compile()
}

func (p *Plan) compile() (*engine.Plan, error) {
	if p == nil {
		return nil, errors.New("limit: the plan is nil: make one with limit.Compile")
	}
	return p.compiled, nil
}

// within returns a copy of p whose states belong to the named limiter.
func (p *Plan) within(limiter string) *Plan { return &Plan{p.compiled.Within(limiter)} }

// Compiled returns the plan as the packages of this module use it. Other modules cannot
// use it, for its type is internal.
func (p *Plan) Compiled() *engine.Plan { return p.compiled }

// String returns the name of the policy, which [Decision.Policy] reports. The decision of
// an [All] reports the policy in it that decided.
func (p *Plan) String() string { return p.compiled.Name }

// Width is how many integers the state takes, and 0 when that varies.
func (p *Plan) Width() int { return p.compiled.Width }

// Shape names the layout of the state. State of one shape is not valid under another: a store keeps
// the shape with the state, or in its key, and treats state of another shape as none. Policies that
// differ in their numbers alone share a shape, so that what has been used still counts after a rate
// was changed.
func (p *Plan) Shape() string { return p.compiled.Shape }

// Take decides whether cost fits now, charges it when it does, and fills d with the
// answer. The cost must be at least 1: see [Prepare].
//
// It writes the next state into state, growing it as append does when it is too short
// (nil is fine), and returns it with write = true. The store then keeps it until the
// instant now + [Decision.ResetAfter], when it equals no state, and for [ClockTolerance]
// longer where the clock may be set back. With write = false nothing has changed and
// nothing is to be stored: that is so for every denial, unless the state had to be
// corrected after the clock was set back.
func (p *Plan) Take(d *Decision, state []int64, now, cost int64) (next []int64, write bool) {
	return p.compiled.Take((*engine.Answer)(d), state, now, cost)
}

// Peek fills d with what [Plan.Take] would decide, and changes nothing: Allowed says
// whether the cost would fit, and Remaining and ResetAfter are those of what has been used
// without it.
func (p *Plan) Peek(d *Decision, state []int64, now, cost int64) {
	p.compiled.Peek((*engine.Answer)(d), state, now, cost)
}

// Refund gives back what the decision taken has charged, as far as that is safe: at no
// time do the admissions that were not refunded exceed what the policy would have admitted
// without the refunded ones. docs/decisions/refunds.md says how much each policy gives back, with the
// proof. A charge that lies further ahead than [ClockTolerance] gives nothing back.
//
// reset is the instant of the last reset of the key, 0 when none is remembered: what was
// charged by then gives nothing back. A store keeps it as [Plan.Reset] says.
//
// A state does not tell whether a decision was refunded before: one that is refunded twice
// counts as two charges. The parts of a charge may be refunded one by one, with Charged set
// to each. A refund that gives nothing back returns write = false. The state equals none
// after resetAfter.
func (p *Plan) Refund(state []int64, now, reset int64, taken *Decision) (next []int64, resetAfter time.Duration, write bool) {
	return p.compiled.Refund(state, now, reset, (*engine.Answer)(taken))
}

// Reset is for a store that deletes a state at the instant now. The store keeps that
// instant until end, for [Plan.Refund], and longer by as much as its clock may be set back.
// When end is 0, nothing counts that could be refunded, and there is nothing to remember.
// (An instant that was remembered before stays.)
func (p *Plan) Reset(state []int64, now int64) (end int64) { return p.compiled.Reset(state, now) }

// ClockTolerance is how far a clock may go back and forth without admitting one unit
// more. State of windows and buckets that lies further ahead of the clock means that the
// clock was set back: it is corrected to a full use from now.
const ClockTolerance = engine.ClockTolerance

// Prepare refuses a cost below 1 and compiles the policy: [Store.Take] begins with it. A cost of 0
// would bypass the limit and a negative one would give units back.
func Prepare(policy Policy, cost int64) (*Plan, error) {
	if err := checkCost(cost); err != nil {
		return nil, err
	}
	return Compile(policy)
}

func checkCost(cost int64) error {
	if cost >= 1 {
		return nil
	}
	return errors.InvalidArgument.Errorf("limit: the cost is %d; it must be at least 1", cost)
}
