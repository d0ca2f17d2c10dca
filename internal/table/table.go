// Package table is a bounded table from keys to small integer states that
// expire, for rate-limit stores that live in a process.
//
// It knows nothing of policies: it finds the state of a key, under a lock, and
// keeps it until its expiry.
//
//	h := t.Hash(key)
//	r := t.Lock(h)
//	if state := r.State(); state == nil {
//		t.Insert(r, h, []int64{…}, expires, now)
//	} else {
//		state[0] = …
//		r.SetExpires(expires)
//	}
//	r.Unlock()
//
// In a table of instants ([Options.Instants]) most changes need no lock: see
// [Table.Instant].
//
// # Layout
//
// A table is split into shards, each with a lock of its own. A shard is one
// slice of integers without pointers, so the garbage collector never walks it,
// in which a slot holds 96 bits of a keyed 128-bit hash, the expiry in seconds
// and the state side by side: a decision touches one cache line of a slot of
// two state words. Keys themselves are not kept, nor any secret in them. That
// two of a billion keys share a slot has a probability of 10⁻¹¹: the shard
// stands for further bits of the hash. The hash has a seed of the process, so
// nobody outside can look for such keys.
//
// Collisions are resolved by linear probing. The slot of an entry that was
// dropped is not used again: a shard of which three quarters of the slots have
// been used is rebuilt, three fifths full. Slots that never change their key are
// what lets a search do without the lock.
//
// # Memory
//
// Only an entry that has expired is ever evicted. Each insert looks at a few
// slots of its shard and drops the expired ones, and growing drops all of them,
// so no sweep ever holds up a table. Max bounds the number of entries: beyond
// it Insert fails, and nothing that lives is thrown out.
package table

import (
	"math/bits"
	"sync/atomic"
)

// Options configure a table.
type Options struct {
	// Width is the number of state words per entry, at least 1.
	Width int
	// Variable makes the state of an entry a slice that may grow and shrink
	// ([Ref.Words]) instead of Width words.
	Variable bool
	// Instants makes the state of an entry an instant in microseconds, below 2⁵³,
	// and a fraction of one, at least 0: two words, which [Table.Instant] finds and
	// changes without a lock. The state equals none once that has passed, whatever
	// expiry is given.
	Instants bool
	// Max bounds the number of entries, at least 1, in units of an entry of two
	// words: a wider one counts for more. It is not used with a Space.
	Max int
	// Space is what the table shares with others; nil means that it is alone.
	Space *Space
	// Shards is rounded up to a power of two; 0 means 1.
	Shards int
	// Grace keeps entries this many microseconds beyond their expiry: for a
	// clock that may be set back by as much.
	Grace int64
}

// Table is a bounded table. All its methods may be used by any number of
// goroutines.
type Table struct {
	space    *Space
	id       uint64
	mask     uint64 // of the shard number
	instants bool
	width    int
	stride   int   // words per slot: two of hash and expiry, then the state
	weight   int64 // of an entry, in the space
	grace    int64
	entries  atomic.Int64
	evicted  atomic.Int64
	shards   []shard
}

// New makes an empty table. It takes memory as entries come.
func New(o Options) *Table {
	n := 1
	for n < o.Shards {
		n <<= 1
	}
	if o.Space == nil {
		o.Space = NewSpace(o.Max)
	}
	switch {
	case o.Variable:
		o.Width = 1 // the number of the slice
	case o.Instants:
		o.Width = 2
		o.Grace += linger
	}
	t := &Table{
		space: o.Space, mask: uint64(n - 1),
		width: o.Width, stride: o.Width + head, weight: weight(o.Width + head),
		instants: o.Instants, grace: o.Grace, shards: make([]shard, n),
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.run.Store(noRun)
		s.instants = o.Instants
		if o.Variable {
			s.words = &words{space: o.Space}
		}
	}
	o.Space.add(t)
	return t
}

// Width is the number of state words per entry.
func (t *Table) Width() int { return t.width }

// Len is the number of entries, expired ones that have not been dropped yet
// included.
func (t *Table) Len() int { return int(t.entries.Load()) }

// Evicted counts the expired entries that were dropped.
func (t *Table) Evicted() int64 { return t.evicted.Load() }

// A Hash stands for a key in one table.
type Hash struct{ a, b uint64 }

// Hash returns the hash of a key.
func (t *Table) Hash(key string) Hash { return t.space.Hash(key) }

// HashBytes returns the hash of a key in a buffer: that of the same string.
func (t *Table) HashBytes(key []byte) Hash { return t.space.HashBytes(key) }

// Low returns some bits of the hash, evenly spread.
func (h Hash) Low() uint64 { return h.a }

// With returns a hash of the key and a number. With(0) is h itself.
func (h Hash) With(n uint64) Hash {
	hi, lo := bits.Mul64(n, 0x9e3779b97f4a7c15)
	return Hash{h.a ^ lo, h.b ^ lo ^ hi}
}

// A Ref is a key's place in the table, locked until Unlock. The whole shard is
// locked with it: hold it for the arithmetic only. (It is four words, so that
// the compiler keeps it in registers.)
type Ref struct {
	shard *shard
	slot  []int64
}

// Lock finds a key and locks it.
func (t *Table) Lock(h Hash) Ref {
	s := &t.shards[h.b&t.mask]
	s.mu.Lock()
	return t.at(s, h)
}

// At finds a key whose shard is locked already ([Locks]).
func (t *Table) At(h Hash) Ref { return t.at(&t.shards[h.b&t.mask], h) }

func (t *Table) at(s *shard, h Hash) Ref {
	r := s.run.Load()
	i := r.find(h, t.stride)
	if i < 0 {
		return Ref{s, nil}
	}
	slot := r.slots[i : i+t.stride]
	if t.instants {
		s.instant[0], s.instant[1] = unpack(hold(&slot[head]), slot[head+1])
	}
	return Ref{s, slot}
}

// Unlock releases the key.
func (r Ref) Unlock() {
	if r.shard.instants && r.slot != nil && r.slot[1]&expiryMask != 0 {
		release(r.slot)
	}
	r.shard.mu.Unlock()
}

// State is the key's state, to be changed in place, or nil when the table has
// none. Changes are kept by [Ref.SetExpires] or [Ref.Keep]. It must not be used beyond Unlock
// or the next At.
func (r Ref) State() []int64 {
	if r.slot == nil {
		return nil
	}
	if r.shard.instants {
		return r.shard.instant[:]
	}
	return r.slot[head:]
}

// Found reports whether the table has the key.
func (r Ref) Found() bool { return r.slot != nil }

// Keep keeps what was written to State, and its expiry as it was.
func (r Ref) Keep() {
	if s := r.shard; s.instants {
		word, rest := pack(s.instant[0], s.instant[1])
		atomic.StoreInt64(&r.slot[head], word)
		r.slot[head+1] = rest
	}
}

// SetExpires keeps what was written to State, and the instant, in microseconds,
// at which it equals none. That is kept in whole seconds, rounded up; a state of
// instants says it itself.
func (r Ref) SetExpires(micros int64) {
	if r.shard.instants {
		r.Keep()
		return
	}
	r.slot[1] = r.slot[1]&^expiryMask | expirySeconds(micros)
}

// Insert keeps the state of a key that was locked and had none, until expires;
// both instants are in microseconds. It reports false when the table is full:
// then nothing is kept.
func (t *Table) Insert(r Ref, h Hash, state []int64, expires, now int64) bool {
	return t.insert(r.shard, h, state, expires, now)
}

// Delete forgets a key that was locked and had state.
func (t *Table) Delete(r Ref, h Hash) {
	run := r.shard.run.Load()
	if i := run.find(h, t.stride); i >= 0 {
		t.remove(r.shard, run, i)
		t.entries.Add(-1)
		t.space.used.Add(-t.weight)
	}
}
