package engine

import (
	"fmt"
	"testing"
	"time"
)

// Resets are kept in bounded memory. One beyond the bound counts as a reset of every
// key: a refund then gives back less, never more.
func TestResetsBeyondTheBound(t *testing.T) {
	plan := tokenBucket(t, 10, 1, time.Hour)
	now := int64(1e15)
	s := New(Options{MaxKeys: 1000, Shards: 4, Now: func() int64 { return now }})
	take := func(key string, cost int64) (d Answer) {
		s.Take(&d, s.Hash([]byte(key)), plan, cost)
		return d
	}
	left := func(key string) int64 {
		var d Answer
		s.Peek(&d, s.Hash([]byte(key)), plan, 1)
		return d.Remaining
	}
	before := take("ann", 10)
	for i := range maxResets + 1000 {
		key := fmt.Sprint("key", i)
		take(key, 1)
		s.Reset(s.Hash([]byte(key)), plan)
	}
	if n := s.resets.table.Load().Len(); n > maxResets {
		t.Errorf("%d resets are kept, want at most %d", n, maxResets)
	}
	if keys, _, _ := s.Figures(); keys != 1 {
		t.Errorf("%d keys have state, want one: resets must not take capacity of keys", keys)
	}
	forgotten := take(fmt.Sprint("key", maxResets+999), 10)
	s.Refund(s.Hash([]byte("ann")), plan, &before)
	s.Refund(s.Hash(fmt.Append(nil, "key", maxResets+999)), plan, &forgotten) // of the instant of the reset
	if got := left("ann"); got != 0 {
		t.Errorf("a charge from before a reset beyond the bound gave back %d", got)
	}
	if got := left("key" + fmt.Sprint(maxResets+999)); got != 0 {
		t.Errorf("a charge of the instant of a reset beyond the bound gave back %d", got)
	}
	now++
	after := take("bob", 10)
	s.Refund(s.Hash([]byte("bob")), plan, &after)
	if got := left("bob"); got != 10 {
		t.Errorf("a charge from after all resets gave back %d, want 10", got)
	}
	now += 12 * time.Hour.Microseconds() // the kept resets expire
	reset := take("bob", 10)
	s.Reset(s.Hash([]byte("bob")), plan)
	again := take("bob", 10)
	s.Refund(s.Hash([]byte("bob")), plan, &reset)
	s.Refund(s.Hash([]byte("bob")), plan, &again)
	if got := left("bob"); got != 0 || s.resets.all.Load() == now {
		t.Errorf("%d are given back; the reset of one key counts for all: %v", got, s.resets.all.Load() == now)
	}
}
