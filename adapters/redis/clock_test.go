package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// longer is for how long state must outlive what it counts for, in milliseconds.
const longer = int64(60_000)

// step is for how long it may outlive that, because expiries are whole numbers of steps.
const step = int64(10_000)

// The clock of a server is stepped back and forth while it runs. By that
// clock the server's keys expire, and the suite's rules hold all the same.
func TestStoreUnderAClockThatIsStepped(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	for name, remembered := range map[string]int{"asking": asking, "remembering": remembering} {
		t.Run(name, func(t *testing.T) {
			limittest.Run(t, func(t *testing.T) limittest.Subject {
				s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: remembered})
				return limittest.Subject{Store: s, Step: clock.Step, Steps: 30}
			})
		})
	}
}

// A window that is over is not admitted once more when the clock is set back over its
// end, though nothing has asked for its key in between.
func TestStoreKeepsUnusedState(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	client := storeClient(t, server.Addr)
	s := redis.NewStore(client, redis.StoreOptions{RememberedKeys: asking})
	month := limit.FixedWindow{Limit: 1_000_000, Window: 720 * time.Hour}
	d, err := s.Take(t.Context(), []byte("k"), month, month.Limit)
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	end := time.UnixMicro(d.At).Add(d.ResetAfter)
	if err := client.Do(t.Context(), "SET", "canary", "1", "PXAT", end.UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	clock.Step(d.ResetAfter + 10*time.Millisecond)
	redistest.Eventually(t, "the server has dropped what is over", func() bool { return server.Do("DBSIZE").(int64) < 2 })
	clock.Step(-limit.ClockTolerance)
	if d, err := s.Take(t.Context(), []byte("k"), month, 1); err != nil || d.Allowed {
		t.Errorf("one more in the month: %+v, %v", d, err)
	}
	clock.Step(limit.ClockTolerance)
	if d, err := s.Take(t.Context(), []byte("k"), month, month.Limit); err != nil || !d.Allowed {
		t.Errorf("the next month: %+v, %v", d, err)
	}
}

// The calendar is that of this process. A server whose clock is days away says so, and decides nothing.
func TestCalendarNeedsAClockOfTheSameDays(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: asking})
	day := limit.Calendar{Limit: 1, Period: limit.Day}
	if d, err := s.Take(t.Context(), []byte("k"), day, 1); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	const away = 3 * 24 * time.Hour
	for _, step := range []time.Duration{-away, 2 * away} { // three days behind, then three days ahead
		clock.Step(step)
		if d, err := s.Take(t.Context(), []byte("k"), day, 1); err == nil || d.Allowed || !strings.Contains(err.Error(), "differ by more than a day") {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

// What a clock that is set back by the tolerance can no longer find is gone, after a step at most.
func TestStoreDropsStateAfterTheTolerance(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	for _, p := range []limit.Policy{
		limit.TokenBucket{Capacity: 7, Refill: 7, Per: time.Minute}, limit.FixedWindow{Limit: 7, Window: time.Minute},
		limit.SlidingWindow{Limit: 7, Window: time.Minute}, limit.SlidingLog{Limit: 7, Window: time.Minute},
	} {
		d, err := s.Take(t.Context(), []byte("k"), p, 7)
		if err != nil || !d.Allowed {
			t.Fatalf("%v: %+v, %v", p, d, err)
		}
		clock.Step(d.ResetAfter + limit.ClockTolerance + time.Duration(step)*time.Millisecond)
		redistest.Eventually(t, "nothing is left", func() bool { return server.Do("DBSIZE") == int64(0) })
	}
	d := acquire(t, s, limit.Lease{Key: "k", ID: "1"}, 1, time.Minute)
	clock.Step(d.ResetAfter + limit.ClockTolerance)
	redistest.Eventually(t, "no slot is left", func() bool { return server.Do("DBSIZE") == int64(0) })
}
