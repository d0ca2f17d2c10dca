package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/race"
)

// With ReuseContext calls on the goroutines of their callers, one after the other, use the same context. Each has its
// own time, the timeout and the values of its caller, and ends with its caller's context, not with that of an earlier
// one.
func TestContextsOfSingleCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		const wait = time.Second
		takes := 600 * time.Millisecond
		var sent, kept context.Context
		var value any
		var timeout time.Duration
		c := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
			sent, value, timeout = ctx, ctx.Value(name{}), batch.Timeout(ctx)
			select {
			case <-time.After(takes):
				double(items)
			case <-ctx.Done():
				items[0].Err = ctx.Err()
			}
		}, batch.Options{OnCaller: true, ReuseContext: true})
		try := func(caller context.Context, timeout time.Duration) (took time.Duration, err error) {
			start := time.Now()
			it := c.Item()
			it.Wait, it.Timeout = wait, timeout
			if err = c.Do(caller, it); err == nil {
				c.Free(it)
			}
			if deadline, ok := sent.Deadline(); !ok || deadline.Sub(start) != wait {
				t.Errorf("the deadline is %v after the call began", deadline.Sub(start))
			}
			return time.Since(start), err
		}
		var earlier []context.CancelFunc
		for range 5 {
			caller, cancel := context.WithCancel(context.WithValue(t.Context(), name{}, "bob"))
			earlier = append(earlier, cancel)
			if _, err := try(caller, time.Hour); err != nil {
				t.Fatal(err)
			}
			if kept == nil {
				kept = sent
			}
			if !race.Enabled && sent != kept { // a pool of items does not keep all under the race detector
				t.Error("another context was made for the next call")
			}
			if kept.Value(name{}) != nil || batch.Timeout(kept) != 0 || kept.Err() != nil {
				t.Error("after the call the context has something of it")
			}
		}

		caller, cancel := context.WithCancel(context.WithValue(t.Context(), name{}, "ann"))
		go func() {
			time.Sleep(takes / 3)
			for _, cancel := range earlier {
				cancel()
			}
		}()
		if _, err := try(caller, time.Minute); err != nil || value != "ann" || timeout != time.Minute {
			t.Errorf("the call had the value %v and the timeout %v; contexts of earlier callers ended: %v", value, timeout, err)
		}
		time.AfterFunc(takes/2, cancel)
		if took, err := try(caller, 0); !errors.Is(err, context.Canceled) || took != takes/2 {
			t.Errorf("its caller's context ended after %v, the call after %v: %v", takes/2, took, err)
		}
		if _, err := try(t.Context(), 0); err != nil {
			t.Errorf("after a call whose context ended: %v", err)
		}
		soon, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if took, err := try(soon, 0); !errors.Is(err, context.Canceled) || took > 20*time.Millisecond {
			t.Errorf("its caller's context ended after 1ms, the call after %v: %v", took, err)
		}
		time.Sleep(wait / 3) // the timer of earlier calls fires during this one
		takes = 2 * wait
		for range 2 {
			if took, err := try(t.Context(), 0); !errors.Is(err, context.DeadlineExceeded) || took != wait {
				t.Errorf("a call that would take %v ended after %v: %v", takes, took, err)
			}
		}
		takes = wait / 2
		for range 2 {
			time.Sleep(10 * wait) // the timer fires and is not set again
			if _, err := try(t.Context(), 0); err != nil {
				t.Errorf("after a while without calls: %v", err)
			}
		}
		time.Sleep(10 * wait)
		takes = 2 * wait
		if took, err := try(t.Context(), 0); !errors.Is(err, context.DeadlineExceeded) || took != wait {
			t.Errorf("after a while without calls one that would take %v ended after %v: %v", takes, took, err)
		}
	})
}

// With ReuseContext a single call on its caller's goroutine makes no context and no timer, whether its caller's context
// may end or not.
func TestSingleCallAllocatesNothing(t *testing.T) {
	ending, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := batch.New(func(_ context.Context, items []*batch.Item[ask]) { double(items) }, batch.Options{OnCaller: true, ReuseContext: true})
	for _, ctx := range []context.Context{context.Background(), ending} {
		n := testing.AllocsPerRun(1000, func() {
			it := c.Item()
			it.Wait, it.Timeout = time.Minute, time.Second
			if err := c.Do(ctx, it); err != nil {
				t.Fatal(err)
			}
			c.Free(it)
		})
		if n > 0 && !race.Enabled {
			t.Errorf("%v allocations", n)
		}
	}
}
