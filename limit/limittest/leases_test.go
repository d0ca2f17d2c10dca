package limittest_test

import (
	"context"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/internal/suitetest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// leases is the simplest lease store, with one fault.
type leases struct {
	limit.Store
	clock *limittest.Clock
	fault string

	mu    sync.Mutex
	until map[string]map[string]int64
}

var holdFaults = []struct{ name, part, rule string }{
	{"OneTooMany", "LeasesUpToTheLimit", "there are no more leases than the limit says"},
	{"DenialHolds", "LeasesUpToTheLimit", "a denial changes nothing"},
	{"ReleaseIsLost", "LeasesUpToTheLimit", "a lease is released once"},
	{"ReleaseFreesAll", "LeasesUpToTheLimit", "a lease is released once"},
	{"ZeroIsUnlimited", "LeasesUpToTheLimit", "an invalid argument is an error"},
	{"CountedTwice", "HoldingAgainIsOnce", "acquiring a held lease again succeeds"},
	{"LeaseNotExtended", "HoldingAgainIsOnce", "to hold a lease again is a new lease"},
	{"NoLease", "LeasesRunOut", "a lease is held no longer than its lease"},
	{"HalfALease", "LeasesRunOut", "a lease is held until it expires"},
	{"RenewsWhatIsThere", "RenewalsBringBack", "a renewal brings back what was lost"},
	{"ListsOnlyOne", "LeasesAreListed", "the leases that are held can be listed"},
	{"ListsTheDead", "LeasesAreListed", "the leases that are held can be listed"},
	{"ListsAll", "LeasesAreListed", "no more leases are listed than are asked for"},
	{"CheckThenSet", "LeasesAtOnce", "N callers get exactly the limit's leases"},
}

func (s *leases) key(key string) map[string]int64 {
	if s.until == nil {
		s.until = map[string]map[string]int64{}
	}
	if s.until[key] == nil {
		s.until[key] = map[string]int64{}
	}
	for id, until := range s.until[key] {
		if until <= s.clock.Now() {
			delete(s.until[key], id)
		}
	}
	return s.until[key]
}

func (s *leases) Acquire(_ context.Context, lease limit.Lease, most int64, leaseTime time.Duration) (d limit.Decision, err error) {
	if err := leasecheck.Check(most, leaseTime); err != nil && (s.fault != "ZeroIsUnlimited" || most != 0) {
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key(lease.Key)
	held := int64(len(k))
	if _, again := k[lease.ID]; again && s.fault != "CountedTwice" {
		held--
	}
	d = limit.Decision{Limit: most, Remaining: max(0, most-held-1), Allowed: held < most || s.fault == "OneTooMany" && held == most}
	if s.fault == "CheckThenSet" {
		s.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		s.mu.Lock()
	}
	until := s.clock.Now() + leaseTime.Microseconds()
	switch s.fault {
	case "NoLease":
		until = 1 << 60
		d.ResetAfter = leaseTime
	case "HalfALease":
		until -= leaseTime.Microseconds() / 2
	case "LeaseNotExtended":
		if old, again := k[lease.ID]; again {
			until = old
		}
	}
	if d.Allowed || s.fault == "DenialHolds" {
		k[lease.ID] = until
	}
	for _, until := range k {
		if left := time.Duration(until-s.clock.Now()) * time.Microsecond; s.fault != "NoLease" && (d.ResetAfter == 0 || left < d.ResetAfter) {
			d.ResetAfter = left
		}
	}
	return d, nil
}

func (s *leases) Renew(_ context.Context, all []limit.Lease, leaseTime time.Duration) error {
	if err := leasecheck.Check(1, leaseTime); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lease := range all {
		k := s.key(lease.Key)
		if _, held := k[lease.ID]; held || s.fault != "RenewsWhatIsThere" {
			k[lease.ID] = s.clock.Now() + leaseTime.Microseconds()
		}
	}
	return nil
}

func (s *leases) Release(_ context.Context, all []limit.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lease := range all {
		switch s.fault {
		case "ReleaseIsLost":
		case "ReleaseFreesAll":
			clear(s.key(lease.Key))
		default:
			delete(s.key(lease.Key), lease.ID)
		}
	}
	return nil
}

func (s *leases) Held(_ context.Context, key string, n int) (count int64, ids []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.until[key])
	count = int64(len(s.key(key)))
	if s.fault != "ListsTheDead" {
		all = s.key(key)
	}
	if n == 0 {
		return count, nil, nil
	}
	for id := range all {
		if len(ids) < n && (s.fault != "ListsOnlyOne" || len(ids) < 1) || s.fault == "ListsAll" {
			ids = append(ids, id)
		}
	}
	return count, ids, nil
}

// TestSuiteCatchesFaultyHolders is TestSuiteCatches for leases. A store without a fault
// passes.
func TestSuiteCatchesFaultyHolders(t *testing.T) {
	for _, f := range holdFaults {
		t.Run(f.name, func(t *testing.T) {
			test := "^TestFaultyHolder$/^" + f.part + "$"
			if out, err := suitetest.Run(test, "none"); err != nil || !strings.Contains(out, "PASS") {
				t.Fatalf("the suite failed a store without a fault:\n%s", out)
			}
			out := suitetest.Catches(t, 1, test, f.name)
			if !strings.Contains(out, "rule broken: "+f.rule) {
				t.Fatalf("the suite failed without naming the rule %q:\n%s", f.rule, out)
			}
		})
	}
}

func TestFaultyHolder(t *testing.T) {
	fault := suitetest.Fault(t)
	limittest.Run(t, func(*testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{Store: &leases{clock: clock, fault: fault}, Clock: clock}
	})
}
