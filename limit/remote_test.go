package limit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// storeFunc is a shared store that is a function.
type storeFunc func(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error)

func (f storeFunc) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	return f(ctx, []byte(string(key)), policy, cost)
}

var errDown = errors.New("connection refused")

// flaky is a store that fails while down is set, and counts the calls.
type flaky struct {
	down  atomic.Bool
	calls atomic.Int64
}

func (f *flaky) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	f.calls.Add(1)
	if f.down.Load() {
		return limit.Decision{}, errDown
	}
	return limit.Decision{Allowed: true, Limit: 99}, nil
}

var three = limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour}

// With its store down, each node still enforces one policy's worth,
// the store is left alone, and the switch is logged once each way.
func TestFailLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var outages []errors.Outage
		store := &flaky{}
		l := limit.New(store, three, limit.Options{
			Name: "n", Logger: slog.New(slog.NewTextHandler(&log, nil)),
			OnOutage: func(o errors.Outage) { outages = append(outages, o) },
		})
		begin := time.Now()
		if d, err := l.Take(ctx, limit.KeyOf("ann"), 1); err != nil || d.Limit != 99 {
			t.Fatalf("%+v, %v", d, err)
		}
		store.down.Store(true)
		allowed := 0
		for range 100 {
			d, err := l.Take(ctx, limit.KeyOf("ann"), 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				allowed++
			}
		}
		if allowed != 3 {
			t.Errorf("%d allowed, want one policy's worth: 3", allowed)
		}
		if d, _ := l.Take(ctx, limit.KeyOf("bob"), 1); !d.Allowed {
			t.Error("bob is limited by what ann did")
		}
		s := l.Stats()
		if s.StoreFailures != 5 || s.Skipped != 96 || s.FailedOver != 101 || s.Switches != 1 || !s.Degraded {
			t.Errorf("%+v", s)
		}
		if n := store.calls.Load(); n != 6 {
			t.Errorf("the store was asked %d times", n)
		}
		time.Sleep(2 * time.Second)
		l.Take(ctx, limit.KeyOf("ann"), 1) // tries again, fails
		store.down.Store(false)
		time.Sleep(2 * time.Second)
		if d, _ := l.Take(ctx, limit.KeyOf("ann"), 1); d.Limit != 99 {
			t.Errorf("the store answers again and is not asked: %+v", d)
		}
		if s := l.Stats(); s.Degraded || s.Switches != 1 {
			t.Errorf("%+v", s)
		}
		synctest.Wait() // for the log
		if text := log.String(); strings.Count(text, "the store fails") != 1 || strings.Count(text, "the store answers again") != 1 ||
			strings.Count(text, errDown.Error()) != 1 || strings.Contains(text, "ann") {
			t.Errorf("log:\n%s", text)
		}
		want := errors.Outage{Component: "store", Name: "n", Err: errDown, Since: begin}
		over := want
		over.Over = true
		if len(outages) != 2 || outages[0] != want || outages[1] != over {
			t.Errorf("OnOutage was called with %+v", outages)
		}
	})
}

func TestFailOpen(t *testing.T) {
	store := &flaky{}
	store.down.Store(true)
	l := limit.New(store, three, limit.Options{Name: "n", OnFailure: limit.FailOpen})
	for range 10 {
		if d, err := l.Take(ctx, limit.KeyOf("ann"), 1); err != nil || !d.Allowed || d.Policy == "" {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if d, _ := l.Take(ctx, limit.KeyOf("ann"), 4); d.Allowed || !d.Impossible {
		t.Errorf("what can never be admitted is: %+v", d)
	}
}

func TestFailClosed(t *testing.T) {
	store := &flaky{}
	store.down.Store(true)
	l := limit.New(store, three, limit.Options{Name: "n", OnFailure: limit.FailClosed})
	for range 10 {
		_, err := l.Take(ctx, limit.KeyOf("ann"), 1)
		e := errors.From(err)
		if e == nil || e.Code != errors.Unavailable || !e.Retryable() || e.RetryAfter <= 0 {
			t.Fatalf("%v", err)
		}
		if strings.Contains(e.Message, "refused") {
			t.Errorf("the message shows the store to the client: %q", e.Message)
		}
	}
	shadow := limit.New(store, three, limit.Options{Name: "n", OnFailure: limit.FailClosed, Shadow: true})
	if d, err := shadow.Take(ctx, limit.KeyOf("ann"), 1); err != nil || !d.Allowed {
		t.Errorf("shadow mode refuses: %+v, %v", d, err)
	}
}

// A store that hangs costs a frame the timeout and then nothing.
func TestStalledStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(storeFunc(func(ctx context.Context, _ []byte, _ limit.Policy, _ int64) (limit.Decision, error) {
			<-ctx.Done()
			return limit.Decision{}, ctx.Err()
		}), three, limit.Options{Name: "n", Logger: slog.New(slog.DiscardHandler)})
		start := time.Now()
		for range 50 {
			if _, err := l.Take(ctx, limit.KeyOf("ann"), 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("50 decisions took %v, want five timeouts of 100 ms", took)
		}
		if s := l.Stats().Took; s.Count() != 5 || s.Sum != 500*time.Millisecond {
			t.Errorf("%d calls of the store took %v, want 5 and 500 ms", s.Count(), s.Sum)
		}
	})
}

// A caller that goes away says nothing about the store.
func TestCallerGone(t *testing.T) {
	l := limit.New(storeFunc(func(ctx context.Context, _ []byte, _ limit.Policy, _ int64) (limit.Decision, error) {
		return limit.Decision{}, ctx.Err()
	}), three, limit.Options{Name: "n"})
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for range 20 {
		if d, err := l.Take(gone, limit.KeyOf("ann"), 1); !errors.Is(err, context.Canceled) || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if s := l.Stats(); s.StoreFailures != 0 || s.Degraded || s.FailedOver != 0 {
		t.Errorf("%+v", s)
	}
}

// A store that panics is left alone like one that fails.
func TestAStoreThatPanicsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := limit.New(storeFunc(func(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) { panic("oops") }),
			three, limit.Options{Name: "n", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 5 {
			func() {
				defer func() { _ = recover() }()
				_, _ = l.Take(ctx, limit.KeyOf("ann"), 1)
			}()
		}
		synctest.Wait()
		if !l.Stats().Degraded || !strings.Contains(log.String(), "the store panicked") {
			t.Errorf("%+v\n%s", l.Stats(), log.String())
		}
	})
}
