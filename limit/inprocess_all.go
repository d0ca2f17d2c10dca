package limit

import (
	"sync"

	"github.com/wskit/wskit/limit/table"
)

// An InProcessAsk is one of several costs that are decided together: a key's
// hash by State.Hash, its plan, and the cost.
type InProcessAsk struct {
	State *InProcess
	Hash  table.Hash
	Plan  *Plan
	Cost  int64
}

// together is what a decision about several keys needs, used again.
type together struct {
	locks  table.Locks
	places []spot
	saved  []int64
}

// A spot is where one of several asks has its state, and what it was before.
type spot struct {
	table     *table.Table
	hash      table.Hash
	shared    bool // hash is that of a shared state, for want of room
	existed   bool
	from, end int // in saved
}

var togethers = sync.Pool{New: func() any { return new(together) }}

// TakeAllInProcess charges all of the asks or none, as one step: the shards of
// all keys are locked together, always in the same order. It fills in an answer to
// each and returns the index of the one that bound: see [TakeAll]. There must be
// at least one ask and as many answers. The instant is the latest that the clocks
// of the states show.
func TakeAllInProcess(asks []InProcessAsk, answers []Decision) (bound int) {
	w := togethers.Get().(*together)
	now := w.lock(asks)
	if denied := w.charge(asks, answers, now); denied < 0 {
		bound = binding(answers)
	} else {
		bound = w.explain(asks, answers, now, denied)
	}
	w.locks.Unlock()
	togethers.Put(w)
	return bound
}

// TakeMany takes several costs of s in order, each by itself, at one instant.
func (s *InProcess) TakeMany(asks []InProcessAsk, answers []Decision) {
	for _, a := range asks {
		if a.Plan.kind != kindBucket {
			takeManyLocked(asks, answers)
			return
		}
	}
	now := s.Now()
	for i, a := range asks {
		s.takeAt(&answers[i], a.Hash, a.Plan, now, a.Cost)
	}
}

// takeManyLocked is TakeMany where the clock has to be read while all states are
// locked.
func takeManyLocked(asks []InProcessAsk, answers []Decision) {
	w := togethers.Get().(*together)
	now := w.lock(asks)
	for i, a := range asks {
		p := &w.places[i]
		step(&answers[i], p.table, p.find(a, now), p.hash, a.Plan, now, a.Cost, true, true)
	}
	w.locks.Unlock()
	togethers.Put(w)
}

// lock locks the states of all asks and then reads the clock: the latest instant,
// where the states have several.
func (w *together) lock(asks []InProcessAsk) (now int64) {
	w.places, w.saved = w.places[:0], w.saved[:0]
	for _, a := range asks {
		t := a.State.table(a.Plan)
		h := a.Hash.With(a.Plan.salt)
		w.locks.Add(t, h)
		w.locks.Add(t, a.State.overflow(h, a.Plan))
		w.places = append(w.places, spot{table: t, hash: h})
	}
	w.locks.Lock()
	for i, a := range asks {
		if i == 0 || a.State != asks[i-1].State {
			now = max(now, a.State.Now())
		}
	}
	return now
}

// find is the state of an ask whose shard is locked.
func (p *spot) find(a InProcessAsk, now int64) table.Ref {
	r := p.table.At(p.hash)
	if !r.Found() && !p.shared && !p.table.Room(p.hash, now) {
		a.State.overflowed.Add(1)
		p.shared, p.hash = true, a.State.overflow(p.hash, a.Plan)
		r = p.table.At(p.hash)
	}
	return r
}

// charge takes the asks in order until one is denied, and returns -1, or which
// that was, when all states are again what they were.
func (w *together) charge(asks []InProcessAsk, answers []Decision, now int64) (denied int) {
	begins := false
	for i, a := range asks {
		p := &w.places[i]
		r := p.find(a, now)
		if !r.Found() && !begins {
			begins = true
			if denied = w.refused(asks, answers, now, i); denied >= 0 {
				w.undo(i)
				return denied
			}
			r = p.find(a, now) // a shared state, if others have taken the room by now
		}
		if p.existed, p.from = r.Found(), len(w.saved); p.existed {
			w.saved = append(w.saved, stateOf(r, a.Plan)...)
		}
		p.end = len(w.saved)
		step(&answers[i], p.table, r, p.hash, a.Plan, now, a.Cost, true, true)
		if !answers[i].Allowed {
			w.undo(i)
			return i
		}
	}
	return -1
}

// refused returns the first of the asks from the given one on that is denied
// already now, or -1. It is asked before the state of a new key is begun, which
// for a denial would be thrown away: somebody's flood beneath a limit that
// others have drained must cost no memory.
func (w *together) refused(asks []InProcessAsk, answers []Decision, now int64, from int) int {
	for i := from; i < len(asks); i++ {
		p := &w.places[i]
		r := p.find(asks[i], now)
		for _, before := range w.places[:i] {
			if before.table == p.table && before.hash == p.hash {
				return -1 // what is left for this one, charging tells
			}
		}
		step(&answers[i], p.table, r, p.hash, asks[i].Plan, now, asks[i].Cost, false, true)
		if !answers[i].Allowed {
			return i
		}
	}
	return -1
}

// undo puts back the states of the first n asks, the last first, so that a key
// that was asked for twice ends as it began.
func (w *together) undo(n int) {
	for i := n - 1; i >= 0; i-- {
		p := w.places[i]
		r := p.table.At(p.hash)
		saved := w.saved[p.from:p.end]
		switch {
		case !p.existed:
			p.table.Delete(r, p.hash)
		case r.Words() != nil:
			r.SetWords(append(r.Words()[:0], saved...))
		case r.Found():
			copy(r.State(), saved)
			r.Keep()
		}
	}
}

// explain answers all asks as if each were alone, except that nothing is
// charged; the one that was denied keeps its answer, for it may have been
// denied because of those before it.
func (w *together) explain(asks []InProcessAsk, answers []Decision, now int64, denied int) (bound int) {
	for i, a := range asks {
		if i == denied {
			continue
		}
		p := &w.places[i]
		step(&answers[i], p.table, p.find(a, now), p.hash, a.Plan, now, a.Cost, false, true)
	}
	bound = binding(answers)
	for i := range answers {
		answers[i].Allowed, answers[i].Wait = false, 0
	}
	return bound
}

// binding is the index of the answer to name: see [All].
func binding(answers []Decision) (bound int) {
	for i := range answers {
		if binds(&answers[i], &answers[bound]) {
			bound = i
		}
	}
	return bound
}
