package table

import (
	"math"
	"sync/atomic"
)

// instantStride is the length of a slot in a table of instants.
const instantStride = head + 2

// In a table of instants a state is an instant in microseconds and a fraction of
// a microsecond: the two words that a token bucket needs. The state expires when the
// instant has passed. Both are packed into the first word of the slot's state,
// so that a decision is one compare-and-swap:
//
//	bit 63       the entry is free: it may be swapped without the lock
//	bits 53–62   the fraction
//	bits 0–52    the instant
//
// A goroutine that has locked the shard and found the entry holds it: it clears bit 63
// until it releases the lock. A fraction that does not fit is stored in the second word,
// and the entry is then never free. Entries that were removed or moved stay held for ever,
// so that an entry which is no longer in the table cannot be swapped.
const (
	free         = math.MinInt64
	fractionBits = 10
	instantBits  = 63 - fractionBits
	instantMask  = 1<<instantBits - 1
)

// MaxFraction is the largest fraction of an instant that [Instant.Swap] can write.
const MaxFraction = 1<<fractionBits - 1

// pack returns the two words of a held slot for an instant and a fraction.
func pack(at, fraction int64) (word, rest int64) {
	if fraction > MaxFraction {
		return at, fraction
	}
	return fraction<<instantBits | at, 0
}

// unpack is the reverse.
func unpack(word, rest int64) (at, fraction int64) {
	return word & instantMask, rest + (word&math.MaxInt64)>>instantBits
}

// packed returns the state of the slot of a new entry.
func packed(state []int64, held bool) []int64 {
	word, rest := pack(state[0], state[1])
	if rest == 0 && !held {
		word |= free
	}
	return []int64{word, rest}
}

// linger is how many microseconds an entry is kept beyond its instant, about as long as
// rounding to whole seconds adds in other tables. Without it, short-lived states would be
// inserted and evicted with every decision.
const linger = 1e6

// past reports whether the state has expired at now.
func past(word, rest, now int64) bool {
	at, fraction := unpack(word, rest)
	return at < now || at == now && fraction == 0
}

// hold makes the entry one that cannot be swapped, and returns its value.
func hold(word *int64) (was int64) {
	for {
		was = atomic.LoadInt64(word)
		if was >= 0 || atomic.CompareAndSwapInt64(word, was, was&math.MaxInt64) {
			return was
		}
	}
}

// release ends hold, for the slot of an entry.
func release(slot []int64) {
	if was := atomic.LoadInt64(&slot[head]); was >= 0 && slot[head+1] == 0 {
		atomic.StoreInt64(&slot[head], was|free)
	}
}

// An Instant is an entry of a table of instants that was found without a lock.
type Instant struct {
	word *int64
	was  int64
}

// Prefetch begins to load what [Table.Instant] reads of a key, which takes most of its time where there
// are many keys, and does not wait for it: docs/decisions/prefetch.md.
func (t *Table) Prefetch(h Hash) {
	if r := t.shards[h.b&t.mask].run.Load(); r.n > 0 {
		prefetch(&r.slots[int(home(h.a, r.n))*instantStride])
	}
}

// Instant finds the state of a key without a lock. It returns false if there is no entry
// or it is not free: then use [Table.Lock].
func (t *Table) Instant(h Hash) (i Instant, at, fraction int64, ok bool) {
	r := t.shards[h.b&t.mask].run.Load()
	if r.n == 0 {
		return i, 0, 0, false
	}
	// This is run.find, inlined by hand: the call would double the time.
	slots := r.slots
	for n := int(home(h.a, r.n)) * instantStride; i.word == nil; {
		slot := (*[instantStride]int64)(slots[n : n+instantStride])
		meta := atomic.LoadInt64(&slot[1])
		switch {
		case (uint64(meta)^h.b)>>32 == 0 && uint64(atomic.LoadInt64(&slot[0])) == h.a && meta&expiryMask != 0:
			i.word = &slot[head]
		case meta == 0:
			return i, 0, 0, false
		}
		if n += instantStride; n == len(slots) {
			n = 0
		}
	}
	i.was = atomic.LoadInt64(i.word)
	at, fraction = unpack(i.was, 0)
	return i, at, fraction, i.was < 0
}

// Swap writes another state. It fails if the state was changed or the key was locked since
// [Table.Instant]. The fraction is at most MaxFraction.
func (i Instant) Swap(at, fraction int64) bool {
	return atomic.CompareAndSwapInt64(i.word, i.was, free|fraction<<instantBits|at)
}
