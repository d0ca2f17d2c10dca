// Package poll waits in tests for what other goroutines, processes and servers do.
package poll

import (
	"runtime"
	"testing"
	"time"
)

// Until checks every few milliseconds until the condition holds. The test fails, and shows all
// goroutines, if it does not hold within the time: a guard against hanging, which measures nothing.
func Until(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("not within %v: %s; goroutines:\n%s", within, what, buf[:runtime.Stack(buf, true)])
		}
	}
}
