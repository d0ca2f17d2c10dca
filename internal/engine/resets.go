package engine

import (
	"sync/atomic"

	"github.com/wskit/wskit/internal/table"
)

// maxResets is the largest number of resets that are kept at a time, about 40 bytes each.
const maxResets = 1 << 16

// resets keeps the instants at which keys were reset, for as long as an earlier charge could
// be refunded. The zero value is ready to use; it allocates with the first reset.
type resets struct {
	table atomic.Pointer[table.Table]
	// all is the instant of the latest reset beyond maxResets. For refunds it counts as a
	// reset of every key: they then give back less, never more.
	all atomic.Int64
}

// note keeps a reset of a key until end + grace.
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
		if all >= now && plausible(all, now) || s.all.CompareAndSwap(all, now) {
			return
		}
	}
}

// plausible reports whether a reset is so little ahead of now that the clock was not
// necessarily set back for good.
func plausible(reset, now int64) bool { return reset-now <= correctAfter }

// last returns the instant of the last known reset of a key, or 0.
func (s *resets) last(h table.Hash, now int64) (last int64) {
	t := s.table.Load()
	if t == nil {
		return 0
	}
	if all := s.all.Load(); plausible(all, now) {
		last = all
	}
	r := t.Lock(h)
	defer r.Unlock()
	if r.Found() && plausible(r.State()[0], now) {
		last = max(last, r.State()[0])
	}
	return last
}
