package engine

import (
	"fmt"
	"hash/fnv"
)

// A Plan is a policy that was checked and made ready: everything that does not depend on
// the instant is computed once. Its methods are the algorithms as pure functions: state,
// instant and cost in; answer and next state out. Instants are microseconds since the
// Unix epoch, 0 ≤ now < 2⁵². State is a sequence of integers below 2⁵³; its layout is
// documented with each algorithm. No state is the same as all zeros: nothing was used.
//
// A plan never changes and may be used by any number of goroutines.
type Plan struct {
	Policy  fmt.Stringer // what the plan was made of; it can be compared
	Name    string       // of the policy, which [Answer.Policy] reports
	Scope   string       // names the limiter and the policy: see [Plan.Within]
	Shape   string       // names the layout of the state
	Salt    uint64       // differs between shapes, and is the same in every process
	Width   int          // how many integers the state takes, 0 when that varies
	Ceiling int64        // the largest cost that can ever be admitted
	Parts   []*Plan      // of a composite, in order, or else the plan alone

	kind    kind
	bucket  bucket
	fixed   fixed
	sliding sliding
	log     slidingLog
	late    bool // the answer can be made without the state
	paced   bool // the answer may have a Wait
	swaps   int  // how often to try without a lock: see [Engine.Take]
}

type kind uint8

const (
	kindBucket kind = iota + 1
	kindFixed
	kindSliding
	kindLog
	kindAll
)

// newPlan begins the plan of a policy that is no composite.
func newPlan(policy fmt.Stringer, kind kind, shape string, width int, ceiling int64) *Plan {
	h := fnv.New64a()
	h.Write([]byte(shape))
	name := policy.String()
	p := &Plan{Policy: policy, Name: name, Scope: name, Shape: shape, Salt: h.Sum64(), Width: width, Ceiling: ceiling, kind: kind}
	p.Parts = []*Plan{p}
	return p
}

// copy returns a copy of p, which is its own part unless p is a composite.
func (p *Plan) copy() *Plan {
	c := *p
	if p.kind != kindAll {
		c.Parts = []*Plan{&c}
	}
	return &c
}

// Named returns a copy of p with a name of its own, which is also that of its parts.
func (p *Plan) Named(name string) *Plan {
	c := p.copy()
	c.Name, c.Scope = name, name
	if p.kind == kindAll {
		c.Parts = make([]*Plan, len(p.Parts))
		for i, part := range p.Parts {
			c.Parts[i] = part.Named(name + "/" + part.Name)
		}
	}
	return c
}

// Within returns a copy of p whose scope is the limiter's name and p's own. An engine
// that is full makes new keys of one scope and one policy share states; others never do.
func (p *Plan) Within(limiter string) *Plan {
	c := p.copy()
	c.Scope = limiter + ":" + p.Name
	return c
}
