package limit_test

import (
	"context"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// stillStore has a clock that stands still, so no window ends during a test.
func stillStore() memory.Store {
	return memory.NewStore(memory.Options{Now: limittest.NewClock().Now})
}

func remaining(t *testing.T, l *limit.Limiter, key limit.Key) int64 {
	t.Helper()
	d, err := l.Peek(t.Context(), key, 1)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// Only the first settlement counts; a denial has nothing to settle; the end of a context does not
// keep a reservation from being settled; and nothing is settled with less than nothing.
func TestReservationIsSettledOnce(t *testing.T) {
	l := limit.New(stillStore(), limit.FixedWindow{Limit: 100, Window: 24 * time.Hour})
	key := limit.KeyOf("acme", "ann")
	r, d, err := l.Reserve(t.Context(), key, 60)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	denied, d, err := l.Reserve(t.Context(), key, 60)
	if err != nil || d.Allowed {
		t.Fatal(d, err)
	}
	if _, err := r.Settle(t.Context(), -1); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("settled with -1: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if over, err := r.Settle(ended, 10); over != 0 || err != nil {
		t.Error(over, err)
	}
	for _, actual := range []int64{0, 100} {
		if over, err := r.Settle(t.Context(), actual); over != 0 || err != nil {
			t.Error(over, err)
		}
		if over, err := denied.Settle(t.Context(), actual); over != 0 || err != nil {
			t.Error(over, err)
		}
	}
	if n := remaining(t, l, key); n != 90 {
		t.Errorf("%d are left, want 90", n)
	}
}

// What is more than the reservation is charged as far as it fits, whatever the numbers.
func TestSettledWithMore(t *testing.T) {
	for free := range int64(20) {
		for more := range int64(40) {
			l := limit.New(stillStore(), limit.FixedWindow{Limit: 5 + free, Window: 24 * time.Hour})
			r, _, _ := l.Reserve(t.Context(), limit.KeyOf("ann"), 5)
			over, err := r.Settle(t.Context(), 5+more)
			if n := remaining(t, l, limit.KeyOf("ann")); err != nil || over != max(0, more-free) || n != max(0, free-more) {
				t.Fatalf("%d free, %d more: %d over, %d left, %v", free, more, over, n, err)
			}
		}
	}
	l := limit.New(stillStore(), limit.FixedWindow{Limit: 1 << 50, Window: 24 * time.Hour})
	r, _, _ := l.Reserve(t.Context(), limit.KeyOf("ann"), 1)
	if over, err := r.Settle(t.Context(), 1<<62); err != nil || over != 1<<62-1<<50 {
		t.Error(over, err)
	}
}

// A store without refunds is refused before anything is charged.
func TestReserveWithoutRefunds(t *testing.T) {
	store := &takesOnly{}
	l := limit.New(store, limit.FixedWindow{Limit: 10, Window: time.Hour}, limit.Options{Name: "n"})
	if _, _, err := l.Reserve(t.Context(), limit.KeyOf("ann"), 5); !errors.Is(err, errors.ErrUnsupported) || store.calls != 0 {
		t.Errorf("%v, %d calls", err, store.calls)
	}
}

type takesOnly struct{ calls int }

func (s *takesOnly) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	s.calls++
	return limit.Decision{Allowed: true, Charged: 1}, nil
}

// A reservation in shadow mode, or by the failure policy, was not charged, and is not settled.
func TestReservationThatWasNotCharged(t *testing.T) {
	store := stillStore()
	p := limit.FixedWindow{Limit: 10, Window: 24 * time.Hour}
	enforced := limit.New(store, p, limit.Options{Name: "n"})
	shadow := limit.New(store, p, limit.Options{Name: "n", Shadow: true})
	if _, _, err := shadow.Reserve(t.Context(), limit.KeyOf("ann"), 4); err != nil {
		t.Fatal(err)
	}
	r, d, err := shadow.Reserve(t.Context(), limit.KeyOf("ann"), 8)
	if err != nil || !d.Shadowed {
		t.Fatal(d, err)
	}
	if over, err := r.Settle(t.Context(), 0); over != 0 || err != nil || remaining(t, enforced, limit.KeyOf("ann")) != 6 {
		t.Errorf("%d over, %v, %d left, want 6", over, err, remaining(t, enforced, limit.KeyOf("ann")))
	}
}

func TestReserveAllocatesNothing(t *testing.T) {
	l := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 600_000, Refill: 1, Per: time.Hour})
	bound := l.Key(nil).Part("ann")
	for name, key := range map[string]limit.Key{"begun": bound, "text": limit.KeyOf("ann")} {
		if n := testing.AllocsPerRun(1000, func() {
			r, _, _ := l.Reserve(t.Context(), key, 3)
			_, _ = r.Settle(t.Context(), 1)
		}); n != 0 && !race.Enabled {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// A reservation that is never settled, as that of a process that was killed, is missing for as long as
// docs/decisions/reservations.md says, and no longer. The clock stands 7 µs after the beginning of a window.
func TestReservationOfADeadOwner(t *testing.T) {
	bucket := limit.TokenBucket{Capacity: 100, Refill: 2, Per: time.Second}
	for _, tc := range []struct {
		policy  limit.Policy
		missing time.Duration // at most
	}{
		{bucket, 30 * time.Second},
		{limit.Pacer{Burst: 40, Refill: 2, Per: time.Second, MaxWait: 30 * time.Second}, 30 * time.Second},
		{limit.FixedWindow{Limit: 100, Window: time.Minute}, time.Minute},
		{limit.SlidingWindow{Limit: 100, Window: time.Minute}, 2 * time.Minute},
		{limit.SlidingWindow{Limit: 100, Window: time.Minute, Buckets: 4}, 75 * time.Second},
		{limit.SlidingLog{Limit: 100, Window: time.Minute}, time.Minute},
		{limit.All(bucket, limit.SlidingLog{Limit: 100, Window: time.Minute}), time.Minute},
	} {
		clock := limittest.NewClock()
		l := limit.New(memory.NewStore(memory.Options{Now: clock.Now}), tc.policy)
		key := limit.KeyOf("ann")
		if _, d, err := l.Reserve(t.Context(), key, 60); err != nil || !d.Allowed {
			t.Fatal(tc.policy, d, err)
		}
		const early = 10 * time.Microsecond
		clock.Advance(tc.missing - early)
		if remaining(t, l, key) == 100 {
			t.Errorf("%v: all is back before %v", tc.policy, tc.missing)
		}
		clock.Advance(early)
		if n := remaining(t, l, key); n != 100 {
			t.Errorf("%v: after %v %d of 100 are left", tc.policy, tc.missing, n)
		}
	}
}
