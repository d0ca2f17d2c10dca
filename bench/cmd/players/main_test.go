package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// The command starts its own program as the server.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestMeasuresBothWays(t *testing.T) {
	for _, collect := range []bool{false, true} {
		f, err := measure(context.Background(), collect, 200*time.Millisecond)
		if err != nil || f.cpu <= 0 || f.sent <= 0 {
			t.Errorf("collect %v: %+v, %v", collect, f, err)
		}
	}
}
