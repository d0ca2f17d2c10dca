package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/batch"
)

// Item.Wait bounds a call as the deadline of a context does: in the queue, while it is sent, and on the goroutine of
// its caller. It does not outlast the call.
func TestWaitBoundsTheCall(t *testing.T) {
	const wait, timeout = time.Second, 300 * time.Millisecond
	for name, c := range map[string]struct {
		options batch.Options
		first   bool // a call is under way
	}{
		"queued":                    {batch.Options{Flushes: 1}, true},
		"sent":                      {batch.Options{Flushes: 1, Slack: 9}, false},
		"on its caller":             {batch.Options{Flushes: 1, Slack: 9, OnCaller: true}, false},
		"its context is used again": {batch.Options{Flushes: 1, Slack: 9, OnCaller: true, ReuseContext: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var timeouts []time.Duration
				c1 := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
					timeouts = append(timeouts, batch.Timeout(ctx))
					<-ctx.Done()
					for _, it := range items {
						it.Err = ctx.Err()
					}
				}, c.options)
				ending, end := context.WithCancel(t.Context())
				if c.first {
					go call(c1, ending, 1)
					synctest.Wait()
				}
				start := time.Now()
				it := c1.Item()
				it.Wait, it.Timeout = wait, timeout
				err := c1.Do(t.Context(), it)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, batch.ErrNotSent) != c.first {
					t.Errorf("%v", err)
				}
				if took := time.Since(start); took != wait {
					t.Errorf("it took %v", took)
				}
				if last := timeouts[len(timeouts)-1]; !c.first && last != timeout {
					t.Errorf("the timeout of the round trip was %v", last)
				}
				end()
				synctest.Wait()
				if it := c1.Item(); it.Wait != 0 || it.Timeout != 0 {
					t.Errorf("an item has %v and %v of the call before", it.Wait, it.Timeout)
				}
			})
		})
	}
}

// The timer of an item that is used again is that of its call.
func TestWaitOfAnItemThatIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 600 * time.Millisecond
		c := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
			time.Sleep(takes)
			double(items)
		}, batch.Options{})
		try := func() error {
			it := c.Item()
			it.Wait = time.Second
			err := c.Do(t.Context(), it)
			if err == nil {
				c.Free(it)
			}
			return err
		}
		for range 5 {
			if err := try(); err != nil {
				t.Fatal(err)
			}
		}
		takes = 2 * time.Second
		if err := try(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that takes %v: %v", takes, err)
		}
		time.Sleep(takes)
	})
}
