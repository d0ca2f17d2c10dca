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
	{"OneTooMany", "LeaseTimelines", "a lease is had if fewer than the limit are held"},
	{"HalfALease", "LeaseTimelines", "a lease is held until it is released or its time is over"},
	{"ForgetsAtOnce", "LeaseTimelines", "a lease is held until it is released or its time is over"},
	{"CheckThenSet", "LeasesAtOnce", "N callers get exactly the limit's leases"},
}

// key returns all leases of a key, those included that have ended and would last again if the clock
// were set back.
func (s *leases) key(key string) map[string]int64 {
	if s.until == nil {
		s.until = map[string]map[string]int64{}
	}
	if s.until[key] == nil {
		s.until[key] = map[string]int64{}
	}
	kept := limit.ClockTolerance.Microseconds()
	if s.fault == "ForgetsAtOnce" {
		kept = 0
	}
	maps.DeleteFunc(s.until[key], func(_ string, until int64) bool { return until+kept <= s.clock.Now().UnixMicro() })
	return s.until[key]
}

// last returns those of the leases that have not ended.
func (s *leases) last(all map[string]int64) map[string]int64 {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(_ string, until int64) bool { return until <= s.clock.Now().UnixMicro() })
	return all
}

func (s *leases) Acquire(_ context.Context, lease limit.Lease, most int64, leaseTime time.Duration) (d limit.Decision, err error) {
	if err := leasecheck.Check(most, leaseTime); err != nil && (s.fault != "ZeroIsUnlimited" || most != 0) {
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key(lease.Key)
	held := int64(len(s.last(k)))
	if _, again := s.last(k)[lease.ID]; again && s.fault != "CountedTwice" {
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
	until := s.clock.Now().UnixMicro() + leaseTime.Microseconds()
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
	for _, until := range s.last(k) {
		if left := time.Duration(until-s.clock.Now().UnixMicro()) * time.Microsecond; s.fault != "NoLease" && (d.ResetAfter == 0 || left < d.ResetAfter) {
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
		if _, held := s.last(k)[lease.ID]; held || s.fault != "RenewsWhatIsThere" {
			k[lease.ID] = s.clock.Now().UnixMicro() + leaseTime.Microseconds()
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
	count = int64(len(s.last(s.key(key))))
	if s.fault != "ListsTheDead" {
		all = s.last(s.key(key))
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

// TestSuiteCatchesFaultyHolders is TestSuiteCatches for leases: a fault that is a race, or shows in few of the random
// timelines, may need several runs. A store without a fault passes.
func TestSuiteCatchesFaultyHolders(t *testing.T) {
	for _, f := range holdFaults {
		t.Run(f.name, func(t *testing.T) {
			test := "^TestFaultyHolder$/^" + f.part + "$"
			if out, err := suitetest.Run(test, "none"); err != nil || !strings.Contains(out, "PASS") {
				t.Fatalf("the suite failed a store without a fault:\n%s", out)
			}
			out := suitetest.Catches(t, 20, test, f.name, "-rapid.nofailfile", "-rapid.shrinktime=10ms")
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
