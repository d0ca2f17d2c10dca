package table

import (
	"sync"
	"sync/atomic"
)

// A Space is shared by several tables. It has one bound on all of their entries together,
// and one hash function, so that a key is hashed once for all tables.
type Space struct {
	secrets   secrets
	max       int64
	used      atomic.Int64
	elsewhere atomic.Uint64 // the next shard to be relieved when the space is full
	mu        sync.Mutex
	tables    atomic.Pointer[[]*Table]
}

// NewSpace makes a space with a capacity of max entries of two words. A larger entry
// counts as several.
func NewSpace(max int) *Space {
	return &Space{secrets: newSecrets(), max: int64(max)}
}

// weight is how much of the capacity an entry of so many words takes.
func weight(words int) int64 { return int64(words+3) / 4 }

// Hash returns the hash of a key in every table of the space.
func (s *Space) Hash(key string) Hash { return s.secrets.hashString(key) }

// HashBytes is Hash for a key in a buffer.
func (s *Space) HashBytes(key []byte) Hash { return s.secrets.hash(key) }

// Used is how much of the capacity is used, in entries of two words.
func (s *Space) Used() int { return int(s.used.Load()) }

// ids number the tables of the process.
var ids atomic.Uint64

func (s *Space) add(t *Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tables []*Table
	if old := s.tables.Load(); old != nil {
		tables = append(tables, *old...)
	}
	t.id = ids.Add(1)
	tables = append(tables, t)
	s.tables.Store(&tables)
}

// Tables are the tables of the space.
func (s *Space) Tables() []*Table {
	if t := s.tables.Load(); t != nil {
		return *t
	}
	return nil
}

// relieve drops expired entries of another shard, if the lock of one is free: expired
// entries there must not prevent new keys here.
func (s *Space) relieve(now int64) {
	tables := s.Tables()
	n := s.elsewhere.Add(1)
	t := tables[n%uint64(len(tables))]
	shard := &t.shards[n/uint64(len(tables))&t.mask]
	if !shard.mu.TryLock() {
		return
	}
	defer shard.mu.Unlock()
	t.sweep(shard, reliefStep, now)
}
