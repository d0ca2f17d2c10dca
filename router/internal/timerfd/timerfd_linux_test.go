package timerfd

import (
	"testing"
	"time"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	var timer Timer
	for _, d := range []time.Duration{1, time.Millisecond, 20 * time.Millisecond} {
		start := time.Now()
		if !timer.Sleep(d) {
			t.Fatalf("cannot sleep for %v", d)
		}
		if slept := time.Since(start); slept < d {
			t.Errorf("slept %v of %v", slept, d)
		}
	}
	if err := timer.file.Close(); err != nil {
		t.Fatal(err)
	}
	if timer.Sleep(time.Hour) {
		t.Error("slept without a timer")
	}
}
