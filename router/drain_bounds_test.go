package router

import (
	"testing"
	"time"
)

// How long clients are away is bounded, however many there are.
func TestBoundsOfTheDrainWindow(t *testing.T) {
	t.Parallel()
	for open, want := range map[int64]time.Duration{
		0: time.Second, 1: time.Second, 500: time.Second, 501: 1002 * time.Millisecond,
		10_000: 20 * time.Second, 30_000: time.Minute, 30_001: time.Minute, 10_000_000: time.Minute,
	} {
		if got := (&Options{}).drainWindow(open); got != want {
			t.Errorf("%d clients reconnect within %v, want %v", open, got, want)
		}
	}
}
