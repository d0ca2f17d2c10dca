package redis_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

// patience bounds a test that would hang.
const patience = time.Minute

// eventually waits for what must become true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}
