package limit_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// A lease that was refused because its call failed may be held in the store all the same: it is released there.
func TestALeaseInDoubtIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShared(limittest.NewClock())
		p := newProcess(t, s, limit.FailClosed)
		s.failing, s.unclear = errors.New("no answer"), true
		if _, err := p.Acquire(t.Context(), limit.KeyOf("ann"), "a"); err == nil {
			t.Fatal("a call that failed has got a lease")
		}
		if p.Count() != 1 {
			t.Errorf("%d leases are to be released, want the one in doubt", p.Count())
		}
		s.failing = nil
		if err := p.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !p.acquire("b") || !p.acquire("c") {
			t.Error("the lease in doubt still takes a place")
		}
	})
}
