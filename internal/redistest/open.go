package redistest

import (
	"cmp"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/poll"
)

// Open opens a backend at a URL of a [Server] until the test ends. It waits for a busy machine as long as tests do,
// unless the options say for how long.
func Open(t testing.TB, url string, o redis.Options) adapters.Backend {
	t.Helper()
	for _, timeout := range []*time.Duration{&o.Broker.Timeout, &o.Presence.Timeout, &o.Idempotency.Timeout} {
		*timeout = cmp.Or(*timeout, poll.Guard/2)
	}
	b, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}
