package limit

import (
	"hash/fnv"

	"github.com/wskit/wskit/errors"
)

// A Plan is a policy that has been checked and made ready: everything that
// does not depend on the moment is computed once. A [Limiter] hands its plan to
// the store as the policy, so a store calls [Compile] on whatever it is given
// and pays for it only when somebody passes a bare policy.
//
// The methods of a plan are the algorithms as pure functions: state, instant
// and cost in; decision and next state out. Instants are microseconds since the
// Unix epoch, 0 ≤ now < 2⁵². State is a sequence of integers below 2⁵³; its
// layout is documented with each algorithm. No state is the same as all zeros:
// nothing has been used.
//
// A plan never changes and may be used by any number of goroutines.
type Plan struct {
	policy  Policy
	name    string
	scope   string
	shape   string
	salt    uint64
	width   int
	ceiling int64
	kind    kind
	bucket  bucket
	fixed   fixed
	sliding sliding
	log     slidingLog
	parts   []*Plan // of a composite
	late    bool    // what the answer says can be told without the state
	paced   bool    // it may answer that one has to wait
	swaps   int     // how often to try without a lock: see [InProcess.Take]
}

type kind uint8

const (
	kindBucket kind = iota + 1
	kindFixed
	kindSliding
	kindLog
	kindAll
)

// Compile checks a policy and makes it ready. The error says what is wrong and
// what would be right. Compiling a plan returns that plan.
func Compile(policy Policy) (*Plan, error) {
	if plan, ok := policy.(*Plan); ok && plan != nil {
		return plan, nil
	}
	if policy == nil {
		return nil, errors.New("limit: the policy is nil: pass one, such as limit.TokenBucket{Capacity: 200, Refill: 100, Per: time.Second}")
	}
	return policy.compile()
}

func newPlan(policy Policy, shape string, width int, ceiling int64) *Plan {
	h := fnv.New64a()
	h.Write([]byte(shape))
	name := policy.String()
	return &Plan{policy: policy, name: name, scope: name, shape: shape, salt: h.Sum64(), width: width, ceiling: ceiling}
}

func (p *Plan) named(name string) *Plan {
	c := *p
	c.name, c.scope = name, name
	c.parts = make([]*Plan, len(p.parts))
	for i, part := range p.parts {
		c.parts[i] = part.named(name + "/" + part.name)
	}
	return &c
}

// within returns a copy of p whose scope is the limiter's name and p's own.
func (p *Plan) within(limiter string) *Plan {
	c := *p
	c.scope = limiter + ":" + p.name
	return &c
}

// Policy returns what the plan was made of.
func (p *Plan) Policy() Policy { return p.policy }

// String returns the name of the policy, which [Decision.Policy] reports. Of a
// composite it reports the part that bound.
func (p *Plan) String() string { return p.name }

func (p *Plan) compile() (*Plan, error) {
	if p == nil {
		return nil, errors.New("limit: the plan is nil: make one with limit.Compile")
	}
	return p, nil
}

// Parts are the plans of a composite ([All]), in order, or else p alone.
func (p *Plan) Parts() []*Plan {
	if p.kind != kindAll {
		return []*Plan{p}
	}
	return append([]*Plan(nil), p.parts...)
}

// Ceiling is the largest cost that can ever be admitted.
func (p *Plan) Ceiling() int64 { return p.ceiling }

// Width is how many integers the state takes, and 0 when that varies.
func (p *Plan) Width() int { return p.width }

// Shape names the layout of the state. State of one shape means nothing under
// another: a store keeps the shape with the state, or in its key, and treats
// state of another shape as none. Policies that differ in their numbers alone
// share a shape, so a changed rate keeps what has been used.
func (p *Plan) Shape() string { return p.shape }

// Salt is a number that differs between shapes and is the same in every
// process, for stores that tell shapes apart in a hash.
func (p *Plan) Salt() uint64 { return p.salt }

// Scope names the limiter this plan was made for and its policy, or the policy
// alone when there is no limiter. A store whose memory is full makes new keys of
// one scope and one policy share; others never do.
func (p *Plan) Scope() string { return p.scope }

// CheckCost refuses a cost that is not at least 1: a cost of 0 would bypass
// the limit and a negative one would mint tokens. Stores call it too, since a
// limiter is not the only way to reach them.
func CheckCost(cost int64) error {
	if cost >= 1 {
		return nil
	}
	return errors.InvalidArgument.Errorf("limit: the cost is %d; it must be at least 1", cost)
}

// Prepare is what a store begins a decision with: it refuses what [CheckCost] and
// [Compile] refuse, in this order, and returns the plan to decide by.
func Prepare(policy Policy, cost int64) (*Plan, error) {
	if err := CheckCost(cost); err != nil {
		return nil, err
	}
	return Compile(policy)
}

// CheckAnswers refuses a call for several decisions that has not exactly one
// answer to fill in for each. Stores call it too.
func CheckAnswers(asks, answers int) error {
	if asks == answers {
		return nil
	}
	return errors.InvalidArgument.Errorf("limit: %d asks and room for %d answers; give as many", asks, answers)
}
