package redis_test

import (
	"cmp"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func newPresence(t *testing.T, s *redistest.Server, opts redis.PresenceOptions) redis.Presence {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return presenceOn(t, client, opts)
}

// presenceOn makes a Presence. Without a Timeout in opts, it waits long for Redis.
func presenceOn(t *testing.T, client goredis.UniversalClient, opts redis.PresenceOptions) redis.Presence {
	t.Helper()
	opts.Timeout = cmp.Or(opts.Timeout, patience/2)
	p := redis.NewPresence(client, opts)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestPresence(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pubsubtest.RunPresence(t, func(t *testing.T, n int) []pubsub.Presence {
		all := make([]pubsub.Presence, n)
		for i := range all {
			all[i] = newPresence(t, s, redis.PresenceOptions{})
		}
		return all
	})
	eventually(t, "Redis has no keys", func() bool { return s.Do("DBSIZE") == int64(0) })
	for _, command := range []string{"keys", "scan", "flushdb"} {
		if n := s.Calls(command); n != 0 {
			t.Errorf("%d calls of %s", n, command)
		}
	}
}

func TestPresenceInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	pubsubtest.RunPresence(t, func(t *testing.T, n int) []pubsub.Presence {
		all := make([]pubsub.Presence, n)
		for i := range all {
			all[i] = presenceOn(t, clusterClient(t, c), redis.PresenceOptions{})
		}
		return all
	})
}
