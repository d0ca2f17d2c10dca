package serial

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// newCalls returns the calls of f, what was missed, and the log.
func newCalls(f func(int)) (c *Calls[int], missed *atomic.Int64, log *bytes.Buffer) {
	missed, log = new(atomic.Int64), new(bytes.Buffer)
	return &Calls[int]{Name: "f", Call: f, Missed: missed, Logger: slog.New(slog.NewTextHandler(log, nil))}, missed, log
}

// Whoever adds a value does not wait, and the function gets all in their order.
func TestValuesComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var got, want []int
		c, missed, _ := newCalls(func(v int) { <-open; got = append(got, v) })
		for v := range 10_000 {
			c.Add(v)
			want = append(want, v)
		}
		close(open)
		synctest.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("%d values came, want %d in their order", len(got), len(want))
		}
		if n := missed.Load(); n != 0 {
			t.Errorf("%d were missed", n)
		}
	})
}

// While the function hangs, Most values wait. The others are counted, and logged once until the queue has been empty.
func TestWhatFindsNoRoomIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 7
		called := 0
		hang := make(chan struct{})
		c, missed, log := newCalls(func(int) { called++; <-hang })
		c.Add(0)
		synctest.Wait() // the function has it
		for v := range Most + more {
			c.Add(v)
		}
		if n := missed.Load(); n != more {
			t.Errorf("%d were missed, want %d", n, more)
		}
		if n := strings.Count(log.String(), "f is too slow"); n != 1 {
			t.Errorf("%d lines in the log, want 1:\n%.300s", n, log)
		}
		close(hang)
		synctest.Wait()
		if called != 1+Most {
			t.Errorf("f was called %d times, want %d", called, 1+Most)
		}
	})
}

// A function that ends its goroutine is called for the values behind.
func TestGoexitEndsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		c, _, _ := newCalls(func(v int) {
			got = append(got, v)
			if v%2 == 0 {
				runtime.Goexit()
			}
		})
		for v := range 5 {
			c.Add(v)
		}
		synctest.Wait()
		if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
			t.Errorf("f was called with %v", got)
		}
	})
}
