package router

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestNap(t *testing.T) {
	t.Parallel()
	var n nap
	for _, d := range []time.Duration{1, time.Millisecond, 20 * time.Millisecond} {
		start := time.Now()
		if !n.sleep(d) {
			t.Fatalf("cannot sleep for %v", d)
		}
		if slept := time.Since(start); slept < d {
			t.Errorf("slept %v of %v", slept, d)
		}
	}
	if err := n.timer.Close(); err != nil {
		t.Fatal(err)
	}
	if n.sleep(time.Hour) {
		t.Error("slept without a timer")
	}
}

// Where something always runs, naps end late, and the watchdog keeps its time by a
// timer.
func TestWatchdogKeepsItsTimeUnderLoad(t *testing.T) {
	w := &watchdog{stop: make(chan struct{})}
	w.sockets.Store(true)
	var stop atomic.Bool
	var load sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		load.Go(func() {
			for !stop.Load() {
				for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
				}
				runtime.Gosched()
			}
		})
	}
	for n := 0; w.timed == 0; n++ {
		if n == 1000 {
			t.Error("1000 naps, and none of them late")
			break
		}
		w.pause()
	}
	for n := w.timed; n > 0; n-- {
		if w.pause(); w.timed != n-1 {
			t.Errorf("%d ticks are left to the timer, want %d", w.timed, n-1)
		}
	}
	stop.Store(true)
	load.Wait()
}
