package limittest_test

import (
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit/limittest"
)

// The test of a store.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestStore(t *testing.T)
		limittest.Run(t, func(t *testing.T) limittest.Subject {
			clock := limittest.NewClock()
			return limittest.Subject{
				Store: memory.NewStore(memory.Options{Now: clock.Now}),
				Clock: clock,
			}
		})
	}
}
