package engine

import "time"

// Take decides whether cost fits now, charges it when it does, and fills d with
// the answer.
//
// It writes the next state into state, growing it as append does when it is too short (nil
// is fine), and returns it with write = true; the caller then keeps it until the instant
// now + [Answer.ResetAfter], when it equals no state, and for [ClockTolerance] longer where
// the clock may be set back: without that, a clock that swings would find no state, and a
// whole limit would be admitted again. With write = false nothing has changed and nothing is
// to be stored: that is so for every denial, unless the state had to be corrected after the
// clock was set back. The cost must be at least 1.
//
// The answer is filled in rather than returned because copying it through several calls
// would take as long as making it.
func (p *Plan) Take(d *Answer, state []int64, now, cost int64) (next []int64, write bool) {
	return p.decide(d, state, now, cost, true)
}

// decide is Take or, without charge, the same but for the charge: what has to be corrected
// is written in either case.
func (p *Plan) decide(d *Answer, state []int64, now, cost int64, charge bool) (next []int64, write bool) {
	state = p.complete(state)
	if p.kind == kindAll {
		var vs views
		p.lookAll(&vs, state, now, cost)
		charge = charge && vs.fits
		switch {
		case charge:
			state, write = p.writeAll(&vs, state, now, cost, true), true
		case vs.healed:
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
	case v.healed:
		state, write = p.write(&v, state, 0, now, 0), true
	}
	p.answer(d, &v, state, now, cost, charge)
	return state, write
}

// Peek fills d with what [Plan.Take] would decide, and changes nothing: Allowed
// says whether the cost would fit, and Remaining and ResetAfter are those of
// what has been used without it.
func (p *Plan) Peek(d *Answer, state []int64, now, cost int64) {
	if need := p.least(); len(state) < need {
		state = make([]int64, need)
	}
	if p.kind == kindAll {
		var vs views
		p.lookAll(&vs, state, now, cost)
		if vs.healed {
			state = p.writeAll(&vs, append([]int64(nil), state...), now, 0, false)
		}
		p.answerAll(d, &vs, state, now, cost, false)
		return
	}
	var v view
	p.look(&v, state, now, cost)
	if v.healed { // answer as if it had been written
		state = p.write(&v, append([]int64(nil), state...), 0, now, 0)
	}
	p.answer(d, &v, state, now, cost, false)
}

// Refund gives back what the decision taken has charged, as far as that is safe:
// at no time do the admissions that were not refunded exceed what the policy would
// have admitted without the refunded ones ever having been made. Of an [All] each
// part is treated by itself. With c the cost, charged at the instant s, and now = t:
//
//	bucket, pacer    c − rate·(t − s), and no more than is owed at t
//	fixed window     c, in the window of s; nothing in any other
//	sliding window   c, from the sub-window of s while that counts
//	sliding log      c, from what was noted at s while that counts
//
// Nothing is rounded. docs/limits.md has the proof. It supposes that the clock does
// not stand behind an earlier charge at the refund; where it does, by d, a bucket
// may give back up to rate·d too much. A charge that lies further ahead than
// [ClockTolerance] gives nothing back, and one of a window or a log that was made
// while the clock stood behind the state may give nothing back.
//
// reset is the instant of the last reset of the key, 0 when none is remembered:
// what was charged by then gives nothing back, for the reset has forgotten it. A
// store remembers it as [Plan.Reset] says.
//
// A state does not tell whether a decision was refunded before: one that is given
// back twice counts as two charges. The parts of a charge may be given back one by
// one, with Charged set to each.
//
// The state of a policy whose numbers changed is treated likewise, as far as that
// has a meaning. When the state has to be healed because the clock was set back, it
// is healed and nothing is given back. A refund that gives nothing back writes
// nothing. The result is that of [Plan.Take]; the state equals none after
// resetAfter.
func (p *Plan) Refund(state []int64, now, reset int64, taken *Answer) (next []int64, resetAfter time.Duration, write bool) {
	if taken.Charged < 1 || len(state) == 0 {
		return state, 0, false
	}
	nothing := taken.At <= reset && believed(reset, now) || taken.At-now > healAfter
	state = p.complete(state)
	offset, last := 0, int64(0)
	for _, part := range p.Parts {
		var v view
		var changed bool
		part.look(&v, state[offset:], now, 1)
		switch {
		case v.healed:
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
		var d Answer
		v = view{}
		part.look(&v, state[offset:], now, 1)
		part.tell(&d, &v, state[offset:], now, 1, false)
		last = max(last, d.ResetAfter.Microseconds())
		offset += part.size(state[offset:])
	}
	return state, micros(last), write
}

// Reset is for a store that forgets a state at the instant now. It remembers that
// instant until end, for [Plan.Refund], and longer by as much as its clock may be set
// back. When end is 0, nothing counts that could be refunded, and there is nothing to
// remember. (An instant that was remembered before stays.)
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

// refundsEnd is the instant from which on nothing is given back of what was charged
// by the instant at, to a plan that is no composite.
func (p *Plan) refundsEnd(at int64) int64 {
	switch p.kind {
	case kindBucket:
		return at + ceilDiv(p.bucket.full, p.bucket.q)
	case kindFixed:
		return at - at%p.fixed.window + p.fixed.window
	case kindSliding:
		return at - at%p.sliding.width + int64(p.sliding.n+1)*p.sliding.width
	default:
		return at + p.log.window
	}
}
