package engine

import (
	"fmt"
	"hash/fnv"
)

// A Plan is a validated policy: everything that does not depend on the instant is computed
// once. Its methods are the algorithms as pure functions: state, instant and cost in; answer
// and next state out. Instants are microseconds since the Unix epoch, 0 ≤ now < 2⁵². A state
// is a sequence of integers below 2⁵³; each algorithm documents its layout. No state is the
// same as all zeros: nothing was used.
//
// A plan is immutable and may be used concurrently.
type Plan struct {
	Policy  fmt.Stringer // the policy of the plan; it is comparable
	Name    string       // of the policy, which [Answer.Policy] reports
	Scope   string       // names the limiter and the policy: see [Plan.Within]
	Shape   string       // names the layout of the state
	Salt    uint64       // differs between shapes, and is the same in every process
	Width   int          // how many integers the state has, 0 if that varies
	Ceiling int64        // the largest cost that can ever be admitted
	Parts   []*Plan      // of a composite: its parts in order; otherwise the plan itself

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

// newPlan makes the common part of a plan that is no composite.
func newPlan(policy fmt.Stringer, kind kind, shape string, width int, ceiling int64) *Plan {
	h := fnv.New64a()
	h.Write([]byte(shape))
	name := policy.String()
	p := &Plan{Policy: policy, Name: name, Scope: name, Shape: shape, Salt: h.Sum64(), Width: width, Ceiling: ceiling, kind: kind}
	p.Parts = []*Plan{p}
	return p
}

// copy returns a copy of p. Unless p is a composite, the copy is its own only part.
func (p *Plan) copy() *Plan {
	c := *p
	if p.kind != kindAll {
		c.Parts = []*Plan{&c}
	}
	return &c
}

// Named returns a copy of p in which it and its parts have the given name.
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

// Within returns a copy of p whose scope is made of the limiter's name and p's own scope. In
// a full engine new keys share states with keys of the same scope and policy only.
func (p *Plan) Within(limiter string) *Plan {
	c := p.copy()
	c.Scope = limiter + ":" + p.Name
	return c
}
