package redis_test

import (
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// A reservation is one round trip and its settlement another, with less, with more and with too
// much; those of many callers share round trips.
func TestRoundTripsOfReservations(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	s := redis.NewStore(client, redis.Options{})
	l := limit.New(s, limit.FixedWindow{Limit: 10_000, Window: 9999 * 24 * time.Hour}, limit.Options{Name: "n", Timeout: time.Minute})
	run := func(key string, actual, wantOver int64) {
		r, d, err := l.Reserve(t.Context(), limit.KeyOf(key), 10)
		if err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
			return
		}
		if over, err := r.Settle(t.Context(), actual); err != nil || over != wantOver {
			t.Errorf("settled with %d: %d over, %v", actual, over, err)
		}
	}
	run("warm", 10, 0) // loads the script
	for _, c := range []struct{ actual, over int64 }{{3, 0}, {17, 0}, {11_000, 1020}} {
		before := s.Stats().Trips
		run("ann", c.actual, c.over)
		if trips := s.Stats().Trips - before; trips != 2 {
			t.Errorf("settled with %d: %d round trips, want 2", c.actual, trips)
		}
	}
	const callers, rounds = 64, 20
	before := s.Stats().Trips
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range rounds {
				run("bob", 4, 0)
			}
		})
	}
	wait.Wait()
	if trips := s.Stats().Trips - before; trips > 2*callers*rounds/4 {
		t.Errorf("%d round trips for %d reservations of %d callers", trips, callers*rounds, callers)
	} else {
		t.Logf("%d round trips for %d reservations and as many settlements", trips, callers*rounds)
	}
}
