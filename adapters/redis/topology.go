package redis

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
)

// A topology says where keys live.
type topology interface {
	// server is the one that has the key: calls to one server share round trips.
	server(ctx context.Context, key string) (any, error)
	// script is the same for keys that one script may touch.
	script(ctx context.Context, key string) (any, error)
	// run sends commands to a server in one round trip. Each has its error.
	run(ctx context.Context, server any, commands []goredis.Cmder)
	// keepsDeadlines says that run returns at the deadline of its context.
	keepsDeadlines() bool
}

func topologyOf(client goredis.UniversalClient) topology {
	switch c := client.(type) {
	case *goredis.Client:
		if c != nil {
			return single{c}
		}
	case *goredis.ClusterClient:
		if c != nil {
			return cluster{c}
		}
	case *goredis.Ring:
		if c != nil {
			return ring{c}
		}
	}
	panic(fmt.Sprintf("redis: NewStore with a client of type %T; make one with goredis.NewClient, NewFailoverClient, NewClusterClient or NewRing", client))
}

// single is one server, or the one that Sentinels name.
type single struct{ client *goredis.Client }

func (t single) server(context.Context, string) (any, error) { return t.client, nil }
func (t single) script(context.Context, string) (any, error) { return t.client, nil }
func (t single) run(ctx context.Context, _ any, commands []goredis.Cmder) {
	runOn(ctx, t.client, commands)
}
func (t single) keepsDeadlines() bool { return t.client.Options().ContextTimeoutEnabled }

// runOn sends commands to one server. (A pipeline of one has more to do than a
// command.)
func runOn(ctx context.Context, client *goredis.Client, commands []goredis.Cmder) {
	if len(commands) == 1 {
		_ = client.Process(ctx, commands[0])
		return
	}
	pipe := client.Pipeline()
	_ = pipe.BatchProcess(ctx, commands...)
	_, _ = pipe.Exec(ctx)
}

// ring is a number of servers that know nothing of each other; the client spreads
// the keys.
type ring struct{ client *goredis.Ring }

func (t ring) server(_ context.Context, key string) (any, error) {
	return t.client.GetShardClientForKey(key)
}
func (t ring) script(ctx context.Context, key string) (any, error) { return t.server(ctx, key) }
func (t ring) run(ctx context.Context, server any, commands []goredis.Cmder) {
	runOn(ctx, server.(*goredis.Client), commands)
}
func (t ring) keepsDeadlines() bool { return t.client.Options().ContextTimeoutEnabled }

// cluster is a Redis Cluster, in which a script may touch keys of one slot. The
// client sends everything, because it knows what to do when slots move.
type cluster struct{ client *goredis.ClusterClient }

func (t cluster) server(ctx context.Context, key string) (any, error) {
	return t.client.MasterForKey(ctx, key)
}
func (t cluster) script(_ context.Context, key string) (any, error) { return slot(key), nil }
func (t cluster) run(ctx context.Context, _ any, commands []goredis.Cmder) {
	pipe := t.client.Pipeline()
	_ = pipe.BatchProcess(ctx, commands...)
	_, _ = pipe.Exec(ctx)
}
func (t cluster) keepsDeadlines() bool { return t.client.Options().ContextTimeoutEnabled }
