package cfdo_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

const reportLease = 10 * time.Second

// openReports is what each process has of one concurrency limit, of two at a time.
func openReports(t *testing.T, url string) (*limit.ConcurrencyLimit, limit.Key) {
	t.Helper()
	store := openStore(t, url, cfdo.Options{})
	return limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
		Max: 2, LeaseTime: reportLease, Limiter: limit.Options{Name: "reports", OnFailure: limit.FailClosed, Timeout: patience},
	}), limit.KeyOf("acme", "ann")
}

// The leases of a killed process end, by the clock of the object, and no others do.
func TestLeasesOfAKilledProcess(t *testing.T) {
	t.Parallel() // it waits for a lease to end
	w := workerdtest.Start(t, workerdtest.Config{})
	child := process.StartTest(t, "TestHoldingProcess", "WSKIT_TEST_HOLDING="+w.URL, "held")
	h, key := openReports(t, w.URL)
	// One of the leases that the process had was released, and this process takes it.
	var own limit.Lease
	var since time.Time
	eventually(t, "a place is free", func() bool {
		lease, d, err := h.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		own, since = lease, time.Now()
		return d.Allowed
	})
	if _, d, err := h.Acquire(t.Context(), key); err != nil || d.Allowed {
		t.Errorf("a third of two places: %+v, %v", d, err)
	}
	_ = child.Process.Kill()
	if n, err := h.Held(t.Context(), key); err != nil || n != 2 {
		t.Errorf("%d places are held when the process was just killed, %v; want 2", n, err)
	}
	eventually(t, "the lease of the killed process ends", func() bool {
		d, err := h.Peek(t.Context(), key)
		if err != nil || d.Remaining > 1 {
			t.Fatalf("%+v, %v: the lease of this process counts", d, err)
		}
		return d.Allowed
	})
	if _, d, err := h.Acquire(t.Context(), key); err != nil || !d.Allowed {
		t.Errorf("the place of the killed process: %+v, %v", d, err)
	}
	if _, d, err := h.Acquire(t.Context(), key); err != nil || d.Allowed {
		t.Errorf("a third of two places: %+v, %v", d, err)
	}
	time.Sleep(time.Until(since.Add(reportLease + time.Second)))
	if n, err := h.Held(t.Context(), key); err != nil || n != 2 {
		t.Errorf("%d places are held, %v: that of this process was renewed, so 2 are", n, err)
	}
	h.Release(own)
}

// TestHoldingProcess is the process that is killed.
func TestHoldingProcess(t *testing.T) {
	url := os.Getenv("WSKIT_TEST_HOLDING")
	if url == "" {
		t.Skip("the process of TestLeasesOfAKilledProcess")
	}
	h, key := openReports(t, url)
	first, d, err := h.Acquire(t.Context(), key)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	if _, d, err := h.Acquire(t.Context(), key); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	h.Release(first)
	fmt.Println("held")
	select {} // until it is killed
}
