package main

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/command"
)

// The command starts its own program as the server.
func TestMain(m *testing.M) { command.TestMain(m, "serve", main) }

// A kind of frame is handled by one server and refused by another.
func TestMeasuresHandledAndRefusedFrames(t *testing.T) {
	for _, refused := range []bool{false, true} {
		for _, duration := range []time.Duration{20 * time.Millisecond, time.Nanosecond} { // the second is over before the clients begin
			f, err := measure(context.Background(), kinds()[0], refused, duration)
			if err != nil {
				t.Fatalf("refused %v: %v", refused, err)
			}
			if f.cpu <= 0 || math.IsNaN(f.cpu) || math.IsInf(f.cpu, 0) {
				t.Errorf("refused %v, %v: %v", refused, duration, f)
			}
		}
	}
}
