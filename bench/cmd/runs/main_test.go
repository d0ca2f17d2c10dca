package main

import (
	"context"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/command"
)

// The command starts its own program as the server.
func TestMain(m *testing.M) { command.TestMain(m, "serve", main) }

func TestMeasuresBothWays(t *testing.T) {
	l := load{runs: 20, perSecond: 20}
	for _, plain := range []bool{true, false} {
		f, err := l.measure(context.Background(), plain, 500*time.Millisecond)
		if err != nil || f.cpu <= 0 || f.frames <= 0 || f.p50 <= 0 || f.p99 < f.p50 || (f.stop > 0) == plain {
			t.Errorf("plain %v: %+v, %v", plain, f, err)
		}
	}
}
