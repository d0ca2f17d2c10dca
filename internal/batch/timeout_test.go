package batch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/batch"
)

const timeout = 100 * time.Millisecond

func timed(t *testing.T) context.Context { return batch.WithTimeout(t.Context(), timeout) }

// The time in the queue does not count towards the timeout of a call.
func TestTimeoutIsThatOfTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, onCaller := range []bool{false, true} {
			var flushes atomic.Int64
			c := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
				flushes.Add(1)
				if got := batch.Timeout(ctx); got != timeout {
					t.Errorf("the flush's timeout is %v", got)
				}
				within, cancel := context.WithTimeout(ctx, batch.Timeout(ctx))
				defer cancel()
				select {
				case <-time.After(80 * time.Millisecond):
					double(items)
				case <-within.Done():
					t.Error("the flush ended early")
				}
			}, batch.Options{Flushes: 1, OnCaller: onCaller, ReuseContext: onCaller, Slack: 2})
			var wg sync.WaitGroup
			for i := range 5 {
				time.Sleep(time.Millisecond)
				wg.Go(func() {
					if answer, err := call(c, timed(t), i); answer != 2*i || err != nil {
						t.Errorf("%d: %d, %v", i, answer, err)
					}
				})
			}
			wg.Wait()
			if flushes.Load() != 2 {
				t.Errorf("%d flushes", flushes.Load())
			}
		}
	})
}

// A flush that is not answered fails all queued calls, too. From then on no call waits for
// longer than the timeout, while the flush continues and detects when the server is back.
func TestServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var takes, flushes atomic.Int64
		silent.Store(true)
		takes.Store(int64(timeout))
		c := batch.New(func(ctx context.Context, items []*batch.Item[ask]) {
			flushes.Add(1)
			select {
			case <-time.After(time.Duration(takes.Load())):
			case <-ctx.Done():
				t.Error("the flush was cancelled")
			}
			for _, it := range items {
				if silent.Load() {
					it.Err = batch.NotAnswered(errors.New("silence"))
				}
			}
			double(items)
		}, batch.Options{Flushes: 1, OnCaller: true, Slack: 12})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 300 { // the first is sent alone, the others would need three more flushes
			wg.Go(func() {
				if _, err := call(c, timed(t), i); err == nil {
					t.Error("there is an answer")
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if took := time.Since(start); took != timeout || flushes.Load() != 1 {
			t.Errorf("%d flushes, all failed after %v; want 1, %v", flushes.Load(), took, timeout)
		}

		// The server is back, but making a connection takes longer than the timeout.
		silent.Store(false)
		takes.Store(int64(5 * timeout))
		start = time.Now()
		if _, err := call(c, timed(t), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took != timeout {
			t.Errorf("it waited for %v", took)
		}
		time.Sleep(5 * timeout)
		takes.Store(int64(timeout / 2))
		if answer, err := call(c, timed(t), 4); answer != 8 || err != nil {
			t.Errorf("%d, %v", answer, err)
		}
	})
}

// If a server is too slow for the load, no call waits for longer than Slack.
func TestTimeInQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batch.New(func(_ context.Context, items []*batch.Item[ask]) {
			time.Sleep(timeout - time.Millisecond)
			double(items)
		}, batch.Options{Flushes: 1, Size: 1, Slack: 3})
		var answered, full atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 20 {
			wg.Go(func() {
				switch _, err := call(c, timed(t), i); {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, batch.ErrFull):
					full.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 5*timeout || answered.Load() < 3 || answered.Load()+full.Load() != 20 {
			t.Errorf("%d answered, %d not sent, after %v", answered.Load(), full.Load(), took)
		}
	})
}
