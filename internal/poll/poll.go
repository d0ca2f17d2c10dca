// Package poll waits in tests for what other goroutines, processes and servers do.
package poll

import (
	"runtime"
	"testing"
	"time"
)

// Guard is how long a test waits for an event before it calls the program hung. It measures nothing: no test passes or
// fails by how fast something was. It is long enough for a machine that also runs several other things.
const Guard = 2 * time.Minute

// Until checks every few milliseconds until the condition holds. If it does not hold within [Guard], the test fails and
// shows all goroutines.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !Within(Guard, condition) {
		hung(t, what)
	}
}

// Within is Until for suites that are tested with implementations which never do what is waited for: they have a limit
// of their own, and say themselves what is wrong. It reports whether the condition holds in time.
func Within(limit time.Duration, condition func() bool) bool {
	for end := after(limit); !condition(); <-after(2 * time.Millisecond) {
		select {
		case <-end:
			return condition()
		default:
		}
	}
	return true
}

// after is the clock of the guards.
func after(d time.Duration) <-chan time.Time { return time.After(d) }

// Receive returns the next value of a channel, or the zero value if the channel is closed. If neither comes within
// [Guard], the test fails and shows all goroutines.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	v, ok := ReceiveWithin(Guard, from)
	if !ok {
		hung(t, what)
	}
	return v
}

// ReceiveWithin is Receive for such suites as Within is for. It reports whether a value came in time, or the end of
// the channel.
func ReceiveWithin[T any](limit time.Duration, from <-chan T) (v T, ok bool) {
	select {
	case v = <-from:
		return v, true
	case <-after(limit):
		return v, false
	}
}

func hung(t testing.TB, what string) {
	t.Helper()
	buf := make([]byte, 1<<20)
	t.Fatalf("not within %v: %s; goroutines:\n%s", Guard, what, buf[:runtime.Stack(buf, true)])
}
