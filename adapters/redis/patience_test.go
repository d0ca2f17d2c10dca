package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

// patience bounds a test that would hang.
const patience = time.Minute

// pause waits in real time: between what writers, clients and faults do at a real Redis, whose claims hold whatever
// comes first; and for longer than a time after which something would happen that must not.
func pause(d time.Duration) { time.Sleep(d) }

// serverNow is the time of day of a server, in microseconds.
func serverNow(server *redistest.Server) int64 { return server.Now().UnixMicro() }

// failsFast reports whether a call failed without being sent, because those before it had no answer.
func failsFast(err error) bool {
	return err != nil && strings.Contains(err.Error(), "one in a second tries again")
}

// eventually waits for what must become true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}
