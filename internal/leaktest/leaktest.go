// Package leaktest finds goroutines that outlive tests. It is goleak with
// patience: on a busy machine what is on its way out may take a while.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wskit/wskit/internal/poll"
)

// Main runs the tests and ends the process. The run fails if a goroutine outlives
// them.
func Main(m *testing.M, patience time.Duration) {
	code := m.Run()
	if code == 0 {
		if err := Left(patience); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines outlive the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Left waits until no goroutines are left but those the options allow, and returns an
// error that shows them if there always are some.
func Left(patience time.Duration, allow ...goleak.Option) (err error) {
	poll.Within(patience, func() bool {
		err = goleak.Find(allow...)
		return err == nil
	})
	return err
}
