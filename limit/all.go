package limit

import (
	"fmt"
	"strings"

	"github.com/wskit/wskit/errors"
)

// MaxParts is the largest number of policies in [All].
const MaxParts = 8

// All puts several limits on one subject: 10 a second and 1,000 a day. A cost
// is charged to all of them or, when one denies it, to none, in one atomic step.
// The decision is that of the policy that bound: of those that deny, the one with
// the longest wait; otherwise the one that has the least left. It is impossible
// when it is for any, and ResetAfter is the longest of all.
//
// An All within an All is flattened. At most [MaxParts] policies may be given.
func All(policies ...Policy) Policy {
	var a all
	for _, p := range policies {
		a.add(p)
	}
	return a
}

// all is an array rather than a slice, so that it can be compared like any
// other policy.
type all struct {
	parts [MaxParts]Policy
	n     int // what was given, which may be more than there is room for
}

func (a *all) add(p Policy) {
	switch p := p.(type) {
	case all:
		for i := range min(p.n, MaxParts) {
			a.add(p.parts[i])
		}
		a.n += max(0, p.n-MaxParts)
	default:
		if a.n < MaxParts {
			a.parts[a.n] = p
		}
		a.n++
	}
}

// String returns "all(…,…)".
func (a all) String() string {
	names := make([]string, min(a.n, MaxParts))
	for i := range names {
		names[i] = "nil"
		if p := a.parts[i]; p != nil {
			names[i] = p.String()
		}
	}
	return "all(" + strings.Join(names, ",") + ")"
}

func (a all) compile() (*Plan, error) {
	switch {
	case a.n == 0:
		return nil, errors.New("limit: All without a policy: give it at least one; nothing means unlimited by being empty")
	case a.n > MaxParts:
		return nil, tooMany(a.n)
	}
	var parts []*Plan
	for _, p := range a.parts[:a.n] {
		plan, err := Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%w (in All)", err)
		}
		if plan.kind == kindAll {
			parts = append(parts, plan.parts...)
		} else {
			parts = append(parts, plan)
		}
	}
	if len(parts) > MaxParts {
		return nil, tooMany(len(parts))
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	shapes, width, ceiling := make([]string, len(parts)), 0, parts[0].ceiling
	late, paced := true, false
	for i, part := range parts {
		shapes[i] = part.shape
		width += part.width
		late = late && part.late
		paced = paced || part.paced
		ceiling = min(ceiling, part.ceiling)
	}
	for _, part := range parts {
		if part.width == 0 {
			width = 0
		}
	}
	plan := newPlan(a, strings.Join(shapes, "+"), width, ceiling)
	plan.kind, plan.parts, plan.late, plan.paced = kindAll, parts, late, paced
	return plan, nil
}

func tooMany(n int) error {
	return fmt.Errorf("limit: All of %d policies: at most %d are allowed", n, MaxParts)
}

// views are those of the parts of a composite. Its state is that of the parts,
// one after the other.
type views struct {
	part         [MaxParts]view
	until        int64
	fits, healed bool
}

// lookAll looks at every part: all of them must have room.
func (p *Plan) lookAll(vs *views, state []int64, now, cost int64) {
	vs.fits = true
	for i, part := range p.parts {
		v := &vs.part[i]
		part.look(v, state, now, cost)
		vs.fits = vs.fits && v.fits
		vs.healed = vs.healed || v.healed
		state = state[part.size(state):]
	}
}

// chargeAll charges every part or none. Parts that had to be healed are
// written in either case.
func (p *Plan) chargeAll(vs *views, state []int64, now, cost int64) (next []int64, write bool) {
	p.lookAll(vs, state, now, cost)
	switch {
	case vs.fits:
		return p.writeAll(vs, state, now, cost, true), true
	case vs.healed:
		return p.writeAll(vs, state, now, 0, false), true
	}
	return state, false
}

// writeAll writes every part, or those that had to be healed.
func (p *Plan) writeAll(vs *views, state []int64, now, cost int64, every bool) []int64 {
	offset := 0
	for i, part := range p.parts {
		if v := &vs.part[i]; every || v.healed {
			state = part.write(v, state, offset, now, cost)
			vs.until = max(vs.until, v.until)
		}
		offset += part.size(state[offset:])
	}
	return state
}

// answerAll makes the decision of the part that bound.
func (p *Plan) answerAll(d *Decision, vs *views, state []int64, now, cost int64, charged bool) {
	if charged && p.late && !p.paced {
		p.answerCharged(d, vs, now, cost)
		return
	}
	*d = Decision{}
	bound, reset := p.parts[0], d.ResetAfter
	wait := d.Wait
	for i, part := range p.parts {
		var one Decision
		v := &vs.part[i]
		one.Allowed = v.fits
		part.tell(&one, v, state, now, cost, charged)
		reset = max(reset, one.ResetAfter)
		wait = max(wait, one.Wait)
		if i == 0 || binds(&one, d) {
			*d, bound = one, part
		}
		if state != nil {
			state = state[part.size(state):]
		}
	}
	d.Policy, d.ResetAfter, d.At, d.Wait = bound.name, reset, now, 0
	if d.Allowed {
		d.Wait = wait
	}
	if charged {
		d.Charged = cost
	}
}

// answerCharged is answerAll after a charge, where only the part with the least
// left has to be asked.
func (p *Plan) answerCharged(d *Decision, vs *views, now, cost int64) {
	bound, least := 0, p.parts[0].remaining(&vs.part[0])
	for i := 1; i < len(p.parts); i++ {
		if left := p.parts[i].remaining(&vs.part[i]); left < least {
			bound, least = i, left
		}
	}
	part := p.parts[bound]
	*d = Decision{
		Allowed: true, Limit: part.ceiling, Remaining: least, ResetAfter: micros(vs.until - now),
		Policy: part.name, Charged: cost, At: now,
	}
}

// remaining is how many whole units are left.
func (p *Plan) remaining(v *view) int64 {
	if p.kind == kindBucket {
		return floorDiv(max(0, p.bucket.full-v.used), p.bucket.p)
	}
	return max(0, p.ceiling-v.used)
}

// binds reports whether a rather than b is the limit to name. Of equals it is
// the one named first.
func binds(a, b *Decision) bool {
	switch {
	case a.Impossible != b.Impossible:
		return a.Impossible
	case a.Allowed != b.Allowed:
		return b.Allowed
	case a.Allowed:
		return a.Remaining < b.Remaining
	default:
		return a.RetryAfter > b.RetryAfter
	}
}
