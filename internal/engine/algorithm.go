package engine

// A view is what the state of one limit means at an instant, before and after a
// cost is charged. It splits a decision into three steps. A store holds its lock
// for the first two only:
//
//	look    reads the state and says whether the cost fits
//	write   charges it, or stores a corrected state
//	answer  turns the view into an Answer
type view struct {
	used  int64 // in the units of the algorithm
	start int64 // of a window: its start; of a log: how many of its pairs are too old
	end   int64 // of a fixed window: its end
	until int64 // once written: the instant from which on the state means the same as no state
	// fits: the cost fits. corrected: the clock was set back so far that the state
	// must be written again, even if nothing is charged.
	fits, corrected bool
}

// look reads a complete state at the instant now.
func (p *Plan) look(v *view, state []int64, now, cost int64) {
	switch p.kind {
	case kindBucket:
		p.bucket.look(v, state, now)
		v.fits = p.bucket.fits(v, cost)
	case kindFixed:
		p.fixed.look(v, state, now)
		v.fits = cost <= p.Ceiling-v.used
	case kindSliding:
		p.sliding.look(v, state, now)
		v.fits = cost <= p.Ceiling-v.used
	case kindLog:
		p.log.look(v, state, now)
		v.fits = cost <= p.Ceiling-v.used
	}
}

// write charges cost to the state at the offset, and returns all of state.
func (p *Plan) write(v *view, state []int64, offset int, now, cost int64) []int64 {
	switch p.kind {
	case kindBucket:
		p.bucket.write(v, state[offset:], now, cost)
	case kindFixed:
		p.fixed.write(v, state[offset:], cost)
	case kindSliding:
		p.sliding.write(v, state[offset:], cost)
	case kindLog:
		state = p.log.write(v, state, offset, now, cost)
	}
	return state
}

// tell fills d from the view.
func (p *Plan) tell(d *Answer, v *view, state []int64, now, cost int64, charged bool) {
	switch p.kind {
	case kindBucket:
		p.bucket.answer(d, v, now, cost, charged)
	case kindFixed:
		p.fixed.answer(d, v, now, cost)
	case kindSliding:
		p.sliding.answer(d, v, state, now, cost)
	case kindLog:
		p.log.answer(d, v, state, now, cost)
	}
}

// resetAfter is how many microseconds it takes until state means the same as no state. written says
// that it was written since the look of v.
func (p *Plan) resetAfter(v *view, state []int64, now int64, written bool) int64 {
	switch p.kind {
	case kindBucket:
		return p.bucket.resetAfter(v, now, written)
	case kindFixed:
		return p.fixed.resetAfter(v, now)
	case kindSliding:
		return p.sliding.resetAfter(v, state, now)
	default:
		return p.log.resetAfter(v, state, now)
	}
}

// complete appends zeros to a state that is missing or too short. Zeros mean that
// nothing has been used.
func (p *Plan) complete(state []int64) []int64 {
	if need := p.least() - len(state); need > 0 {
		state = append(state, make([]int64, need)...)
	}
	return state
}

// least is the length of the shortest state.
func (p *Plan) least() int {
	switch {
	case p.kind == kindLog:
		return 1
	case p.Width > 0:
		return p.Width
	}
	n := 0
	for _, part := range p.Parts {
		n += part.least()
	}
	return n
}

// size is the length of the state of a plan at the beginning of state.
func (p *Plan) size(state []int64) int {
	if p.kind == kindLog {
		return 1 + 2*int(state[0])
	}
	return p.Width
}

// charge is look and write for a plan that is no composite.
func (p *Plan) charge(v *view, state []int64, now, cost int64) (next []int64, write bool) {
	p.look(v, state, now, cost)
	switch {
	case v.fits:
		return p.write(v, state, 0, now, cost), true
	case v.corrected:
		return p.write(v, state, 0, now, 0), true
	}
	return state, false
}

// answer fills d with the decision for v.
func (p *Plan) answer(d *Answer, v *view, state []int64, now, cost int64, charged bool) {
	*d = Answer{Policy: p.Name, Allowed: v.fits, At: now}
	if charged {
		d.Charged = cost
	}
	p.tell(d, v, state, now, cost, charged)
}
