package engine

import (
	"sync"

	"github.com/wskit/wskit/internal/table"
)

// An Ask is one of several costs that are decided together: a key's hash by Engine.Hash,
// its plan, the cost, and where the answer is put.
type Ask struct {
	Engine *Engine
	Hash   table.Hash
	Plan   *Plan
	Cost   int64
	Answer *Answer
}

// together is the working memory of a decision about several keys. It is pooled.
type together struct {
	locks  table.Locks
	places []spot
	saved  []int64
}

// A spot is where one of several asks has its state, and the state before.
type spot struct {
	table *table.Table
	hash  table.Hash
	cells *cells // shared states of the scope, or nil
	// of the latest step
	where     where
	from, end int // in saved: the state before
}

// where is the place of the state that a charge has changed.
type where uint8

const (
	nowhere where = iota
	inOwn
	inNew    // a new state of the key
	inShared // the state that the key shares with others
)

var togethers = sync.Pool{New: func() any { return new(together) }}

// TakeAll charges all of the asks or none, as one atomic step: the states of all
// keys are locked together, always in the same order. It fills in each answer and
// returns the index of the binding one: see limit.TakeAll. There must be at least one
// ask. The instant is the latest of the engines' clocks.
func TakeAll(asks []Ask) (bound int) {
	w := togethers.Get().(*together)
	w.run(asks, func(now int64) (full int) {
		denied, full := w.charge(asks, now)
		switch {
		case full >= 0:
		case denied < 0:
			bound = binding(asks)
		default:
			bound = w.explain(asks, now, denied)
		}
		return full
	})
	togethers.Put(w)
	return bound
}

// TakeMany takes several independent costs of s in order, at one instant. Costs of one key that
// follow each other are one atomic step, as limit.Reservation.Settle needs it.
func (s *Engine) TakeMany(asks []Ask) {
	for i, a := range asks {
		if a.Plan.kind != kindBucket || i > 0 && a.Hash == asks[i-1].Hash {
			takeManyLocked(asks)
			return
		}
	}
	now := s.Now()
	for _, a := range asks {
		s.takeAt(a.Answer, a.Hash.With(a.Plan.Salt), a.Plan, now, a.Cost)
	}
}

// takeManyLocked is TakeMany where the clock has to be read while all states are
// locked.
func takeManyLocked(asks []Ask) {
	w := togethers.Get().(*together)
	w.run(asks, func(now int64) (full int) {
		for i, a := range asks {
			if !w.step(i, a, now, true) {
				w.undo(i)
				return i
			}
		}
		return -1
	})
	togethers.Put(w)
}

// run calls decide while the states of all asks are locked, with the latest instant of
// their clocks. If decide could not keep the state of an ask whose scope has no shared
// states yet, it returns the index of that ask as full, otherwise -1. run then makes the
// shared states and calls decide again.
func (w *together) run(asks []Ask, decide func(now int64) (full int)) {
	for full := 0; full >= 0; {
		w.lock(asks)
		var now int64
		for i, a := range asks {
			if i == 0 || a.Engine != asks[i-1].Engine {
				now = max(now, a.Engine.Now())
			}
		}
		full = decide(now)
		w.locks.Unlock()
		if full >= 0 {
			asks[full].Engine.shared.begin(asks[full].Plan, now)
		}
	}
	w.count(asks)
}

// count counts the asks that were decided by shared states.
func (w *together) count(asks []Ask) {
	for i, a := range asks {
		if w.places[i].where == inShared {
			a.Engine.overflowed.Add(1)
		}
	}
}

// lock finds and locks what the asks may change.
func (w *together) lock(asks []Ask) {
	for {
		w.places, w.saved = w.places[:0], w.saved[:0]
		for _, a := range asks {
			p := spot{table: a.Engine.table(a.Plan), hash: a.Hash.With(a.Plan.Salt), cells: a.Engine.shared.of(a.Plan)}
			w.locks.Add(p.table, p.hash)
			if p.cells != nil {
				p.cells.addTo(&w.locks, p.hash)
			}
			w.places = append(w.places, p)
		}
		w.locks.Lock()
		if w.current(asks) {
			return
		}
		w.locks.Unlock()
	}
}

// current reports whether the shared states are still the ones that were locked.
func (w *together) current(asks []Ask) bool {
	for i, a := range asks {
		if a.Engine.shared.of(a.Plan) != w.places[i].cells {
			return false
		}
	}
	return true
}

// charge takes the asks in order. If one is denied, it undoes the earlier ones and
// returns its index as denied, otherwise -1. If the state of one cannot be kept and its
// scope has no shared states yet, it does the same and returns its index as full,
// otherwise -1.
func (w *together) charge(asks []Ask, now int64) (denied, full int) {
	begins := false
	for i := range asks {
		if !begins && !w.places[i].find().Found() {
			begins = true
			if denied = w.refused(asks, now, i); denied >= 0 {
				w.undo(i)
				return denied, -1
			}
		}
		if !w.step(i, asks[i], now, true) {
			w.undo(i)
			return -1, i
		}
		if !asks[i].Answer.Allowed {
			w.undo(i)
			return i, -1
		}
	}
	return -1, -1
}

func (p *spot) find() table.Ref { return p.table.At(p.hash) }

// step decides an ask, charges it if charge is set, and records what it changes. It
// returns false if the state cannot be kept because the table is full.
func (w *together) step(i int, a Ask, now int64, charge bool) bool {
	p := &w.places[i]
	p.where, p.from = nowhere, len(w.saved)
	r := p.find()
	switch {
	case r.Found():
		w.saved = append(w.saved, stateOf(r, a.Plan)...)
		p.where = inOwn
		step(a.Answer, r, a.Plan, now, a.Cost, charge)
	case p.cells == nil:
		if !begin(a.Answer, p.table, r, p.hash, a.Plan, now, a.Cost, charge) {
			return false
		}
		p.where = inNew
	default:
		one := p.cells.at(p.hash)
		w.saved = append(w.saved, one.words...)
		p.where = inShared
		if beginBeside(a.Answer, p.table, r, one, p.hash, a.Plan, now, a.Cost, charge) {
			p.where = inNew
		}
	}
	p.end = len(w.saved)
	return true
}

// refused returns the index of the first ask, at from or later, that is already denied
// now, or -1. It is called before a state is made for a new key, which a denial would
// discard: a flood on an exhausted limit must cost no memory.
func (w *together) refused(asks []Ask, now int64, from int) int {
	for i := from; i < len(asks); i++ {
		p := &w.places[i]
		for _, before := range w.places[:i] {
			if before.table == p.table && before.hash == p.hash || before.cells != nil && before.cells == p.cells && p.cells.index(before.hash) == p.cells.index(p.hash) {
				return -1 // what is left for this one is known when it is charged
			}
		}
		w.step(i, asks[i], now, false)
		if !asks[i].Answer.Allowed {
			return i
		}
	}
	return -1
}

// undo restores the states of the first n asks, in reverse order, so that a key that
// occurs twice gets its first state back.
func (w *together) undo(n int) {
	for i := n - 1; i >= 0; i-- {
		p := &w.places[i]
		saved := w.saved[p.from:p.end]
		switch r := p.find(); p.where {
		case inNew:
			if r.Found() {
				p.table.Delete(r, p.hash)
			}
		case inShared:
			copy(p.cells.at(p.hash).words, saved)
		case inOwn:
			if r.Words() != nil {
				r.SetWords(append(r.Words()[:0], saved...))
			} else {
				copy(r.State(), saved)
				r.Keep()
			}
		}
	}
}

// explain answers each ask as if it were the only one, and charges nothing. The denied
// one keeps its answer, because the asks before it may be the reason for its denial.
func (w *together) explain(asks []Ask, now int64, denied int) (bound int) {
	for i, a := range asks {
		if i == denied {
			continue
		}
		w.step(i, a, now, false)
	}
	bound = binding(asks)
	for _, a := range asks {
		a.Answer.Allowed, a.Answer.Wait = false, 0
	}
	return bound
}

// binding returns the index of the answer to report: see limit.All.
func binding(asks []Ask) (bound int) {
	for i, a := range asks {
		if Binds(a.Answer, asks[bound].Answer) {
			bound = i
		}
	}
	return bound
}
