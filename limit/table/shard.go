package table

import (
	"math"
	"math/bits"
)

// A slot is [hash a] [hash b, upper half; expiry in seconds, lower half] [state…].
// The expiry of a used slot is at least 1, so a slot whose second word is 0 in
// its lower half is free.
const (
	head       = 2
	expiryMask = math.MaxUint32
	minSlots   = 8
	// sweepStep is how many slots an insert looks at for expired entries. The
	// sweep thus overtakes the inserts: no more than an eighth of the slots hold
	// entries that have expired since it last came by.
	sweepStep = 8
	// reliefStep is the same when the table is full.
	reliefStep = 64
)

// expirySeconds rounds an instant up to whole seconds. What does not fit in 32
// bits (the year 2106) never expires.
func expirySeconds(micros int64) int64 {
	s := micros / 1e6
	if micros%1e6 > 0 {
		s++
	}
	return min(max(s, 1), math.MaxUint32)
}

// expired reports whether the state of a used slot equals none at now.
func expired(meta, now, grace int64) bool {
	s := meta & expiryMask
	return s != math.MaxUint32 && s*1e6+grace <= now
}

// home is the slot at which the search for a hash begins. It grows with the
// hash, so a rebuild copies from front to back.
func home(a uint64, n uint64) uint64 {
	hi, _ := bits.Mul64(a, n)
	return hi
}

// find returns the index of the key's first word, or -1.
func (s *shard) find(h Hash, stride int) int {
	if s.n == 0 {
		return -1
	}
	slots := s.slots
	i := int(home(h.a, s.n)) * stride
	for {
		a, meta := uint64(slots[i]), slots[i+1]
		if a == h.a && (uint64(meta)^h.b)>>32 == 0 && meta&expiryMask != 0 {
			return i
		}
		if meta&expiryMask == 0 {
			return -1
		}
		if i += stride; i == len(slots) {
			i = 0
		}
	}
}

// place writes a slot for a key that is not in the shard, which has room.
func (s *shard) place(a, meta int64, state []int64, stride int) {
	i := int(home(uint64(a), s.n)) * stride
	for s.slots[i+1]&expiryMask != 0 {
		if i += stride; i == len(s.slots) {
			i = 0
		}
	}
	s.slots[i], s.slots[i+1] = a, meta
	copy(s.slots[i+head:i+stride], state)
	s.used++
}

// remove empties the slot at index i and shifts back those behind it that would
// otherwise not be found.
func (s *shard) remove(i, stride int) {
	if s.words != nil {
		s.words.release(s.slots[i+head])
	}
	hole := i
	for j := i; ; {
		if j += stride; j == len(s.slots) {
			j = 0
		}
		if s.slots[j+1]&expiryMask == 0 {
			break
		}
		// The slot at j may move to the hole unless its home lies cyclically
		// behind the hole, up to j.
		h := int(home(uint64(s.slots[j]), s.n)) * stride
		if hole <= j && (hole < h && h <= j) || hole > j && (hole < h || h <= j) {
			continue
		}
		copy(s.slots[hole:hole+stride], s.slots[j:j+stride])
		hole = j
	}
	clear(s.slots[hole : hole+stride])
	s.used--
}

// sweep looks at a few slots, drops the expired entries among them and returns
// how many those were.
func (s *shard) sweep(steps int, now, grace int64, stride int) (dropped int) {
	for range min(steps, int(s.n)) {
		if s.cursor >= len(s.slots) {
			s.cursor = 0
		}
		meta := s.slots[s.cursor+1]
		if meta&expiryMask != 0 && expired(meta, now, grace) {
			s.remove(s.cursor, stride) // another entry may have moved here: look again
			dropped++
			continue
		}
		s.cursor += stride
	}
	return dropped
}

// rebuild drops the expired entries and sizes the shard for the rest, to be
// three fifths full.
func (s *shard) rebuild(now, grace int64, stride int) (dropped int) {
	old, live := s.slots, 0
	for i := 1; i < len(old); i += stride {
		if old[i]&expiryMask != 0 && !expired(old[i], now, grace) {
			live++
		}
	}
	dropped = s.used - live
	n := max(minSlots, (live*5+2)/3)
	s.slots, s.n, s.used, s.cursor = make([]int64, n*stride), uint64(n), 0, 0
	for i := 0; i < len(old); i += stride {
		meta := old[i+1]
		switch {
		case meta&expiryMask == 0:
		case !expired(meta, now, grace):
			s.place(old[i], meta, old[i+head:i+stride], stride)
		case s.words != nil:
			s.words.release(old[i+head])
		}
	}
	return dropped
}

// insert adds a key that is not in the shard, whose lock is held.
func (t *Table) insert(s *shard, h Hash, state []int64, expires, now int64, force bool) bool {
	t.drop(s.sweep(sweepStep, now, t.grace, t.stride))
	if t.space.used.Add(t.weight) > t.space.max {
		t.drop(s.sweep(reliefStep, now, t.grace, t.stride))
		t.space.relieve(now)
		if t.space.used.Load() > t.space.max && !force {
			t.space.used.Add(-t.weight)
			return false
		}
	}
	t.entries.Add(1)
	// At most three quarters full; and the memory of a flood is given back once
	// three quarters are free.
	if n := int(s.n); (s.used+1)*4 > n*3 || n > 4*minSlots && s.used*4 < n {
		t.drop(s.rebuild(now, t.grace, t.stride))
	}
	s.place(int64(h.a), int64(h.b&^expiryMask)|expirySeconds(expires), state, t.stride)
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
