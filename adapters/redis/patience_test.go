package redis_test

import (
	"context"
	"testing"
	"time"
)

// patience bounds a test that would hang.
const patience = time.Minute

// eventually waits for what must become true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("not in %v: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
