package redis_test

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// A reservation is one round trip and its settlement another, with less, with more and with too
// much; those of many callers share round trips.
func TestRoundTripsOfReservations(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	s := redis.NewStore(client)
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

// newJobs are a limit for jobs, each of which is written down beside the decision of its reservation.
func newJobs(client goredis.UniversalClient) (*limit.Limiter, limit.Key) {
	quota := limit.FixedWindow{Limit: 10_000, Window: 9999 * 24 * time.Hour}
	return limit.New(redis.NewStore(client), quota, limit.Options{Name: "jobs", Timeout: patience}), limit.KeyOf("ann")
}

const jobKey = "job"

// What a killed process has reserved stays charged; an application that has written the decision down
// gives it back.
func TestReservationOfAKilledProcess(t *testing.T) {
	server := redistest.Start(t)
	child := process.StartTest(t, "TestReservingProcess", "WSKIT_TEST_RESERVING="+server.Addr, "reserved")
	_ = child.Process.Kill()
	_ = child.Wait()
	client := server.Client()
	jobs, key := newJobs(client)
	left := func(want int64) {
		t.Helper()
		if d, err := jobs.Peek(t.Context(), key, 1); err != nil || d.Remaining != want {
			t.Errorf("%d are left, want %d; %v", d.Remaining, want, err)
		}
	}
	left(6000)
	text, err := client.GetDel(t.Context(), jobKey).Bytes() // by one process: a decision is refunded once
	if err != nil {
		t.Fatal(err)
	}
	var d limit.Decision
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if err := jobs.Refund(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	left(10_000)
}

// TestReservingProcess is the process that is killed.
func TestReservingProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_TEST_RESERVING")
	if addr == "" {
		t.Skip("the process of TestReservationOfAKilledProcess")
	}
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	jobs, key := newJobs(client)
	_, d, err := jobs.Reserve(t.Context(), key, 4000)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), jobKey, text, 0).Err(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("reserved")
	select {} // until it is killed
}
