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
	for _, collect := range []bool{false, true} {
		f, err := measure(context.Background(), collect, 200*time.Millisecond)
		if err != nil || f.cpu <= 0 || f.sent <= 0 {
			t.Errorf("collect %v: %+v, %v", collect, f, err)
		}
	}
}
