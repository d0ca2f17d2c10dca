package idempotencytest_test

import (
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/idempotency/idempotencytest"
)

func ExampleRun() {
	_ = func(t *testing.T) { // func TestIdempotency(t *testing.T)
		idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
			shared := memory.NewIdempotency()
			stores := make([]idempotency.Store, n)
			for i := range stores {
				stores[i] = shared
			}
			return stores
		})
	}
}
