package table

import (
	"sync"
	"sync/atomic"
)

// A Space is what several tables share: the hash, so that a key is hashed once
// whichever of them it belongs to, and one bound on their entries together.
type Space struct {
	secrets   secrets
	max       int64
	used      atomic.Int64
	elsewhere atomic.Uint64 // the next shard to be relieved when there is no room
	mu        sync.Mutex
	tables    atomic.Pointer[[]*Table]
}

// NewSpace makes a space with room for max entries of two words. An entry of
// more words counts for as many of those as it takes the room of.
func NewSpace(max int) *Space {
	return &Space{secrets: newSecrets(), max: int64(max)}
}

// weight is what words count for.
func weight(words int) int64 { return int64(words+3) / 4 }

// Hash returns the hash of a key in every table of the space.
func (s *Space) Hash(key string) Hash { return s.secrets.hashString(key) }

// HashBytes returns the hash of a key in a buffer: that of the same string.
func (s *Space) HashBytes(key []byte) Hash { return s.secrets.hash(key) }

// Used is the room that is taken, in entries of two words.
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

// relieve drops expired entries of another shard, if one is free: expired
// entries there must not keep this one from having new keys.
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
