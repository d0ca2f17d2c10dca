package engine

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/internal/table"
)

// swapAttempts is how often a charge is tried without a lock. Each failure means that
// another charge succeeded, or that the key is locked.
const swapAttempts = 32

// Options configure an [Engine].
type Options struct {
	// MaxKeys is the largest number of keys that have their own state, at least 1. The
	// unit is a key with two words of state: a key with more words counts as several.
	MaxKeys int
	// Shards is how many locks there are for the keys of one width of state.
	Shards int
	// Grace is how long a state is kept after it has run out, in microseconds,
	// for a clock that may be set back by as much.
	Grace int64
	// Now is the clock, which [Clock] makes of one of [time.Time]. nil means the monotonic clock of the process.
	Now func() int64
}

// Engine keeps state in this process, for the memory store and for limiters whose store
// fails: the states of all policies of one width in one table, and one bound for all
// tables. Costs must be at least 1; they are not checked here.
//
// For windows and logs the clock is read while the state is locked. Otherwise a
// charge could be recorded after one that read the clock later. It would be recorded at
// that later instant, and a refund, which uses [Answer.At], would not find it. A
// bucket records no instants, so for buckets the clock is read before.
//
// All its methods may be called concurrently.
type Engine struct {
	options    Options
	start      time.Time // of the monotonic clock
	epoch      int64     // the same, in microseconds since the Unix epoch
	space      *table.Space
	buckets    *table.Table // of buckets only: their state is an instant
	mu         sync.Mutex
	narrow     [64]atomic.Pointer[table.Table] // of the others by width; 0 is the table of logs
	wide       atomic.Pointer[map[int]*table.Table]
	shared     sharedStates
	overflowed atomic.Int64
	resets     resets
}

// New makes an engine without state.
func New(o Options) *Engine {
	start := time.Now()
	s := &Engine{options: o, start: start, epoch: start.UnixMicro(), space: table.NewSpace(o.MaxKeys)}
	s.shared.budget = min(o.MaxKeys, math.MaxInt/sharedBytes) * sharedBytes
	s.shared.grace = o.Grace + linger
	s.buckets = table.New(table.Options{Instants: true, Space: s.space, Shards: o.Shards, Grace: o.Grace})
	return s
}

// maxInstant is the last instant that the algorithms can compute with.
const maxInstant = 1<<52 - 1

// Clock returns the time of a clock in microseconds since the Unix epoch. It stops at the ends of what the algorithms
// can compute with. nil stays nil.
func Clock(now func() time.Time) func() int64 {
	if now == nil {
		return nil
	}
	return func() int64 {
		switch t := now(); {
		case t.Before(time.Unix(0, 0)):
			return 0
		case t.After(time.UnixMicro(maxInstant)):
			return maxInstant
		default:
			return t.UnixMicro()
		}
	}
}

// Now returns the time of the engine's clock in microseconds.
func (s *Engine) Now() int64 {
	if s.options.Now != nil {
		return s.options.Now()
	}
	return min(max(s.epoch+int64(time.Since(s.start)/time.Microsecond), 0), maxInstant)
}

// Hash returns the hash of a key.
func (s *Engine) Hash(key []byte) table.Hash { return s.space.HashBytes(key) }

// table returns the table for states of a plan.
func (s *Engine) table(plan *Plan) *table.Table {
	if plan.kind == kindBucket {
		return s.buckets
	}
	width := plan.Width
	if t := s.known(width); t != nil {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.known(width); t != nil {
		return t
	}
	t := table.New(table.Options{
		Width: width, Variable: width == 0, Space: s.space,
		Shards: s.options.Shards, Grace: s.options.Grace,
	})
	if width < len(s.narrow) {
		s.narrow[width].Store(t)
		return t
	}
	wide := map[int]*table.Table{}
	if old := s.wide.Load(); old != nil {
		wide = maps.Clone(*old)
	}
	wide[width] = t
	s.wide.Store(&wide)
	return t
}

func (s *Engine) known(width int) *table.Table {
	if width < len(s.narrow) {
		return s.narrow[width].Load()
	}
	if wide := s.wide.Load(); wide != nil {
		return (*wide)[width]
	}
	return nil
}

// Take applies [Plan.Take] to the state of the key. If the table is full, a key without
// its own state uses a state that it shares with other keys of the plan's scope. It gets
// its own state once there is capacity and the shared state says that nothing is used.
//
// A bucket that has state is charged without a lock, by compare-and-swap. A denial
// writes nothing.
func (s *Engine) Take(d *Answer, h table.Hash, plan *Plan, cost int64) {
	if plan.kind == kindBucket {
		h = h.With(plan.Salt)
		s.buckets.Prefetch(h) // while the clock is read
		s.takeAt(d, h, plan, s.Now(), cost)
		return
	}
	t := s.table(plan)
	h = h.With(plan.Salt)
	r := t.Lock(h)
	s.takeLocked(d, t, r, h, plan, s.Now(), cost)
}

// takeAt is Take for a bucket at the instant now. The hash is that with the plan's salt: states of different shapes are
// different entries.
func (s *Engine) takeAt(d *Answer, h table.Hash, plan *Plan, now, cost int64) {
	for range plan.swaps {
		i, at, fraction, ok := s.buckets.Instant(h)
		if !ok {
			break
		}
		var v view
		v.used, v.fits, v.corrected = plan.bucket.admit(at, fraction, now, cost)
		if v.fits || v.corrected {
			at, fraction, v.until = plan.bucket.due(v.used, now)
			if !i.Swap(at, fraction) {
				continue
			}
		}
		*d = Answer{Policy: plan.Name, Allowed: v.fits, At: now}
		plan.bucket.answer(d, &v, now, cost, v.fits)
		if v.fits {
			d.Charged = cost
		}
		return
	}
	s.takeLocked(d, s.buckets, s.buckets.Lock(h), h, plan, now, cost)
}

// takeLocked is Take on a locked state. It unlocks the state.
func (s *Engine) takeLocked(d *Answer, t *table.Table, r table.Ref, h table.Hash, plan *Plan, now, cost int64) {
	switch {
	case !r.Found():
		s.takeNew(d, t, r, h, plan, now, cost)
		r.Unlock()
	case plan.Width == 0:
		step(d, r, plan, now, cost, true)
		r.Unlock()
	case plan.kind == kindAll:
		takeParts(d, r, plan, now, cost)
	default:
		var v view
		state, write := plan.charge(&v, r.State(), now, cost)
		if write {
			r.SetExpires(v.until)
		}
		plan.answer(d, &v, state, now, cost, v.fits)
		r.Unlock()
	}
}

// takeNew is Take for a key without state. The key is locked.
func (s *Engine) takeNew(d *Answer, t *table.Table, r table.Ref, h table.Hash, plan *Plan, now, cost int64) {
	for {
		one, ok := s.shared.lock(plan, h)
		if plan.kind != kindBucket {
			now = s.Now() // read again: the shared state may have been charged or dropped since
		}
		if !ok {
			if begin(d, t, r, h, plan, now, cost, true) {
				return
			}
			s.shared.begin(plan, now)
			continue
		}
		own := beginBeside(d, t, r, one, h, plan, now, cost, true)
		idle := own && h.Low()%64 == 0 && one.idle(now, s.shared.grace)
		one.mu.Unlock()
		if !own {
			s.overflowed.Add(1)
		}
		if idle {
			s.shared.relieve(plan, now)
		}
		return
	}
}

// takeParts is Take for a composite whose state was found.
func takeParts(d *Answer, r table.Ref, plan *Plan, now, cost int64) {
	var vs views
	state, write := plan.chargeAll(&vs, r.State(), now, cost)
	if plan.late && (vs.fits || !write) {
		if write {
			r.SetExpires(vs.until)
		}
		r.Unlock()
		plan.answerAll(d, &vs, nil, now, cost, vs.fits)
		return
	}
	plan.answerAll(d, &vs, state, now, cost, vs.fits)
	if write {
		r.SetExpires(now + d.ResetAfter.Microseconds())
	}
	r.Unlock()
}

// step decides for a key that has state and is locked. It charges if charge is set.
func step(d *Answer, r table.Ref, plan *Plan, now, cost int64, charge bool) {
	state, write := plan.decide(d, stateOf(r, plan), now, cost, charge)
	if write {
		if plan.Width == 0 {
			keepWords(r, plan, state)
		}
		r.SetExpires(now + d.ResetAfter.Microseconds())
	}
}

// begin is step for a key without state, in a scope without shared states. The key is
// locked. It returns false if the state could not be kept because the table is full.
func begin(d *Answer, t *table.Table, r table.Ref, h table.Hash, plan *Plan, now, cost int64, charge bool) bool {
	var room [16]int64
	state, write := plan.decide(d, room[:0], now, cost, charge)
	return !write || insert(t, r, h, plan, state, now+d.ResetAfter.Microseconds(), now)
}

// beginBeside is begin in a scope with shared states. The shared state of the key is
// locked too, and decides. The key keeps using it while anything in it counts or the
// table is full. It returns whether the key has its own state now.
func beginBeside(d *Answer, t *table.Table, r table.Ref, one cell, h table.Hash, plan *Plan, now, cost int64, charge bool) (own bool) {
	state := one.load(plan)
	unused := plan.unused(state, now)
	state, write := plan.decide(d, state, now, cost, charge)
	if !write {
		return false
	}
	until := now + d.ResetAfter.Microseconds()
	if unused && insert(t, r, h, plan, state, until, now) {
		return true
	}
	one.store(plan, state, until)
	d.Shared = d.Charged > 0
	return false
}

// insert keeps the state of a key that has none, unless the table is full.
func insert(t *table.Table, r table.Ref, h table.Hash, plan *Plan, state []int64, until, now int64) bool {
	if plan.Width == 0 {
		return t.InsertWords(r, h, state, until, now)
	}
	return t.Insert(r, h, state, until, now)
}

// keepWords keeps a state of variable length. If the table is too full for it to grow,
// its logs become coarser.
func keepWords(r table.Ref, plan *Plan, state []int64) {
	before := cap(r.Words())
	if !r.SetWords(state) {
		r.SetWords(append(make([]int64, 0, before), plan.shorten(state)...))
	}
}

// Peek applies [Plan.Peek] to the state of the key.
func (s *Engine) Peek(d *Answer, h table.Hash, plan *Plan, cost int64) {
	h = h.With(plan.Salt)
	r := s.table(plan).Lock(h)
	defer r.Unlock()
	if !r.Found() {
		if one, ok := s.shared.lock(plan, h); ok {
			plan.Peek(d, one.load(plan), s.Now(), cost)
			one.mu.Unlock()
			return
		}
	}
	plan.Peek(d, stateOf(r, plan), s.Now(), cost)
}

func stateOf(r table.Ref, plan *Plan) []int64 {
	if plan.Width == 0 {
		return r.Words()
	}
	return r.State()
}

// Refund applies [Plan.Refund] to the state that was charged: the key's own, or the one
// that it shared at the time.
func (s *Engine) Refund(h table.Hash, plan *Plan, taken *Answer) {
	h = h.With(plan.Salt)
	if taken.Shared {
		s.refundShared(h, plan, taken)
		return
	}
	if plan.kind == kindBucket && s.refundBucket(h, plan, taken) {
		return
	}
	r := s.table(plan).Lock(h)
	if r.Found() {
		now := s.Now()
		state, reset, write := plan.Refund(stateOf(r, plan), now, s.resets.last(h, now), taken)
		if write {
			if plan.Width == 0 {
				keepWords(r, plan, state)
			}
			r.SetExpires(now + reset.Microseconds())
		}
	}
	r.Unlock()
}

// refundBucket is Refund for a bucket that has state, without a lock. It reports false if the
// state has to be locked: it was not found, must be corrected, or keys were reset. (A reset is
// noted before it deletes the state, which cannot be swapped afterwards.)
func (s *Engine) refundBucket(h table.Hash, plan *Plan, taken *Answer) (done bool) {
	now := s.Now()
	if taken.Charged < 1 || taken.At-now > correctAfter {
		return false
	}
	for range plan.swaps {
		i, at, fraction, ok := s.buckets.Instant(h)
		if !ok || s.resets.table.Load() != nil {
			return false
		}
		used, corrected := plan.bucket.owed(at, fraction, now)
		if corrected {
			return false
		}
		back := plan.bucket.back(used, now, taken.Charged, taken.At)
		if back == 0 {
			return true
		}
		if at, fraction, _ = plan.bucket.due(used-back, now); i.Swap(at, fraction) {
			return true
		}
	}
	return false
}

// refundShared is Refund for a charge to a shared state.
func (s *Engine) refundShared(h table.Hash, plan *Plan, taken *Answer) {
	one, ok := s.shared.lock(plan, h)
	if !ok {
		return
	}
	defer one.mu.Unlock()
	now := s.Now()
	if state, reset, write := plan.Refund(one.load(plan), now, 0, taken); write {
		one.store(plan, state, now+reset.Microseconds())
	}
}

// Reset deletes the key's own state. A shared state stays, because other keys use it.
func (s *Engine) Reset(h table.Hash, plan *Plan) {
	t := s.table(plan)
	h = h.With(plan.Salt)
	r := t.Lock(h)
	defer r.Unlock()
	if !r.Found() {
		return
	}
	now := s.Now()
	if end := plan.Reset(stateOf(r, plan), now); end > 0 {
		s.resets.note(h, now, end, s.options.Grace)
	}
	t.Delete(r, h)
}

// Figures returns the number of keys that have state (with expired ones that were not
// evicted yet), the number of evicted keys, and the number of decisions that used shared
// states.
func (s *Engine) Figures() (keys int, evicted, overflowed int64) {
	for _, t := range s.space.Tables() {
		keys += t.Len()
		evicted += t.Evicted()
	}
	return keys, evicted, s.overflowed.Load()
}
