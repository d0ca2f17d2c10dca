package engine

import "time"

// Take decides whether cost fits now, charges it if it does, and fills d with
// the answer. The cost must be at least 1.
//
// With write = true the caller must store next. It is written into state, which grows as
// with append (nil is allowed). The caller keeps it until now + [Answer.ResetAfter]; from then
// on it means the same as no state. If the clock may be set back, the caller keeps it for
// [ClockTolerance] longer: otherwise a clock that jumps back would find no state, and the
// whole limit would be admitted again.
//
// With write = false nothing has changed and nothing needs to be stored. This is so for
// every denial, unless the state had to be corrected after the clock was set back.
//
// d is a parameter and not a result, because copying it through several calls would take
// as long as computing it.
func (p *Plan) Take(d *Answer, state []int64, now, cost int64) (next []int64, write bool) {
	return p.decide(d, state, now, cost, true)
}

// decide is Take. If charge is false it charges nothing, but still writes corrections.
func (p *Plan) decide(d *Answer, state []int64, now, cost int64, charge bool) (next []int64, write bool) {
	state = p.complete(state)
	if p.kind == kindAll {
		var vs views
		p.lookAll(&vs, state, now, cost)
		charge = charge && vs.fits
		switch {
		case charge:
			state, write = p.writeAll(&vs, state, now, cost, true), true
		case vs.corrected:
			state, write = p.writeAll(&vs, state, now, 0, false), true
		}
		p.answerAll(d, &vs, state, now, cost, charge)
		return state, write
	}
	var v view
	p.look(&v, state, now, cost)
	charge = charge && v.fits
	switch {
	case charge:
		state, write = p.write(&v, state, 0, now, cost), true
	case v.corrected:
		state, write = p.write(&v, state, 0, now, 0), true
	}
	p.answer(d, &v, state, now, cost, charge)
	return state, write
}

// Peek fills d with what [Plan.Take] would decide, and changes nothing. Allowed
// says whether the cost would fit. Remaining and ResetAfter do not include the cost.
func (p *Plan) Peek(d *Answer, state []int64, now, cost int64) {
	if need := p.least(); len(state) < need {
		state = make([]int64, need)
	}
	if p.kind == kindAll {
		var vs views
		p.lookAll(&vs, state, now, cost)
		if vs.corrected {
			state = p.writeAll(&vs, append([]int64(nil), state...), now, 0, false)
		}
		p.answerAll(d, &vs, state, now, cost, false)
		return
	}
	var v view
	p.look(&v, state, now, cost)
	if v.corrected { // answer as if it had been written
		state = p.write(&v, append([]int64(nil), state...), 0, now, 0)
	}
	p.answer(d, &v, state, now, cost, false)
}

// Refund gives back what the decision taken has charged, as far as that is safe:
// at no time do the admissions that were not refunded exceed what the policy would
// have admitted if the refunded ones had never happened. The parts of an [All] are
// independent. With c the cost, charged at the instant s, and now = t:
//
//	bucket, pacer    c − rate·(t − s), and no more than is owed at t
//	fixed window     c, in the window of s; nothing in any other
//	sliding window   c, from the sub-window of s while it counts
//	sliding log      c, from the pair of s while it counts
//
// Nothing is rounded. docs/decisions/refunds.md has the proof. It assumes that at the refund the clock
// is not behind an earlier charge. If it is behind by d, a bucket may give back up to
// rate·d too much. A charge further ahead of the clock than [ClockTolerance] gives nothing
// back. A charge to a window or a log may give nothing back if the clock was behind the
// state when it was made.
//
// reset is the instant of the last reset of the key, or 0 if none is known. Charges up to
// that instant give nothing back, because the reset has deleted them. [Plan.Reset] tells a
// store how long to keep the instant.
//
// A state does not record refunds: a decision that is refunded twice counts as two
// charges. A charge may be refunded in portions, with Charged set to each.
//
// The state may have been written under other numbers of the policy; the rules are the
// same. If the clock was set back and the state must be corrected, it is corrected and
// nothing is given back. A refund that gives nothing back writes nothing. The results are
// those of [Plan.Take]; after resetAfter the state means the same as no state.
func (p *Plan) Refund(state []int64, now, reset int64, taken *Answer) (next []int64, resetAfter time.Duration, write bool) {
	if taken.Charged < 1 || len(state) == 0 {
		return state, 0, false
	}
	nothing := reset > 0 && taken.At <= reset && plausible(reset, now) || taken.At-now > correctAfter
	state = p.complete(state)
	offset, last := 0, int64(0)
	for _, part := range p.Parts {
		var v view
		var changed bool
		part.look(&v, state[offset:], now, 1)
		switch {
		case v.corrected:
			state, changed = part.write(&v, state, offset, now, 0), true
		case v.used == 0 || nothing:
		case part.kind == kindBucket:
			changed = part.bucket.refund(&v, state[offset:], now, taken.Charged, taken.At)
		case part.kind == kindFixed:
			changed = part.fixed.refund(&v, state[offset:], taken.Charged, taken.At)
		case part.kind == kindSliding:
			changed = part.sliding.refund(&v, state[offset:], taken.Charged, taken.At)
		case part.kind == kindLog:
			state, changed = part.log.refund(state, offset, now, taken.Charged, taken.At)
		}
		write = write || changed
		last = max(last, part.resetAfter(&v, state[offset:], now, changed))
		offset += part.size(state[offset:])
	}
	return state, micros(last), write
}

// Reset is called by a store that deletes a state at the instant now. The store must keep
// that instant for [Plan.Refund] until end, and longer by as much as its clock may be set
// back. If end is 0, no charge can be refunded and nothing needs to be kept. An instant
// that was kept before stays.
func (p *Plan) Reset(state []int64, now int64) (end int64) {
	state, used := p.complete(state), false
	for _, part := range p.Parts {
		var v view
		part.look(&v, state, now, 1)
		used = used || v.used > 0
		end = max(end, part.refundsEnd(now))
		state = state[part.size(state):]
	}
	if !used {
		return 0
	}
	return end
}

// refundsEnd is the instant from which on charges up to the instant at give nothing back.
// p is no composite.
func (p *Plan) refundsEnd(at int64) int64 {
	switch p.kind {
	case kindBucket:
		return at + ceilDiv(p.bucket.full, p.bucket.q)
	case kindFixed:
		return p.fixed.window(at).end
	case kindSliding:
		return at - at%p.sliding.width + int64(p.sliding.n+1)*p.sliding.width
	default:
		return at + p.log.window
	}
}
