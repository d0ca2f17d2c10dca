package cfdo_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// reportLease is long enough that a machine which stops processes for seconds leaves time to renew it.
const reportLease = 12 * time.Second

// openReports is what each process has of one concurrency limit, of two at a time.
func openReports(t *testing.T, url, name string) (*limit.ConcurrencyLimit, limit.Key) {
	t.Helper()
	store := openStore(t, url, cfdo.Options{})
	return limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
		Max: 2, LeaseTime: reportLease, Limiter: limit.Options{Name: name, OnFailure: limit.FailClosed, Timeout: poll.Guard},
	}), limit.KeyOf("acme", "ann")
}

// The leases of a killed process end, by the clock of the object, and no others do.
func TestLeasesOfAKilledProcess(t *testing.T) {
	t.Parallel() // it waits for a lease to end
	w := workerdtest.Shared(t)
	name := own("reports")
	child := process.StartTest(t, "TestHoldingProcess", "WSKIT_TEST_HOLDING="+w.URL+" "+name, "held")
	h, key := openReports(t, w.URL, name)
	// One of the leases that the process had was released, and this process takes it.
	var mine limit.Lease
	eventually(t, "a place is free", func() bool {
		lease, d, err := h.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		mine = lease
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
	// A lease that is not renewed ends when its time has passed for the object.
	marker := limit.Lease{Key: own("marker"), ID: "marker"}
	store := openStore(t, w.URL, cfdo.Options{})
	if _, err := store.Acquire(t.Context(), marker, 1, reportLease); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a lease has passed by the clock of the object", func() bool {
		n, _, err := store.Held(t.Context(), marker.Key, 0)
		return err == nil && n == 0
	})
	if n, err := h.Held(t.Context(), key); err != nil || n != 2 {
		t.Errorf("%d places are held, %v: that of this process was renewed, so 2 are", n, err)
	}
	h.Release(mine)
}

// TestHoldingProcess is the process that is killed.
func TestHoldingProcess(t *testing.T) {
	url, name, _ := strings.Cut(os.Getenv("WSKIT_TEST_HOLDING"), " ")
	if url == "" {
		t.Skip("the process of TestLeasesOfAKilledProcess")
	}
	h, key := openReports(t, url, name)
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
