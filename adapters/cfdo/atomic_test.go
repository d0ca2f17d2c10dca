package cfdo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// Reading the body between get and put lost 49 of 50 updates. 500
// callers at once, on 64 connections, are admitted exactly the capacity.
func TestConcurrentCallsAdmitExactlyTheCapacity(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	for _, c := range []struct {
		name     string
		requests int
	}{{"combined", 4}, {"a request each", 500}} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, w.URL, cfdo.Options{Requests: c.requests, Remember: -1})
			p := limit.TokenBucket{Capacity: 123, Refill: 1, Per: time.Hour}
			key := own("atomic")
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 500 {
				wg.Go(func() {
					d, err := s.Take(ctx, []byte(key), p, 1)
					if err != nil {
						t.Errorf("Take: %v", err)
					} else if d.Allowed {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != p.Capacity {
				t.Errorf("%d admitted of a capacity of %d", n, p.Capacity)
			}
		})
	}
}

// The Worker, Redis and the memory store, side by side on one timeline of every
// policy and operation, agree in every field.
func TestAllStoresDecideAlike(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	clock := limittest.NewClock()
	beside := own("beside")
	tenant := func(string) string { return beside }
	s, err := cfdo.OpenAt(w.URL, workerdtest.Secret, cfdo.Options{
		Tenant: tenant, Remember: -1, Timeout: time.Minute, Transport: clocked{clock, http.DefaultTransport},
	}, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.Start(t).Client()
	t.Cleanup(func() { _ = client.Close() })
	stores := []struct {
		name string
		allStore
	}{{"Worker", s}, {"Redis", redis.NewStore(client, redis.StoreOptions{RememberedKeys: -1, Now: clock.Now})}}
	m := memory.NewStore(memory.Options{Now: clock.Now})
	policies := []limit.Policy{
		limit.TokenBucket{Capacity: 20, Refill: 7, Per: 3 * time.Second},
		limit.TokenBucket{Capacity: 5, Refill: 999_983, Per: time.Second},
		limit.Pacer{Burst: 3, Refill: 7, Per: 3 * time.Second, MaxWait: 5 * time.Second},
		limit.FixedWindow{Limit: 12, Window: 7 * time.Second},
		limit.SlidingWindow{Limit: 10, Window: 3 * time.Second, Buckets: 6},
		limit.SlidingLog{Limit: 9, Window: 4 * time.Second},
		limit.All(limit.SlidingLog{Limit: 8, Window: 2 * time.Second}, limit.Named("day", limit.FixedWindow{Limit: 5000, Window: 24 * time.Hour}),
			limit.TokenBucket{Capacity: 10, Refill: 3, Per: time.Second}),
	}
	const steps, each = 10_000, 20
	rng := rand.New(rand.NewPCG(1, 2))
	key := func(i int) string { return fmt.Sprint("key ", i) }
	taken := map[int]limit.Decision{}
	for step := 0; step < steps; step += each {
		if rng.IntN(40) == 0 {
			clock.Advance(-time.Duration(rng.Int64N(int64(2 * time.Minute))))
		} else {
			clock.Advance(time.Duration(rng.Int64N(int64(700 * time.Millisecond))))
		}
		i := rng.IntN(len(policies))
		switch rng.IntN(10) {
		case 0:
			must(t, m.Refund(ctx, []byte(key(i)), policies[i], taken[i]))
			for _, s := range stores {
				must(t, s.Refund(ctx, []byte(key(i)), policies[i], taken[i]))
			}
			delete(taken, i)
		case 1:
			must(t, m.Reset(ctx, []byte(key(i)), policies[i]))
			for _, s := range stores {
				must(t, s.Reset(ctx, []byte(key(i)), policies[i]))
			}
			delete(taken, i)
		}
		var asks []limit.Ask
		for range each {
			i := rng.IntN(len(policies))
			asks = append(asks, limit.Ask{Key: []byte(key(i)), Policy: policies[i], Cost: 1 + rng.Int64N(4)})
		}
		together := rng.IntN(4) == 0
		if together {
			asks = asks[:1+rng.IntN(3)]
		}
		take := func(s allStore) (answers []limit.Decision, bound int, err error) {
			if together {
				bound, err = s.TakeAll(ctx, asks)
			} else {
				err = s.TakeMany(ctx, asks)
			}
			for _, a := range asks {
				answers = append(answers, a.Decision)
			}
			return answers, bound, err
		}
		want, wantBound, err := take(m)
		must(t, err)
		// Redis would end states by its own clock, which goes on while this one stands still or is set back: on a busy
		// machine a state ended that the others had.
		kept, err := client.Keys(ctx, "*").Result()
		must(t, err)
		for _, k := range kept {
			must(t, client.Persist(ctx, k).Err())
		}
		for _, s := range stores {
			got, bound, err := take(s)
			if err != nil || bound != wantBound {
				t.Fatalf("step %d: %s: bound %d, want %d, error %v", step, s.name, bound, wantBound, err)
			}
			for j := range got {
				if got[j] != want[j] {
					t.Fatalf("step %d: %v, cost %d:\n%s %+v\nmemory %+v", step+j, asks[j].Policy, asks[j].Cost, s.name, got[j], want[j])
				}
			}
		}
		for j, d := range want {
			for i := range policies {
				if d.Allowed && key(i) == string(asks[j].Key) {
					taken[i] = d
				}
			}
		}
	}
}

// allStore has every operation.
type allStore interface {
	limit.ExtendedStore
	limit.ManyTaker
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Denials that write. One row is written for an admitted call, and
// none for a denial, a look, or a refund of nothing.
func TestDenialsWriteNothing(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	rows := own("rows")
	s := openStore(t, w.URL, cfdo.Options{Tenant: func(string) string { return rows }, Remember: -1})
	p := limit.All(limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour}, limit.SlidingLog{Limit: 50, Window: time.Hour})
	take(t, s, "k", p, 1) // and the alarm
	before := w.Inspect("tenant:" + rows + ":0")
	if before.Rows != 1 || before.Alarm == nil {
		t.Fatalf("%+v", before)
	}
	for range 9 {
		take(t, s, "k", p, 1)
	}
	admitted := w.Inspect("tenant:" + rows + ":0")
	if n := admitted.Written - before.Written; n != 9 {
		t.Errorf("%d rows written for 9 admitted calls", n)
	}
	for range 100 {
		if take(t, s, "k", p, 1).Allowed || take(t, s, "never", p, 11).Allowed {
			t.Fatal("more than the capacity is admitted")
		}
		if _, err := s.Peek(ctx, []byte("k"), p, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.Refund(ctx, []byte("never"), p, limit.Decision{Charged: 1, At: 1, ResetAfter: time.Second}); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(ctx, []byte("never"), p); err != nil {
			t.Fatal(err)
		}
		asks := []limit.Ask{{Key: []byte("other"), Policy: p, Cost: 1}, {Key: []byte("k"), Policy: p, Cost: 1}}
		if _, err := s.TakeAll(ctx, asks); err != nil || asks[0].Decision.Allowed {
			t.Fatalf("%+v, %v", asks, err)
		}
	}
	if after := w.Inspect("tenant:" + rows + ":0"); after.Written != admitted.Written || after.Rows != 1 {
		t.Errorf("600 calls that took nothing: before %+v, after %+v", admitted, after)
	}
}

// A flood of refused costs asks the Worker once.
func TestRefusedFloodMakesNoRequests(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	s := openStore(t, w.URL, cfdo.Options{Remember: time.Hour})
	l := limit.New(s, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour}, limit.Options{Name: own("flood"), Timeout: time.Minute})
	for range 4 {
		if _, err := l.Take(ctx, limit.KeyOf("ann"), 1); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Stats().Requests
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				if d, err := l.Take(context.Background(), limit.KeyOf("ann"), 1); err != nil || d.Allowed || d.RetryAfter <= 0 {
					t.Errorf("%+v, %v", d, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.Requests != before || st.Remembered != 80_000 {
		t.Errorf("%d requests for 80,000 refused costs; %+v", st.Requests-before, st)
	}
	// What is given back counts at once.
	if err := l.Reset(ctx, limit.KeyOf("ann")); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Take(ctx, limit.KeyOf("ann"), 3); err != nil || !d.Allowed {
		t.Errorf("after a reset: %+v, %v", d, err)
	}
}
