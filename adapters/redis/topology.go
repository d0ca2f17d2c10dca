package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
)

// A topology finds the servers of keys.
type topology interface {
	// all is the client for all servers.
	all() goredis.UniversalClient
	// server is the one that has the key: calls to one server share round trips.
	server(ctx context.Context, key string) (any, error)
	// script is the same for keys that one script may touch.
	script(ctx context.Context, key string) (any, error)
	// run sends commands to a server in one round trip, which batch.Timeout(ctx)
	// bounds, and before it every round trip that a new connection takes. Each command
	// has its error.
	run(ctx context.Context, server any, commands []goredis.Cmder)
	// keepsDeadlines says that run returns at the deadline of its context.
	keepsDeadlines() bool
	// lateReads is how many answers were there when their timeouts were over: this
	// process was late.
	lateReads() int64
}

func topologyOf(maker string, client goredis.UniversalClient) topology {
	t := &timeouts{}
	switch c := client.(type) {
	case *goredis.Client:
		if c != nil {
			c.AddHook(&t.late)
			return single{c, t}
		}
	case *goredis.ClusterClient:
		if c != nil {
			c.OnNewNode(func(node *goredis.Client) { node.AddHook(&t.late) })
			return cluster{c, t, &reloads{client: c}}
		}
	case *goredis.Ring:
		if c != nil {
			c.OnNewNode(func(node *goredis.Client) { node.AddHook(&t.late) })
			_ = c.ForEachShard(context.Background(), func(_ context.Context, node *goredis.Client) error {
				node.AddHook(&t.late)
				return nil
			})
			return ring{c, t}
		}
	}
	panic(fmt.Sprintf("redis: %s with a client of type %T; make one with goredis.NewClient, NewFailoverClient, NewClusterClient or NewRing", maker, client))
}

// single is one server, or the one that Sentinels name.
type single struct {
	client *goredis.Client
	*timeouts
}

func (t single) all() goredis.UniversalClient { return t.client }

func (t single) server(context.Context, string) (any, error) { return t.client, nil }
func (t single) script(context.Context, string) (any, error) { return t.client, nil }
func (t single) run(ctx context.Context, _ any, commands []goredis.Cmder) {
	t.runOn(ctx, t.client, commands)
}
func (t single) keepsDeadlines() bool { return t.client.Options().ContextTimeoutEnabled }

// timeouts are clients that share the connections of another and have timeouts of their
// own. Theirs are for each round trip, those of new connections included; a context has
// one for all.
type timeouts struct {
	mu      sync.RWMutex
	clients map[timedClient]*goredis.Client
	late    lateReads
}

func (t *timeouts) lateReads() int64 { return t.late.count.Load() }

type timedClient struct {
	client  *goredis.Client
	timeout time.Duration
}

// within is the client with a timeout; 0 means the client's own.
func (t *timeouts) within(client *goredis.Client, timeout time.Duration) *goredis.Client {
	if timeout == 0 {
		return client
	}
	which := timedClient{client, timeout}
	t.mu.RLock()
	timed := t.clients[which]
	t.mu.RUnlock()
	if timed != nil {
		return timed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients == nil || len(t.clients) >= maxTimeouts {
		t.clients = map[timedClient]*goredis.Client{}
	}
	if timed = t.clients[which]; timed == nil {
		timed = client.WithTimeout(timeout)
		t.clients[which] = timed
	}
	return timed
}

// maxTimeouts bounds the clients that are kept: a cluster's nodes come and go.
const maxTimeouts = 1024

// runOn sends commands to one server. (A pipeline of one has more to do than a
// command.)
func (t *timeouts) runOn(ctx context.Context, client *goredis.Client, commands []goredis.Cmder) {
	client = t.within(client, batch.Timeout(ctx))
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
type ring struct {
	client *goredis.Ring
	*timeouts
}

func (t ring) all() goredis.UniversalClient { return t.client }

func (t ring) server(_ context.Context, key string) (any, error) {
	return t.client.GetShardClientForKey(key)
}
func (t ring) script(ctx context.Context, key string) (any, error) { return t.server(ctx, key) }
func (t ring) run(ctx context.Context, server any, commands []goredis.Cmder) {
	t.runOn(ctx, server.(*goredis.Client), commands)
}
func (t ring) keepsDeadlines() bool { return t.client.Options().ContextTimeoutEnabled }

// cluster is a Redis Cluster, in which a script may touch keys of one slot. Commands go
// to the node that has their slots. What the node no longer has, the client sends,
// because it knows the node that has it.
type cluster struct {
	client *goredis.ClusterClient
	*timeouts
	*reloads
}

func (t cluster) all() goredis.UniversalClient { return t.client }

func (t cluster) server(ctx context.Context, key string) (any, error) {
	node, err := t.client.MasterForKey(ctx, key)
	if err != nil {
		t.changed()
		return nil, err
	}
	return node, nil
}
func (t cluster) script(_ context.Context, key string) (any, error) { return slot(key), nil }
func (t cluster) run(ctx context.Context, server any, commands []goredis.Cmder) {
	t.runOn(ctx, server.(*goredis.Client), commands)
	var elsewhere []goredis.Cmder
	for _, c := range commands {
		if err := c.Err(); err != nil && suggestsChange(err) {
			t.changed()
			if goredis.HasErrorPrefix(err, "MOVED ") || goredis.HasErrorPrefix(err, "ASK ") {
				c.SetErr(nil)
				elsewhere = append(elsewhere, c)
			}
		}
	}
	if len(elsewhere) > 0 {
		pipe := t.client.Pipeline()
		_ = pipe.BatchProcess(ctx, elsewhere...)
		_, _ = pipe.Exec(ctx)
	}
}
func (t cluster) keepsDeadlines() bool { return t.client.Options().ContextTimeoutEnabled }
