package gate_test

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
)

// defaultLease is how long the places of a killed process count by default.
const defaultLease = 15 * time.Second

// sharedStore is a store that outlives the gates over it, as one in a process of its
// own does: the memory store without the mark of a local one.
type sharedStore struct {
	limit.Store
	limit.LeaseStore
	failing error
	during  func()       // an acquisition: when the store has decided, and not answered
	dead    *atomic.Bool // releases and renewals fail, as if the process were dead
}

func newSharedStore() *sharedStore {
	m := memory.NewStore()
	return &sharedStore{Store: m, LeaseStore: m, dead: new(atomic.Bool)}
}

func (s *sharedStore) Acquire(ctx context.Context, l limit.Lease, most int64, lease time.Duration) (limit.Decision, error) {
	if s.failing != nil {
		return limit.Decision{}, s.failing
	}
	d, err := s.LeaseStore.Acquire(ctx, l, most, lease)
	if s.during != nil {
		s.during()
	}
	return d, errors.Join(err, ctx.Err())
}

// process is a view of the shared store: what one process does to it.
func (s *sharedStore) process() *sharedStore {
	c := *s
	c.dead = new(atomic.Bool)
	return &c
}

func (s *sharedStore) Renew(ctx context.Context, leases []limit.Lease, lease time.Duration) error {
	if s.dead.Load() {
		return errors.New("dead")
	}
	return s.LeaseStore.Renew(ctx, leases, lease)
}

func (s *sharedStore) Release(ctx context.Context, leases []limit.Lease) error {
	if s.dead.Load() {
		return errors.New("dead")
	}
	return s.LeaseStore.Release(ctx, leases)
}

func (s *sharedStore) held(t *testing.T) int {
	t.Helper()
	return s.LeaseStore.(memory.Store).Stats().Held
}

func sharedGate(s limit.Store) *gate.Gate {
	return gate.New(s, gate.Options{
		PerIP: many, PerIdentity: many, MaxPerIP: 2, MaxPerUser: -1, MaxTotal: -1,
		OnRefused: func(gate.Refusal) {},
		Limiter:   limit.Options{Name: "gate"},
	})
}

func admit(g *gate.Gate) (ingress.Admission, bool) {
	a, err := g.Admit(httptest.NewRequest("GET", "/", nil), netip.MustParseAddr("192.0.2.1"))
	return a, err == nil
}

// Connections are counted over all processes, for as long as they last and however
// long that is; and those of a process that is killed for a lease, and no longer.
func TestLeasesOverProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedStore()
		dying := shared.process()
		killed, lives := sharedGate(dying), sharedGate(shared)
		first, ok := admit(killed)
		if !ok {
			t.Fatal("the first is refused")
		}
		a, ok := admit(lives)
		if _, third := admit(lives); !ok || third {
			t.Error("there are two leases over both processes")
		}
		time.Sleep(10 * defaultLease)
		if _, third := admit(lives); third {
			t.Error("leases that are renewed are lost")
		}
		if n := killed.Stats().Open + lives.Stats().Open; n != 2 {
			t.Errorf("%d leases are to be renewed", n)
		}

		dying.dead.Store(true)
		time.Sleep(defaultLease + time.Millisecond)
		again, ok := admit(lives)
		if _, more := admit(lives); !ok || more {
			t.Error("the one lease of a killed process comes back after a lease")
		}

		a.Release()
		again.Release()
		synctest.Wait()
		if n := shared.held(t); n != 0 || lives.Stats().Open != 0 {
			t.Errorf("%d leases are held, %d to be renewed, after all have left", n, lives.Stats().Open)
		}
		// The killed process tries again, until its connection has ended.
		dying.dead.Store(false)
		time.Sleep(defaultLease)
		if n := shared.held(t); n != 1 {
			t.Errorf("%d leases are held, want that of a connection which was not dead after all", n)
		}
		first.Release()
		synctest.Wait()
		if n := shared.held(t); n != 0 {
			t.Errorf("%d leases are held in the end", n)
		}
	})
}

// While the store fails, each process counts its own.
func TestLeasesWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedStore()
		gate := sharedGate(shared)
		shared.failing = errors.New("down")
		a, ok := admit(gate)
		b, also := admit(gate)
		if _, third := admit(gate); !ok || !also || third {
			t.Error("a process by itself lets in two of two")
		}
		shared.failing = nil
		time.Sleep(defaultLease / 2) // a renewal reaches the store
		if n := shared.held(t); n != 2 {
			t.Errorf("the store has %d leases, want 2", n)
		}
		a.Release()
		b.Release()
		synctest.Wait()
		if n := shared.held(t); n != 0 {
			t.Errorf("%d leases are held after all have left", n)
		}
	})
}

// A client that disconnects before the store has answered holds no lease, though no caller
// else keeps any here.
func TestLeaseOfAnAbandonedHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedStore()
		gate := sharedGate(shared)
		ctx, cancel := context.WithCancel(t.Context())
		shared.during = cancel
		if _, err := gate.Admit(httptest.NewRequest("GET", "/", nil).WithContext(ctx), netip.MustParseAddr("192.0.2.1")); err == nil {
			t.Fatal("a client that has disconnected is admitted")
		}
		synctest.Wait()
		if held, open := shared.held(t), gate.Stats().Open; held != 0 || open != 0 {
			t.Errorf("%d leases are held, %d to be given back", held, open)
		}
	})
}

// Over a store that cannot charge two keys at once, such as a cluster, too, a client
// that is refused for itself takes nothing from its neighbours.
func TestFloodOfOneIdentityLeavesTheAddressItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.NewStore()
		gate := gate.New(struct {
			limit.Store
			limit.ExtendedStore
		}{m, m}, gate.Options{
			PerIdentity: limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour},
			PerIP:       limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour},
			MaxPerIP:    -1, MaxPerUser: -1, MaxTotal: -1,
			OnRefused: func(gate.Refusal) {},
			Limiter:   limit.Options{Name: "gate"},
		})
		entered := func(token string) (n int) {
			for range 20 {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				if _, err := gate.Admit(r, ingress.PeerIP(r)); err == nil {
					n++
				}
			}
			return n
		}
		for _, token := range []string{"flood", "ann", "bob", "joe", "eve"} {
			if n := entered(token); n != 2 {
				t.Errorf("%s has opened %d connections, want 2", token, n)
			}
		}
		if n := entered("one more"); n != 0 {
			t.Errorf("over the rate of the address %d came in", n)
		}
	})
}

// lateStore carries acquisitions out late, when the caller got no answer.
type lateStore struct {
	*sharedStore
	late func(func())
}

func (s lateStore) Acquire(ctx context.Context, l limit.Lease, most int64, lease time.Duration) (limit.Decision, error) {
	s.late(func() { _, _ = s.LeaseStore.Acquire(context.Background(), l, most, lease) })
	<-ctx.Done()
	return limit.Decision{}, ctx.Err()
}

// An acquisition without an answer may be carried out after its release. Its lease is
// released again, long before its lease is over.
func TestLeaseOfALateAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedStore()
		late := func(acquire func()) { time.AfterFunc(3*time.Second, acquire) }
		gate := gate.New(lateStore{shared, late}, gate.Options{
			PerIP: many, PerIdentity: many, MaxPerIP: 2, MaxPerUser: -1, MaxTotal: -1,
			OnRefused: func(gate.Refusal) {},
			Limiter:   limit.Options{Name: "gate", OnFailure: limit.FailClosed},
		})
		if _, ok := admit(gate); ok {
			t.Fatal("let in without an answer of the store")
		}
		time.Sleep(4 * time.Second)
		if n := shared.held(t); n != 1 {
			t.Fatalf("%d leases are held, the test expects the late one", n)
		}
		time.Sleep(defaultLease / 2)
		if held, open := shared.held(t), gate.Stats().Open; held != 0 || open != 0 {
			t.Errorf("%d leases are held, %d to be released", held, open)
		}
	})
}

// A release that fails is repeated until it succeeds.
func TestReleaseIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedStore()
		gate := sharedGate(shared)
		a, ok := admit(gate)
		if !ok {
			t.Fatal("the first is refused")
		}
		shared.dead.Store(true)
		a.Release()
		time.Sleep(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := gate.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush while nothing can be released: %v", err)
		}
		shared.dead.Store(false)
		if err := gate.Flush(t.Context()); err != nil || shared.held(t) != 0 {
			t.Errorf("%d leases are held after Flush: %v", shared.held(t), err)
		}
		time.Sleep(defaultLease)
		if n := gate.Stats().Open; n != 0 {
			t.Errorf("%d leases are to be released", n)
		}
	})
}

// Nothing is repeated for longer than a lease can be held.
func TestFlushEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedStore()
		gate := sharedGate(shared)
		a, _ := admit(gate)
		shared.dead.Store(true)
		a.Release()
		if err := gate.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(defaultLease)
		if n := gate.Stats().Open; n != 0 {
			t.Errorf("%d leases are to be released", n)
		}
	})
}

// A hook that panics leaves no lease behind.
func TestLeaseOfAHandshakeThatPanics(t *testing.T) {
	shared := newSharedStore()
	gate := gate.New(shared, gate.Options{
		PerIP: many, PerIdentity: many, MaxPerIP: 2, MaxPerUser: -1, MaxTotal: 1,
		OnRefused: func(gate.Refusal) { panic("a bug") },
		Limiter:   limit.Options{Name: "gate"},
	})
	a, ok := admit(gate)
	if !ok {
		t.Fatal("the first is refused")
	}
	func() {
		defer func() { _ = recover() }()
		admit(gate)
	}()
	a.Release()
	if err := gate.Flush(t.Context()); err != nil || shared.held(t) != 0 {
		t.Errorf("%d leases are held: %v", shared.held(t), err)
	}
}
