package engine

import (
	"sync/atomic"

	"github.com/wskit/wskit/internal/table"
)

// maxResets bounds how many resets are remembered at a time. One takes about 40
// bytes.
const maxResets = 1 << 16

// resets remembers when keys were reset, for as long as a charge from before could be
// refunded. The zero value is ready; it takes memory with the first reset.
type resets struct {
	table atomic.Pointer[table.Table]
	// all is the latest reset for which there was no room. It is taken for a reset of
	// every key, as far as refunds are concerned: they then give back less.
	all atomic.Int64
}

// note remembers a reset of a key until the instant end, and longer by grace.
func (s *resets) note(h table.Hash, now, end, grace int64) {
	t := s.table.Load()
	if t == nil {
		s.table.CompareAndSwap(nil, table.New(table.Options{Width: 1, Max: maxResets, Shards: 16, Grace: grace}))
		t = s.table.Load()
	}
	r := t.Lock(h)
	defer r.Unlock()
	if r.Found() {
		r.State()[0] = now
		r.SetExpires(end)
		return
	}
	if t.Insert(r, h, []int64{now}, end, now) {
		return
	}
	for {
		all := s.all.Load()
		if all >= now && believed(all, now) || s.all.CompareAndSwap(all, now) {
			return
		}
	}
}

// believed reports whether a reset lies so little ahead that the clock need not have
// been set back for good.
func believed(reset, now int64) bool { return reset-now <= healAfter }

// last is the instant of the last reset of a key that is remembered, or 0.
func (s *resets) last(h table.Hash, now int64) (last int64) {
	t := s.table.Load()
	if t == nil {
		return 0
	}
	if all := s.all.Load(); believed(all, now) {
		last = all
	}
	r := t.Lock(h)
	defer r.Unlock()
	if r.Found() && believed(r.State()[0], now) {
		last = max(last, r.State()[0])
	}
	return last
}
