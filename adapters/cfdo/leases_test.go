package cfdo_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// Two processes share a concurrency limit whose leases are in an object. What one of them releases
// the other can acquire.
func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	store := openAt(t, workerdtest.Shared(t).URL, limittest.NewClock())
	process := func() *limit.ConcurrencyLimit {
		return limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
			Max: 2, Limiter: limit.Options{Name: "reports", OnFailure: limit.FailClosed, Timeout: time.Minute},
		})
	}
	one, two := process(), process()
	acquire := func(c *limit.ConcurrencyLimit) (limit.Lease, bool) {
		lease, d, err := c.Acquire(t.Context(), limit.KeyOf("acme", "ann"))
		if err != nil {
			t.Fatal(err)
		}
		return lease, d.Allowed
	}
	first, ok := acquire(one)
	if _, again := acquire(two); !ok || !again {
		t.Fatal("two of two places are given")
	}
	if _, ok := acquire(one); ok {
		t.Fatal("a third of two places is given")
	}
	one.Release(first)
	poll.Until(t, "a released place is free", func() bool { _, ok := acquire(two); return ok })
	if n, err := one.Held(t.Context(), limit.KeyOf("acme", "ann")); n != 2 || err != nil {
		t.Errorf("%d places are held, %v", n, err)
	}
}

// A key has 4,096 leases at most. More are an error, and change nothing. The IDs may be any text.
func TestLeasesOfAKeyAreBounded(t *testing.T) {
	t.Parallel()
	s := openAt(t, workerdtest.Shared(t).URL, limittest.NewClock())
	var all []limit.Lease
	for i := range 4096 {
		all = append(all, limit.Lease{Key: "k", ID: "\xff\"ü" + strconv.Itoa(i)})
	}
	if err := s.Renew(t.Context(), all, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), limit.Lease{Key: "k", ID: "one more"}, 10_000, time.Hour); err == nil {
		t.Error("lease number 4,097 is given")
	}
	n, ids, err := s.Held(t.Context(), "k", 4096)
	known := map[string]bool{}
	for _, l := range all {
		known[l.ID] = true
	}
	for _, id := range ids {
		delete(known, id)
	}
	if n != 4096 || len(known) != 0 || err != nil {
		t.Errorf("%d leases are held, and %d of them not listed: %v", n, len(known), err)
	}
	if err := s.Release(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if n, _, err := s.Held(t.Context(), "k", 0); n != 0 || err != nil {
		t.Errorf("%d leases are held after all were released: %v", n, err)
	}
	for _, id := range []string{"", string(make([]byte, 2049))} {
		if _, err := s.Acquire(t.Context(), limit.Lease{Key: "k", ID: id}, 1, time.Hour); err == nil {
			t.Errorf("a lease with an ID of %d bytes is given", len(id))
		}
	}
}
