package redistest

import (
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/poll"
)

// Open opens a backend at a URL of a [Server] until the test ends. It waits for a busy machine as long as tests do.
func Open(t testing.TB, url string, o redis.Options) adapters.Backend {
	t.Helper()
	const most = poll.Guard / 2
	o.Broker.Timeout, o.Presence.Timeout, o.Idempotency.Timeout = most, most, most
	b, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}
