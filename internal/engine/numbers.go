package engine

// Kinds of algorithms, for implementations in another language: the first of the
// [Plan.Numbers] of every part.
const (
	KindBucket  = int64(kindBucket)  // p, q, full, horizon: see bucket.go
	KindFixed   = int64(kindFixed)   // window
	KindSliding = int64(kindSliding) // width of a sub-window, their number n
	KindLog     = int64(kindLog)     // window
)

// NumbersPerPart is how many numbers [Plan.Numbers] appends for every part.
const NumbersPerPart = 6

// Numbers appends what the arithmetic of the plan goes by, for an implementation
// in another language that is given it with every call: for each of its parts
// the kind, four numbers of that kind (0 where it has fewer) and the ceiling. All
// are below 2⁵³. A [Pacer] is a bucket that differs in what its answer says.
func (p *Plan) Numbers(dst []int64) []int64 {
	switch p.kind {
	case kindBucket:
		return append(dst, KindBucket, p.bucket.p, p.bucket.q, p.bucket.full, p.bucket.horizon, p.Ceiling)
	case kindFixed:
		return append(dst, KindFixed, p.fixed.window, 0, 0, 0, p.Ceiling)
	case kindSliding:
		return append(dst, KindSliding, p.sliding.width, int64(p.sliding.n), 0, 0, p.Ceiling)
	case kindLog:
		return append(dst, KindLog, p.log.window, 0, 0, 0, p.Ceiling)
	}
	for _, part := range p.Parts {
		dst = part.Numbers(dst)
	}
	return dst
}

// Complete lengthens a state by zeros, which mean that nothing was used, until it
// is one of the plan: for states that were kept without the zeros at their end,
// and lest one that was damaged is read beyond its end.
func (p *Plan) Complete(state []int64) []int64 {
	state = p.complete(state)
	if p.Width > 0 {
		return state
	}
	offset := 0
	for _, part := range p.Parts {
		for len(state) < offset+part.least() {
			state = append(state, 0)
		}
		if part.kind == kindLog && (state[offset] < 0 || state[offset] > MaxLog) {
			return p.complete(nil)
		}
		for len(state) < offset+part.size(state[offset:]) {
			state = append(state, 0)
		}
		offset += part.size(state[offset:])
	}
	return state
}

// Denies reports whether [Plan.Take] would deny cost and write nothing, and fills
// in d as it would. Otherwise d is left as it is. The state has to be complete.
func (p *Plan) Denies(d *Answer, state []int64, now, cost int64) bool {
	if p.kind == kindAll {
		var vs views
		if p.lookAll(&vs, state, now, cost); vs.fits || vs.healed {
			return false
		}
		p.answerAll(d, &vs, state, now, cost, false)
		return true
	}
	var v view
	if p.look(&v, state, now, cost); v.fits || v.healed {
		return false
	}
	p.answer(d, &v, state, now, cost, false)
	return true
}
