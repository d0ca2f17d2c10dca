package engine

import (
	"fmt"
	"strings"
)

// MaxParts is the largest number of parts of a plan.
const MaxParts = 8

// All makes one plan of 1 to MaxParts parts, which are no composites: see limit.All.
func All(policy fmt.Stringer, parts []*Plan) *Plan {
	if len(parts) == 1 {
		return parts[0]
	}
	shapes, width, ceiling := make([]string, len(parts)), 0, parts[0].Ceiling
	late, paced, varies := true, false, false
	for i, part := range parts {
		shapes[i] = part.Shape
		width += part.Width
		varies = varies || part.Width == 0
		late = late && part.late
		paced = paced || part.paced
		ceiling = min(ceiling, part.Ceiling)
	}
	if varies {
		width = 0
	}
	plan := newPlan(policy, kindAll, strings.Join(shapes, "+"), width, ceiling)
	plan.Parts, plan.late, plan.paced = parts, late, paced
	return plan
}

// views are the views of the parts of a composite. Its state consists of the states of the
// parts, one after the other.
type views struct {
	part            [MaxParts]view
	until           int64
	fits, corrected bool
}

// lookAll looks at every part. The cost fits if it fits in all of them.
func (p *Plan) lookAll(vs *views, state []int64, now, cost int64) {
	vs.fits = true
	for i, part := range p.Parts {
		v := &vs.part[i]
		part.look(v, state, now, cost)
		vs.fits = vs.fits && v.fits
		vs.corrected = vs.corrected || v.corrected
		state = state[part.size(state):]
	}
}

// chargeAll charges every part or none. Corrected parts are written in either case.
func (p *Plan) chargeAll(vs *views, state []int64, now, cost int64) (next []int64, write bool) {
	p.lookAll(vs, state, now, cost)
	switch {
	case vs.fits:
		return p.writeAll(vs, state, now, cost, true), true
	case vs.corrected:
		return p.writeAll(vs, state, now, 0, false), true
	}
	return state, false
}

// writeAll writes every part, or only the corrected ones.
func (p *Plan) writeAll(vs *views, state []int64, now, cost int64, every bool) []int64 {
	offset := 0
	for i, part := range p.Parts {
		if v := &vs.part[i]; every || v.corrected {
			state = part.write(v, state, offset, now, cost)
			vs.until = max(vs.until, v.until)
		}
		offset += part.size(state[offset:])
	}
	return state
}

// answerAll fills d with the decision of the binding part.
func (p *Plan) answerAll(d *Answer, vs *views, state []int64, now, cost int64, charged bool) {
	if charged && p.late && !p.paced {
		p.answerCharged(d, vs, now, cost)
		return
	}
	*d = Answer{}
	bound, reset := p.Parts[0], d.ResetAfter
	wait := d.Wait
	for i, part := range p.Parts {
		var one Answer
		v := &vs.part[i]
		one.Allowed = v.fits
		part.tell(&one, v, state, now, cost, charged)
		reset = max(reset, one.ResetAfter)
		wait = max(wait, one.Wait)
		if i == 0 || Binds(&one, d) {
			*d, bound = one, part
		}
		if state != nil {
			state = state[part.size(state):]
		}
	}
	d.Policy, d.ResetAfter, d.At, d.Wait = bound.Name, reset, now, 0
	if d.Allowed {
		d.Wait = wait
	}
	if charged {
		d.Charged = cost
	}
}

// answerCharged is answerAll after a charge: the part with the least remaining decides.
func (p *Plan) answerCharged(d *Answer, vs *views, now, cost int64) {
	bound, least := 0, p.Parts[0].remaining(&vs.part[0])
	for i := 1; i < len(p.Parts); i++ {
		if left := p.Parts[i].remaining(&vs.part[i]); left < least {
			bound, least = i, left
		}
	}
	part := p.Parts[bound]
	*d = Answer{
		Allowed: true, Limit: part.Ceiling, Remaining: least, ResetAfter: micros(vs.until - now),
		Policy: part.Name, Charged: cost, At: now,
	}
}

// remaining is how many whole units are left.
func (p *Plan) remaining(v *view) int64 {
	if p.kind == kindBucket {
		return floorDiv(max(0, p.bucket.full-v.used), p.bucket.p)
	}
	return max(0, p.Ceiling-v.used)
}

// Binds reports whether a is the limit to name in the decision, rather than b. If they are
// equal, b is.
func Binds(a, b *Answer) bool {
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
