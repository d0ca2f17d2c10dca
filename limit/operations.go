package limit

import "time"

// Take decides whether cost fits now, charges it when it does, and fills d with
// the answer.
//
// It writes the next state into state, growing it as append does when it is
// too short (nil is fine), and returns it with write = true; the caller then
// keeps it until the instant now + [Decision.ResetAfter], when it equals no
// state, and for [ClockTolerance] longer where the clock may be set back: else a clock
// that swings finds nothing, and a whole limit is admitted again. With write = false nothing has changed and nothing is to be stored:
// that is every denial, unless the state had to be healed after the clock was
// set back. The cost must be at least 1: see [CheckCost].
//
// The decision is filled in rather than returned because copying it through
// several calls would take as long as making it.
func (p *Plan) Take(d *Decision, state []int64, now, cost int64) (next []int64, write bool) {
	return p.decide(d, state, now, cost, true)
}

// decide is Take or, without charge, the same but for the charge: what has to be
// healed is written in either case.
func (p *Plan) decide(d *Decision, state []int64, now, cost int64, charge bool) (next []int64, write bool) {
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
func (p *Plan) Peek(d *Decision, state []int64, now, cost int64) {
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

// A Forecast says when a cost fits, without charging it.
type Forecast struct {
	// Fits is how many of the cost fit now, one after the other.
	Fits int64
	// NextAfter is how long until one fits: 0 when one does now, and when none
	// ever will, which Impossible tells apart.
	NextAfter  time.Duration
	Impossible bool
	// FullAfter is how long until nothing is left of what was used.
	FullAfter time.Duration
	// Policy names the policy that binds.
	Policy string
}

// Forecast says how many of the cost the answer of a Peek at it leaves room
// for, and when. (Of a composite, a Peek that would be allowed names the part
// with the least room.)
func (d *Decision) Forecast(cost int64) Forecast {
	f := Forecast{NextAfter: d.RetryAfter, Impossible: d.Impossible, FullAfter: d.ResetAfter, Policy: d.Policy}
	if d.Allowed && !d.Shadowed {
		f.Fits = d.Remaining / cost
	}
	return f
}

// Forecast says how many of the cost fit now, when the next one does, and when
// everything that was used has come back.
func (p *Plan) Forecast(state []int64, now, cost int64) Forecast {
	var d Decision
	p.Peek(&d, state, now, cost)
	return d.Forecast(cost)
}

// Refund gives back what the decision taken has charged and what of it still
// counts, so that nothing is ever minted: never above full, nothing of what has
// flowed in again since, nothing in a window that is over. With no other
// traffic in between, the state is then what it would be without that charge.
// The state of a policy whose numbers changed is treated likewise, as far as
// that has a meaning.
//
// When the state has to be healed because the clock was set back, it is healed
// and nothing is given back. A charge that was made while the clock stood behind the state is not found
// again in a window or a log; it runs out as if it had not been refunded. A
// refund that gives nothing back writes nothing.
//
// The result is that of [Plan.Take]; the state equals none after resetAfter.
func (p *Plan) Refund(state []int64, now int64, taken *Decision) (next []int64, resetAfter time.Duration, write bool) {
	if taken.Charged < 1 || len(state) == 0 {
		return state, 0, false
	}
	state = p.complete(state)
	at, until := taken.At, taken.At+taken.ResetAfter.Microseconds()
	parts := p.parts
	if p.kind != kindAll {
		parts = []*Plan{p}
	}
	var last int64
	for i, offset := 0, 0; i < len(parts); i++ {
		var v view
		var changed bool
		part := parts[i]
		part.look(&v, state[offset:], now, 1)
		switch {
		case v.healed:
			state, changed = part.write(&v, state, offset, now, 0), true
		case v.used == 0:
		case part.kind == kindBucket:
			changed = part.bucket.refund(&v, state[offset:], now, taken.Charged, at, until)
		case part.kind == kindFixed:
			changed = part.fixed.refund(&v, state[offset:], taken.Charged, at)
		case part.kind == kindSliding:
			changed = part.sliding.refund(&v, state[offset:], taken.Charged, at)
		case part.kind == kindLog:
			state, changed = part.log.refund(&v, state, offset, now, taken.Charged, at)
		}
		write = write || changed
		var d Decision
		v = view{}
		part.look(&v, state[offset:], now, 1)
		part.tell(&d, &v, state[offset:], now, 1, false)
		last = max(last, d.ResetAfter.Microseconds())
		offset += part.size(state[offset:])
	}
	return state, micros(last), write
}
