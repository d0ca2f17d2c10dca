package cfdo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// eventually waits until something is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}

func TestStateOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{})
	s := openStore(t, w.URL, cfdo.Options{Remember: -1})
	p := limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour}
	left := int64(10)
	for _, end := range []struct {
		name string
		end  func()
	}{{"SIGTERM", w.Terminate}, {"SIGKILL", w.Kill}} {
		for range 3 {
			left--
			if d := take(t, s, "durable", p, 1); !d.Allowed || d.Remaining != left {
				t.Fatalf("before %s: %+v, %d should be left", end.name, d, left)
			}
		}
		end.end()
		w.Run()
		back(t, s)
	}
	if d := take(t, s, "durable", p, 5); d.Allowed || d.Remaining != left {
		t.Errorf("%+v, %d should be left", d, left)
	}
}

// back waits until a store has no connections to the process that has ended.
func back(t *testing.T, s cfdo.Store) {
	t.Helper()
	eventually(t, "the Worker answers again", func() bool {
		_, err := s.Peek(ctx, []byte("any"), ten, 1)
		return err == nil
	})
}

// swept is a Worker that deletes rows soon after they equal none.
func swept(t *testing.T) *workerdtest.Server {
	return workerdtest.Start(t, workerdtest.Config{Env: map[string]string{"GRACE_MS": "1", "PAUSE_MS": "1"}})
}

func fill(t *testing.T, s cfdo.Store, keys int, p limit.Policy) {
	t.Helper()
	for i := 0; i < keys; i += 64 {
		var requests []limit.Ask
		for j := i; j < min(i+64, keys); j++ {
			requests = append(requests, limit.Ask{Key: fmt.Append(nil, "idle:", j), Policy: p, Cost: 1})
		}
		if err := s.TakeMany(ctx, requests); err != nil {
			t.Fatal(err)
		}
	}
}

// A listing without a cursor swept the first 1,000 keys only. And an
// object that is empty rings no more alarms.
func TestAllIdleKeysAreSwept(t *testing.T) {
	t.Parallel()
	w := swept(t)
	s := openStore(t, w.URL, cfdo.Options{Tenant: func(string) string { return "idle" }})
	fill(t, s, 2500, limit.TokenBucket{Capacity: 1, Refill: 1, Per: 200 * time.Millisecond})
	fill(t, s, 10, limit.FixedWindow{Limit: 1, Window: 9999 * 24 * time.Hour})
	eventually(t, "only what still counts is left", func() bool { return w.Inspect("tenant:idle:0").Rows == 10 })
	if w.Inspect("tenant:idle:0").Alarm == nil {
		t.Error("nothing will sweep the rest")
	}
	s = openStore(t, w.URL, cfdo.Options{Tenant: func(string) string { return "rest" }})
	short := limit.TokenBucket{Capacity: 1, Refill: 1, Per: 300 * time.Millisecond}
	fill(t, s, 10, short)
	for i := range 10 { // a reset is remembered as long as a charge before it counts
		if err := s.Reset(ctx, []byte(fmt.Sprint("idle:", i)), short); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "an empty object rests", func() bool {
		l := w.Inspect("tenant:rest:0")
		return l.Rows == 0 && l.Alarm == nil
	})
	for range 50 {
		if l := w.Inspect("tenant:rest:0"); l.Alarm != nil {
			t.Fatalf("it does not rest: %+v", l)
		}
	}
}

// A flag in memory said that an alarm was set; the object was evicted,
// or the machine restarted, and the sweep never ran.
func TestAlarmsOutliveTheObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*workerdtest.Server)
	}{
		{"eviction", func(w *workerdtest.Server) { w.Evict("tenant:alarm:0") }},
		{"SIGTERM", func(w *workerdtest.Server) { w.Terminate(); w.Run() }},
		{"SIGKILL", func(w *workerdtest.Server) { w.Kill(); w.Run() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := swept(t)
			s := openStore(t, w.URL, cfdo.Options{Tenant: func(string) string { return "alarm" }})
			p := limit.TokenBucket{Capacity: 1, Refill: 1, Per: 2 * time.Second}
			fill(t, s, 20, p)
			c.end(w)
			eventually(t, "the alarm that was set before has swept", func() bool { return w.Inspect("tenant:alarm:0").Rows == 0 })
			fill(t, s, 20, p)
			if w.Inspect("tenant:alarm:0").Alarm == nil {
				t.Error("no alarm is set afterwards")
			}
			c.end(w)
			eventually(t, "the alarm that was set since has swept", func() bool { return w.Inspect("tenant:alarm:0").Rows == 0 })
		})
	}
}

// However the Worker dies, what it acknowledged is charged, and no call is
// charged twice: acknowledged ≤ used ≤ acknowledged + in flight.
func TestKillRounds(t *testing.T) {
	t.Parallel()
	w := workerdtest.Start(t, workerdtest.Config{})
	s := openStore(t, w.URL, cfdo.Options{Remember: -1})
	p := limit.TokenBucket{Capacity: 100_000, Refill: 1, Per: time.Hour}
	var acked, unknown atomic.Int64
	for round := range 8 {
		running, stop := context.WithCancel(ctx)
		enough := make(chan struct{})
		var once sync.Once
		target := acked.Load() + 50
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for running.Err() == nil {
					d, err := s.Take(ctx, []byte("kill"), p, 1)
					switch {
					case err == nil && d.Allowed:
						if acked.Add(1) >= target {
							once.Do(func() { close(enough) })
						}
					case err == nil:
						t.Errorf("denied: %+v", d)
						return
					case errors.Is(err, cfdo.ErrNotSent):
					case errors.Is(err, cfdo.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
						unknown.Add(1)
					default:
						t.Errorf("Take: %v", err)
						return
					}
				}
			})
		}
		poll.Receive(t, enough, "enough calls are acknowledged")
		if round%2 == 0 {
			w.Kill()
		} else {
			w.Terminate()
		}
		stop()
		wg.Wait()
		w.Run()
		back(t, s)
		d, err := s.Peek(ctx, []byte("kill"), p, 1)
		if err != nil {
			t.Fatal(err)
		}
		used := p.Capacity - d.Remaining
		if used < acked.Load() || used > acked.Load()+unknown.Load() {
			t.Fatalf("round %d: %d acknowledged and %d in flight when the Worker died; used %d", round, acked.Load(), unknown.Load(), used)
		}
		t.Logf("round %d: acknowledged %d ≤ used %d ≤ %d", round, acked.Load(), used, acked.Load()+unknown.Load())
	}
}
