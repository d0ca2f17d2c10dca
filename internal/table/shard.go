package table

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// A slot is [hash a] [hash b, upper half; expiry in seconds, lower half] [state…].
// The expiry of a used slot is at least 1. A slot whose second word is 0 is free:
// a search ends there. The slot of a removed entry is a tombstone: a search continues
// behind it, and it is not used again before the shard is rebuilt. So the slots of one run
// never change their key, which allows a search without the lock.
const (
	head       = 2
	expiryMask = math.MaxUint32
	dead       = 1 << 32
	minSlots   = 8
	// sweepStep is how many slots an insert checks for expired entries. The sweep is
	// thus faster than the inserts: at most an eighth of the slots have entries that
	// have expired since the last check.
	sweepStep = 8
	// reliefStep is the same when the table is full.
	reliefStep = 64
)

// shard is a part of a table. The mutex guards all of it. A search of a run needs no
// lock, because a run is replaced and never moved.
type shard struct {
	run      atomic.Pointer[run]
	mu       sync.Mutex
	used     int      // entries
	taken    int      // slots that are not free: entries and tombstones
	cursor   int      // the slot the next sweep begins at
	words    *words   // in a table of variable states
	instant  [2]int64 // of the entry that is locked, in a table of instants
	instants bool
	together bool // locked by Locks
	_        [128 - 8*8 - 2]byte
}

// run is the slots of a shard.
type run struct {
	slots []int64
	n     uint64
}

var noRun = new(run)

// expirySeconds rounds an instant up to whole seconds. An instant that does not fit in
// 32 bits (after the year 2106) means never.
func expirySeconds(micros int64) int64 {
	s := micros / 1e6
	if micros%1e6 > 0 {
		s++
	}
	return min(max(s, 1), math.MaxUint32)
}

// expired reports whether the state of a used slot has expired at now.
func expired(meta, now, grace int64) bool {
	s := meta & expiryMask
	return s != math.MaxUint32 && s*1e6+grace <= now
}

// live reports whether there is an entry at index i.
func (r *run) live(i int) bool { return r.slots[i+1]&expiryMask != 0 }

// home is the slot at which the search for a hash begins. It is monotonic in the
// hash, so that a rebuild copies from front to back.
func home(a uint64, n uint64) uint64 {
	hi, _ := bits.Mul64(a, n)
	return hi
}

// find returns the index of the key's first word, or -1. Without the lock the result may
// be out of date: the key may have been removed or inserted since.
func (r *run) find(h Hash, stride int) int {
	if r.n == 0 {
		return -1
	}
	slots := r.slots
	i := int(home(h.a, r.n)) * stride
	for {
		meta := atomic.LoadInt64(&slots[i+1])
		if (uint64(meta)^h.b)>>32 == 0 && uint64(atomic.LoadInt64(&slots[i])) == h.a && meta&expiryMask != 0 {
			return i
		}
		if meta == 0 {
			return -1
		}
		if i += stride; i == len(slots) {
			i = 0
		}
	}
}

// place writes a slot for a key that is not in the run. The run has a free slot. The
// second word is written last: only then can the slot be found.
func (r *run) place(a, meta int64, state []int64, stride int) {
	i := int(home(uint64(a), r.n)) * stride
	for r.slots[i+1] != 0 {
		if i += stride; i == len(r.slots) {
			i = 0
		}
	}
	atomic.StoreInt64(&r.slots[i], a)
	copy(r.slots[i+head:i+stride], state)
	atomic.StoreInt64(&r.slots[i+1], meta)
}

// remove turns the slot at index i into a tombstone.
func (t *Table) remove(s *shard, r *run, i int) {
	if s.words != nil {
		s.words.release(r.slots[i+head])
	}
	if t.instants {
		hold(&r.slots[i+head])
	}
	atomic.StoreInt64(&r.slots[i+1], dead)
	s.used--
}

// expired reports whether the entry at index i has expired at now. In a table of
// instants it then holds the entry, so that it stays expired.
func (t *Table) expired(r *run, i int, now int64) bool {
	if !t.instants {
		return expired(r.slots[i+1], now, t.grace)
	}
	word := &r.slots[i+head]
	if !past(atomic.LoadInt64(word), r.slots[i+head+1], now-t.grace) {
		return false
	}
	was := hold(word)
	if past(was, r.slots[i+head+1], now-t.grace) {
		return true
	}
	atomic.StoreInt64(word, was)
	return false
}

// sweep checks a few slots and drops the expired entries among them.
func (t *Table) sweep(s *shard, steps int, now int64) {
	r := s.run.Load()
	dropped := 0
	for range min(steps, int(r.n)) {
		if s.cursor >= len(r.slots) {
			s.cursor = 0
		}
		if r.live(s.cursor) && t.expired(r, s.cursor, now) {
			t.remove(s, r, s.cursor)
			dropped++
		}
		s.cursor += t.stride
	}
	t.drop(dropped)
}

// rebuild drops the expired entries and resizes the shard, so that it is three fifths
// full.
func (t *Table) rebuild(s *shard, now int64) {
	old, before := s.run.Load(), s.used
	for i := 0; i < len(old.slots); i += t.stride {
		if old.live(i) && t.expired(old, i, now) {
			t.remove(s, old, i)
		}
	}
	t.drop(before - s.used)
	n := max(minSlots, (s.used*5+2)/3)
	r := &run{make([]int64, n*t.stride), uint64(n)}
	for i := 0; i < len(old.slots); i += t.stride {
		if !old.live(i) {
			continue
		}
		state := old.slots[i+head : i+t.stride]
		if t.instants {
			state = []int64{hold(&state[0]), state[1]} // so that a search in the old run finds it held
		}
		r.place(old.slots[i], old.slots[i+1], state, t.stride)
	}
	s.run.Store(r)
	s.taken, s.cursor = s.used, 0
}

// insert adds a key that is not in the shard. The lock is held.
func (t *Table) insert(s *shard, h Hash, state []int64, expires, now int64) bool {
	t.sweep(s, sweepStep, now)
	if t.space.used.Add(t.weight) > t.space.max {
		t.sweep(s, reliefStep, now)
		t.space.relieve(now)
		if t.space.used.Load() > t.space.max {
			t.space.used.Add(-t.weight)
			return false
		}
	}
	t.entries.Add(1)
	// At most three quarters full. The memory of a flood is freed when three quarters
	// are free.
	if n := int(s.run.Load().n); (s.taken+1)*4 > n*3 || n > 4*minSlots && s.used*4 < n {
		t.rebuild(s, now)
	}
	if t.instants {
		state = packed(state, s.together)
	}
	s.run.Load().place(int64(h.a), int64(h.b&^expiryMask)|expirySeconds(expires), state, t.stride)
	s.used++
	s.taken++
	return true
}

// drop counts entries that were dropped.
func (t *Table) drop(n int) {
	if n > 0 {
		t.entries.Add(-int64(n))
		t.evicted.Add(int64(n))
		t.space.used.Add(-int64(n) * t.weight)
	}
}
