package router

import (
	"testing"
	"time"
)

func TestNap(t *testing.T) {
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
