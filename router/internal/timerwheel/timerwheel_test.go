package timerwheel

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const tick = 10 * time.Millisecond

// bubble runs a test with a wheel whose timers are checked by check.
func bubble(t *testing.T, check func(of int, now time.Duration) time.Duration, test func(w *Wheel[int])) {
	synctest.Test(t, func(t *testing.T) {
		var w Wheel[int]
		stop := make(chan struct{})
		defer close(stop)
		w.Init(Config[int]{Epoch: time.Now(), Tick: tick, Check: check, Stop: stop})
		test(&w)
	})
}

// Each timer is checked once, not before its time, and within two ticks after it; also if it is farther away than the
// wheel has slots.
func TestChecksComeInTime(t *testing.T) {
	times := []time.Duration{0, 1, tick - 1, tick, tick + 1, 255 * tick, 256 * tick, 257 * tick, time.Minute, time.Hour}
	checked := make([][]time.Duration, len(times))
	check := func(of int, now time.Duration) time.Duration {
		checked[of] = append(checked[of], now)
		return -1
	}
	bubble(t, check, func(w *Wheel[int]) {
		for i, at := range times {
			w.Schedule(&Timer[int]{Of: i}, at)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for i, at := range times {
			if len(checked[i]) != 1 || checked[i][0] < at || checked[i][0] > at+2*tick {
				t.Errorf("the timer for %v was checked after %v", at, checked[i])
			}
		}
		if n := w.Scheduled(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}

// A timer is checked again when its check says so.
func TestChecksAreRepeated(t *testing.T) {
	var at []time.Duration
	check := func(_ int, now time.Duration) time.Duration {
		if at = append(at, now); len(at) == 3 {
			return -1
		}
		return now + time.Second
	}
	bubble(t, check, func(w *Wheel[int]) {
		w.Schedule(new(Timer[int]), time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		late := func(now time.Duration) bool { return now%time.Second > 4*tick }
		if len(at) != 3 || slices.ContainsFunc(at, late) {
			t.Errorf("it was checked at %v", at)
		}
	})
}

// A timer that is scheduled again is checked at the earlier time.
func TestTheEarlierTimeHolds(t *testing.T) {
	for _, order := range [][]time.Duration{{time.Second, time.Hour}, {time.Hour, time.Second}} {
		var at []time.Duration
		check := func(_ int, now time.Duration) time.Duration {
			at = append(at, now)
			return -1
		}
		bubble(t, check, func(w *Wheel[int]) {
			var timer Timer[int]
			for _, d := range order {
				w.Schedule(&timer, d)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if len(at) != 1 || at[0] > time.Second+2*tick {
				t.Errorf("scheduled for %v, it was checked at %v", order, at)
			}
		})
	}
}

// A timer that is cancelled is not checked any more, whoever schedules it afterwards: also its own check.
func TestCancelledTimersAreNotChecked(t *testing.T) {
	checks := 0
	var timer Timer[int]
	var cancel func()
	check := func(int, time.Duration) time.Duration {
		checks++
		cancel()
		return 0
	}
	bubble(t, check, func(w *Wheel[int]) {
		cancel = func() { w.Cancel(&timer) }
		w.Schedule(&timer, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.Schedule(&timer, 0); w.Scheduled() != 0 {
			t.Error("it is scheduled again")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if checks != 1 {
			t.Errorf("it was checked %d times", checks)
		}
	})
}
