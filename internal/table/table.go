// Package table is a bounded table from keys to small integer states that
// expire, for rate-limit stores that live in a process.
//
// It is independent of policies: it finds the state of a key, under a lock, and
// stores it until its expiry.
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
// A table is split into shards, each with its own lock. A shard is one slice of
// integers without pointers, so the garbage collector never scans it. A slot has 96
// bits of a keyed 128-bit hash, the expiry in seconds and the state, next to each other:
// with two state words a decision touches one cache line. Keys themselves are not
// stored, nor any secret in them. The number of the shard adds further bits of the
// hash, so the probability that any two of a billion keys share a slot is 10⁻¹¹. The hash
// has a random seed per process, so an attacker cannot find such keys.
//
// Collisions are resolved by linear probing. The slot of a dropped entry is not used
// again. When three quarters of the slots of a shard have been used, the shard is rebuilt
// and is then three fifths full. Slots never change their key, which allows a search
// without the lock.
//
// # Memory
//
// Only expired entries are evicted. Each insert checks a few slots of its shard and
// drops the expired ones, and a rebuild drops all of them, so a table is never blocked by
// a long sweep. Max bounds the number of entries: beyond it Insert fails. Entries that
// have not expired are never evicted.
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
	// Instants makes the state of an entry two words: an instant in microseconds, below
	// 2⁵³, and a fraction of a microsecond, at least 0. [Table.Instant] finds and changes
	// them without a lock. The state expires at that instant; other expiries are ignored.
	Instants bool
	// Max bounds the number of entries, at least 1, in units of an entry of two
	// words: a wider one counts for more. It is not used with a Space.
	Max int
	// Space is shared with other tables; nil means that the table has its own.
	Space *Space
	// Shards is rounded up to a power of two; 0 means 1.
	Shards int
	// Grace is how many microseconds entries are kept beyond their expiry, for a
	// clock that may be set back by as much.
	Grace int64
}

// Table is a bounded table. All its methods may be called concurrently.
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

// New makes an empty table. It allocates as entries are inserted.
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
		o.Width = 1 // the index of the slice
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

// Len is the number of entries, including expired ones that were not evicted yet.
func (t *Table) Len() int { return int(t.entries.Load()) }

// Evicted is how many expired entries were evicted.
func (t *Table) Evicted() int64 { return t.evicted.Load() }

// A Hash identifies a key in the tables of one space.
type Hash struct{ a, b uint64 }

// Hash returns the hash of a key.
func (t *Table) Hash(key string) Hash { return t.space.Hash(key) }

// HashBytes is Hash for a key in a buffer.
func (t *Table) HashBytes(key []byte) Hash { return t.space.HashBytes(key) }

// Low returns some evenly distributed bits of the hash.
func (h Hash) Low() uint64 { return h.a }

// With returns a hash of the key and a number. With(0) is h itself.
func (h Hash) With(n uint64) Hash {
	hi, lo := bits.Mul64(n, 0x9e3779b97f4a7c15)
	return Hash{h.a ^ lo, h.b ^ lo ^ hi}
}

// A Ref is the place of a key in the table, locked until Unlock. The whole shard is
// locked with it: hold it for the arithmetic only. (It has four words, so that
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

// At finds a key in a shard that is already locked ([Locks]).
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

// State returns the key's state, or nil if the table has none. Change it in place and store
// the change with [Ref.SetExpires] or [Ref.Keep]. Do not use it after Unlock or the next At.
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

// Keep stores what was written to State and leaves the expiry unchanged.
func (r Ref) Keep() {
	if s := r.shard; s.instants {
		word, rest := pack(s.instant[0], s.instant[1])
		atomic.StoreInt64(&r.slot[head], word)
		r.slot[head+1] = rest
	}
}

// SetExpires stores what was written to State, and the instant of expiry in microseconds,
// which is rounded up to whole seconds. In a table of instants the state itself has the
// expiry.
func (r Ref) SetExpires(micros int64) {
	if r.shard.instants {
		r.Keep()
		return
	}
	r.slot[1] = r.slot[1]&^expiryMask | expirySeconds(micros)
}

// Insert stores the state of a locked key that has none, until expires. Both instants are
// in microseconds. It returns false and stores nothing if the table is full.
func (t *Table) Insert(r Ref, h Hash, state []int64, expires, now int64) bool {
	return t.insert(r.shard, h, state, expires, now)
}

// Delete removes a locked key that has state.
func (t *Table) Delete(r Ref, h Hash) {
	run := r.shard.run.Load()
	if i := run.find(h, t.stride); i >= 0 {
		t.remove(r.shard, run, i)
		t.entries.Add(-1)
		t.space.used.Add(-t.weight)
	}
}
