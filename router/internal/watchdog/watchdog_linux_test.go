package watchdog

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Where something always runs, sleeps end late, and the watchdog keeps its time by a
// timer.
func TestWatchdogKeepsItsTimeUnderLoad(t *testing.T) {
	var sockets atomic.Bool
	sockets.Store(true)
	w := &Watchdog[int]{Config: Config[int]{Sockets: &sockets, Stop: make(chan struct{})}}
	var stop atomic.Bool
	var load sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		load.Go(func() {
			for !stop.Load() {
				for range 100_000 { // some ten microseconds
				}
				runtime.Gosched()
			}
		})
	}
	for n := 0; w.timed == 0; n++ {
		if n == 1000 {
			t.Error("1000 sleeps, and none of them late")
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
