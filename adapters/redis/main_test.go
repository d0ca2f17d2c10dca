package redis_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain fails the run if a goroutine outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goroutinesLeft(); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines outlive the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// goroutinesLeft waits until no goroutines are left but those the options allow,
// and returns an error that shows them if there always are some.
func goroutinesLeft(allow ...goleak.Option) error {
	for giveUp := time.Now().Add(patience); ; {
		err := goleak.Find(allow...) // looks for half a second before it fails
		if err == nil || time.Now().After(giveUp) {
			return err
		}
	}
}
