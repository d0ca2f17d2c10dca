package table

import (
	"slices"
	"sync"
)

// Locks holds the shards of several keys, of one table or of several, locked
// together. The zero value holds none.
type Locks struct {
	shards []place
	keys   []lockedKey
}

type lockedKey struct {
	table *Table
	hash  Hash
}

type place struct {
	order uint64 // the same for every Locks, to prevent deadlocks
	mu    *sync.Mutex
	shard *shard // nil for a lock of the caller's
}

// last is set in the order of locks that are taken after all shards.
const last = 1 << 63

// Add adds a key to be locked.
func (l *Locks) Add(t *Table, h Hash) {
	n := h.b & t.mask
	l.shards = append(l.shards, place{t.id<<32 | n, &t.shards[n].mu, &t.shards[n]})
	if t.instants {
		l.keys = append(l.keys, lockedKey{t, h})
	}
}

// AddLast adds a lock of the caller, to be taken after those of all keys. Such locks are
// taken by ascending order. Each lock has one number, the same in every call.
func (l *Locks) AddLast(order uint64, mu *sync.Mutex) {
	l.shards = append(l.shards, place{last | order, mu, nil})
}

// Lock locks the shards of all keys and the other locks that were added.
func (l *Locks) Lock() {
	slices.SortFunc(l.shards, func(a, b place) int {
		switch {
		case a.order < b.order:
			return -1
		case a.order > b.order:
			return 1
		}
		return 0
	})
	l.shards = slices.CompactFunc(l.shards, func(a, b place) bool { return a.order == b.order })
	for _, p := range l.shards {
		p.mu.Lock()
		if p.shard != nil {
			p.shard.together = true
		}
	}
}

// Unlock releases the locks and removes the keys.
func (l *Locks) Unlock() {
	for _, k := range l.keys {
		r := k.table.shards[k.hash.b&k.table.mask].run.Load()
		if i := r.find(k.hash, k.table.stride); i >= 0 {
			release(r.slots[i : i+k.table.stride])
		}
	}
	for _, p := range l.shards {
		if p.shard != nil {
			p.shard.together = false
		}
		p.mu.Unlock()
	}
	clear(l.shards)
	clear(l.keys)
	l.shards, l.keys = l.shards[:0], l.keys[:0]
}
