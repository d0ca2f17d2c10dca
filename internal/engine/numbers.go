package engine

// Kinds of algorithms, for implementations in other languages. The kind is the first of the
// [Plan.Numbers] of each part.
const (
	KindBucket   = int64(kindBucket)  // p, q, full, horizon: see bucket.go
	KindFixed    = int64(kindFixed)   // width of a window
	KindSliding  = int64(kindSliding) // width of a sub-window, their number n
	KindLog      = int64(kindLog)     // window
	KindCalendar = KindLog + 1        // a fixed window by the calendar: the starts of four windows
)

// NumbersPerPart is how many numbers [Plan.Numbers] appends for every part.
const NumbersPerPart = 6

// Numbers appends the parameters of the plan, which an implementation in another language
// receives with every call: for each part the kind, four numbers of that kind (0 where it
// has fewer) and the ceiling. All are below 2⁵³. A [Pacer] is a bucket here; only its
// answer differs. Of a calendar they hold while the clock is within the windows before,
// at and after now: for a day at least, on either side.
func (p *Plan) Numbers(dst []int64, now int64) []int64 {
	switch p.kind {
	case kindBucket:
		return append(dst, KindBucket, p.bucket.p, p.bucket.q, p.bucket.full, p.bucket.horizon, p.Ceiling)
	case kindFixed:
		if c := p.fixed.calendar; c != nil {
			starts := c.starts(now)
			return append(append(append(dst, KindCalendar), starts[:]...), p.Ceiling)
		}
		return append(dst, KindFixed, p.fixed.width, 0, 0, 0, p.Ceiling)
	case kindSliding:
		return append(dst, KindSliding, p.sliding.width, int64(p.sliding.n), 0, 0, p.Ceiling)
	case kindLog:
		return append(dst, KindLog, p.log.window, 0, 0, 0, p.Ceiling)
	}
	for _, part := range p.Parts {
		dst = part.Numbers(dst, now)
	}
	return dst
}

// Complete appends zeros, which mean that nothing was used, until the state has the length
// that the plan needs. States may be stored without the zeros at their end, and a damaged
// one must not be read beyond its end.
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

// Denies reports whether [Plan.Take] would deny cost and write nothing. If so, it fills in
// d as Take would; otherwise d is unchanged. The state must be complete.
func (p *Plan) Denies(d *Answer, state []int64, now, cost int64) bool {
	if p.kind == kindAll {
		var vs views
		if p.lookAll(&vs, state, now, cost); vs.fits || vs.corrected {
			return false
		}
		p.answerAll(d, &vs, state, now, cost, false)
		return true
	}
	var v view
	if p.look(&v, state, now, cost); v.fits || v.corrected {
		return false
	}
	p.answer(d, &v, state, now, cost, false)
	return true
}
