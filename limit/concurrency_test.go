package limit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// shared is a store that outlives its users, and fails on demand. It is a
// memory store without the mark of one.
type shared struct {
	limit.Store
	holder  limit.LeaseStore
	mu      sync.Mutex // of what is set while a goroutine renews and releases
	failing error
	unclear bool // fails after it has done what it was asked for
	asked   int
	renews  int
	during  func()                      // a renewal
	slow    func(context.Context) error // a release
}

func newShared(clock *limittest.Clock) *shared {
	m := memory.NewStore(memory.Options{Now: clock.Now})
	return &shared{Store: m, holder: m}
}

func (s *shared) do(f func() error) error {
	s.mu.Lock()
	failing := s.failing
	s.mu.Unlock()
	if failing != nil && !s.unclear {
		return failing
	}
	return errors.Join(f(), failing)
}

// becomes changes how the store fails and how slow it is, while a goroutine uses it.
func (s *shared) becomes(failing error, slow func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing, s.slow = failing, slow
}

func (s *shared) Acquire(ctx context.Context, lease limit.Lease, most int64, leaseTime time.Duration) (d limit.Decision, err error) {
	s.asked++
	err = s.do(func() error { d, err = s.holder.Acquire(ctx, lease, most, leaseTime); return err })
	return d, err
}

func (s *shared) Renew(ctx context.Context, leases []limit.Lease, leaseTime time.Duration) error {
	s.renews++
	if s.during != nil {
		s.during()
	}
	return s.do(func() error { return s.holder.Renew(ctx, leases, leaseTime) })
}

func (s *shared) Release(ctx context.Context, leases []limit.Lease) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow != nil {
		if err := slow(ctx); err != nil {
			return err
		}
	}
	return s.do(func() error { return s.holder.Release(ctx, leases) })
}

func (s *shared) Held(ctx context.Context, key string, n int) (int64, []string, error) {
	return s.holder.Held(ctx, key, n)
}

// synctestRun runs a subtest under a clock that does not wait.
func synctestRun(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// process is one of those that share a store.
type process struct {
	*limit.Leases
	t *testing.T
}

func newProcess(t *testing.T, s limit.Store, onFailure limit.Failure) process {
	return process{limit.NewLeases(s, 2, 0, limit.Options{Name: "conns", OnFailure: onFailure}), t}
}

func (p process) acquire(id string) bool {
	p.t.Helper()
	d, err := p.Acquire(p.t.Context(), limit.KeyOf("ann"), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return d.Allowed
}

func (p process) release(id string) {
	_ = p.Release(p.t.Context(), limit.KeyOf("ann"), id)
}

func (p process) expect(held int64) {
	p.t.Helper()
	if n, err := p.Held(p.t.Context(), limit.KeyOf("ann")); n != held || err != nil {
		p.t.Errorf("%d leases are held (%v), want %d", n, err, held)
	}
}

func TestLeasesAreCountedAcrossProcesses(t *testing.T) {
	clock := limittest.NewClock()
	s := newShared(clock)
	one, two := newProcess(t, s, limit.FailLocal), newProcess(t, s, limit.FailLocal)
	if !one.acquire("a") || !two.acquire("b") || one.acquire("c") || two.acquire("d") {
		t.Error("two of two leases are handed out over both processes")
	}
	one.release("a")
	if !two.acquire("d") {
		t.Error("what one process releases the other may take")
	}
	two.release("a") // not its own
	two.expect(2)
	if one.Count() != 0 || two.Count() != 2 {
		t.Errorf("%d and %d are to be renewed", one.Count(), two.Count())
	}
}

// A process that is killed neither renews nor releases.
func TestLeasesOfAKilledProcessComeBack(t *testing.T) {
	clock := limittest.NewClock()
	s := newShared(clock)
	killed, lives := newProcess(t, s, limit.FailLocal), newProcess(t, s, limit.FailLocal)
	killed.acquire("a")
	lives.acquire("b")
	for range 3 {
		clock.Advance(limit.DefaultLeaseTime / 3)
		if lives.acquire("c") {
			break
		}
		if err := lives.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !lives.acquire("c") || lives.acquire("d") {
		t.Error("after a lease there is one free lease")
	}
}

// While the store fails each process hands out its limit's worth, and the leases it
// hands out count as soon as the store is back.
func TestLeasesWhileTheStoreFails(t *testing.T) {
	clock := limittest.NewClock()
	for _, unclear := range []bool{false, true} {
		synctestRun(t, fmt.Sprintf("unclear=%v", unclear), func(t *testing.T) {
			s := newShared(clock)
			p := newProcess(t, s, limit.FailLocal)
			s.failing, s.unclear = errors.New("down"), unclear
			if !p.acquire("a") || !p.acquire("b") || p.acquire("c") {
				t.Error("a process by itself hands out two of two")
			}
			p.release("a")
			s.failing = nil
			if err := p.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.expect(1)
			// What got no answer is released once more, in case it is carried out late.
			time.Sleep(limit.DefaultLeaseTime / 3)
			if err := p.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p.Count() != 1 {
				t.Errorf("%d leases are to be renewed or released", p.Count())
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		s := newShared(clock)
		p := newProcess(t, s, limit.FailClosed)
		s.failing = errors.New("down")
		if _, err := p.Acquire(t.Context(), limit.KeyOf("ann"), "a"); errors.CodeOf(err) != errors.Unavailable {
			t.Errorf("%v", err)
		}
	})
	t.Run("open", func(t *testing.T) {
		s := newShared(clock)
		p := newProcess(t, s, limit.FailOpen)
		s.failing = errors.New("down")
		if !p.acquire("a") || !p.acquire("b") || !p.acquire("c") {
			t.Error("FailOpen refuses")
		}
	})
}

// A store that was emptied has all leases again after a renewal.
func TestRenewalHealsAStoreThatForgot(t *testing.T) {
	clock := limittest.NewClock()
	s := newShared(clock)
	p := newProcess(t, s, limit.FailLocal)
	p.acquire("a")
	p.acquire("b")
	s.holder = memory.NewStore(memory.Options{Now: clock.Now})
	p.expect(0)
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.expect(2)
}

// A renewal that is under way must not bring back what is released meanwhile.
func TestReleaseDuringRenewal(t *testing.T) {
	clock := limittest.NewClock()
	s := newShared(clock)
	p := newProcess(t, s, limit.FailLocal)
	p.acquire("a")
	p.acquire("b")
	s.during = func() { p.release("a") }
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.expect(1)
}

// Over a store of this process nothing has to be renewed.
func TestLeasesOverALocalStore(t *testing.T) {
	clock := limittest.NewClock()
	store := memory.NewStore(memory.Options{Now: clock.Now})
	p := process{limit.NewLeases(store, 2, time.Second, limit.Options{}), t}
	p.acquire("a")
	p.acquire("b")
	clock.Advance(24 * time.Hour)
	if p.acquire("c") || p.Count() != 0 {
		t.Error("leases in this process last until they are released")
	}
	p.release("a")
	p.release("b")
	p.expect(0)
	if n := store.Stats().Held; n != 0 {
		t.Errorf("the store holds %d leases", n)
	}
}

func TestConcurrencyLimitsThatMakeNoSensePanic(t *testing.T) {
	store := memory.NewStore()
	for name, make := range map[string]func(){
		"no store":  func() { limit.NewConcurrencyLimit(nil, limit.ConcurrencyOptions{Max: 1, LeaseTime: 0}) },
		"no leases": func() { limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 0, LeaseTime: 0}) },
		"a short lease": func() {
			limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 1, LeaseTime: time.Microsecond})
		},
		"no holder": func() {
			limit.NewConcurrencyLimit(struct{ limit.Store }{store}, limit.ConcurrencyOptions{Max: 1, LeaseTime: 0})
		},
		"no name": func() {
			limit.NewConcurrencyLimit(newShared(limittest.NewClock()), limit.ConcurrencyOptions{Max: 1, LeaseTime: 0})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", name)
				}
			}()
			make()
		}()
	}
}

// What a process has released is free for it at once, although the store is slow to release it: a
// client that waits for each answer before it asks again needs one place.
func TestReleasedLeasesAreFreeForTheirProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(limittest.NewClock())
		c := limit.NewConcurrencyLimit(s, limit.ConcurrencyOptions{Max: 1, Limiter: limit.Options{Name: "conns"}})
		s.becomes(nil, func(context.Context) error { time.Sleep(30 * time.Millisecond); return nil })
		for range 5 {
			lease, d, err := c.Acquire(t.Context(), limit.KeyOf("ann"))
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			c.Release(lease)
		}
		// It does not wait for what others hold, or for a store that does not release.
		if d, err := s.Acquire(t.Context(), limit.Lease{Key: "wskit:conns:bob", ID: "other"}, 1, time.Hour); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		began := time.Now()
		if _, d, err := c.Acquire(t.Context(), limit.KeyOf("bob")); err != nil || d.Allowed || time.Since(began) != 0 {
			t.Errorf("%+v, %v after %v", d, err, time.Since(began))
		}
		s.becomes(nil, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		lease, _, _ := c.Acquire(t.Context(), limit.KeyOf("eve"))
		c.Release(lease)
		began = time.Now()
		if _, d, err := c.Acquire(t.Context(), limit.KeyOf("eve")); err != nil || d.Allowed || time.Since(began) > time.Second {
			t.Errorf("%+v, %v after %v", d, err, time.Since(began))
		}
		s.becomes(nil, nil)
		if err := c.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A process that holds all leases itself refuses more without a call of the store. With makes limits of
// other sizes over the same leases.
func TestAFullProcessDoesNotAskTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(limittest.NewClock())
		c := limit.NewConcurrencyLimit(s, limit.ConcurrencyOptions{Max: 2, Limiter: limit.Options{Name: "conns"}})
		var held []limit.Lease
		for i, want := range []bool{true, true, false, false} {
			lease, d, err := c.Acquire(t.Context(), limit.KeyOf("ann"))
			held = append(held, lease)
			if err != nil || d.Allowed != want || d.Limit != 2 || d.Policy != "conns" {
				t.Errorf("acquisition %d: %+v, %v", i, d, err)
			}
		}
		if s.asked != 2 {
			t.Errorf("the store was asked %d times, want 2", s.asked)
		}
		three := c.With(3)
		lease, d, err := three.Acquire(t.Context(), limit.KeyOf("ann"))
		if err != nil || !d.Allowed || d.Limit != 3 {
			t.Errorf("the third of three: %+v, %v", d, err)
		}
		if n, _ := c.Held(t.Context(), limit.KeyOf("ann")); n != 3 || c.Open() != 3 {
			t.Errorf("%d leases are held, and %d of this process", n, c.Open())
		}
		three.Release(lease)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, _ := c.Held(t.Context(), limit.KeyOf("ann")); n != 2 {
			t.Errorf("%d leases are held after the release", n)
		}
		if s := c.Stats(); s.Allowed != 3 || s.Denied != 2 {
			t.Errorf("the figures are %+v", s)
		}
		for _, lease := range held {
			c.Release(lease)
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A renewal that fails is repeated soon: a store that is away for less than the rest of a lease
// loses none.
func TestRenewalsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := limittest.NewClock()
		s := newShared(clock)
		c := limit.NewConcurrencyLimit(s, limit.ConcurrencyOptions{Max: 1, LeaseTime: 30 * time.Second, Limiter: limit.Options{Name: "conns"}})
		lease, d, err := c.Acquire(t.Context(), limit.KeyOf("ann"))
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		at := func(since time.Duration) { // lets the time pass on both clocks
			for time.Since(start) < since {
				time.Sleep(100 * time.Millisecond)
				clock.Advance(100 * time.Millisecond)
			}
		}
		at(9 * time.Second)
		s.becomes(errors.New("away"), nil)
		at(27 * time.Second)
		s.becomes(nil, nil)
		at(29 * time.Second)
		clock.Advance(10 * time.Second) // to when the lease has ended, if it was not renewed
		if n, err := c.Held(t.Context(), limit.KeyOf("ann")); n != 1 || err != nil {
			t.Errorf("%d leases are held, %v, after the store was away for less than a lease", n, err)
		}
		c.Release(lease)
		if err := c.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		at(time.Minute) // calls without an answer might still be carried out
	})
}

// Peek says what Acquire would decide, and takes nothing.
func TestPeekOfConcurrencyLimit(t *testing.T) {
	h := limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: 2, Limiter: limit.Options{Name: "reports"}})
	key := limit.KeyOf("acme", "ann")
	for held := range int64(3) {
		for range 3 {
			want := limit.Decision{Allowed: held < 2, Limit: 2, Remaining: 2 - held, Policy: "reports"}
			if d, err := h.Peek(t.Context(), key); err != nil || d != want {
				t.Errorf("with %d held: %+v, %v; want %+v", held, d, err, want)
			}
		}
		_, d, err := h.Acquire(t.Context(), key)
		if err != nil || d.Allowed != (held < 2) {
			t.Errorf("with %d held: %+v, %v", held, d, err)
		}
	}
	if d, err := h.With(1).Peek(t.Context(), key); err != nil || d.Allowed || d.Remaining != 0 || d.Limit != 1 {
		t.Errorf("with a lower maximum: %+v, %v", d, err)
	}
	if _, err := h.Peek(t.Context(), limit.Key{}); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("of the zero key: %v", err)
	}
}
