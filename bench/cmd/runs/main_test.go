package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/internal/poll"
)

// The command starts its own program as the server.
func TestMain(m *testing.M) { command.TestMain(m, "serve", main) }

func TestMeasuresBothWays(t *testing.T) {
	l := load{runs: 20, perSecond: 20}
	for _, plain := range []bool{true, false} {
		var f figures
		var err error
		poll.Until(t, "a measurement in which the machine does not stand still", func() bool {
			f, err = l.measure(context.Background(), plain, 500*time.Millisecond)
			return !errors.Is(err, errTooSlow)
		})
		if err != nil || f.cpu <= 0 || f.frames <= 0 || f.p50 <= 0 || f.p99 < f.p50 || (f.stop > 0) == plain {
			t.Errorf("plain %v: %+v, %v", plain, f, err)
		}
	}
}
