package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// nodes find the node of a channel.
type nodes interface {
	// publishing is the command that publishes: a string, as go-redis takes it without an allocation.
	publishing() any
	// find finds the node of a channel. It may ask Redis.
	find(ctx context.Context, channel string) (node, error)
	// changed is called when a node has turned out not to be the one. It waits for nothing.
	changed()
}

// node is a server, or the master that is in its place, with its commands.
type node interface {
	name() string
	// open makes a connection that is not connected yet.
	open(ctx context.Context) *goredis.PubSub
	// subscribe and unsubscribe write one command; at most batch channels fit it.
	subscribe(ctx context.Context, conn *goredis.PubSub, channels ...string) error
	unsubscribe(ctx context.Context, conn *goredis.PubSub, channels ...string) error
	batch() int
}

func nodesOf(client goredis.UniversalClient) nodes {
	switch client := client.(type) {
	case *goredis.ClusterClient:
		return shards{&reloads{client: client}}
	case *goredis.Ring:
		panic("redis: a Broker on a Ring would lose messages while its servers come and go; use a client of one server, of Sentinel or of a cluster")
	default:
		return server{client}
	}
}

// server is a server, or the master that Sentinel names: the client has its address.
type server struct{ client goredis.UniversalClient }

func (server) publishing() any                              { return "publish" }
func (s server) find(context.Context, string) (node, error) { return s, nil }
func (server) changed()                                     {}

func (server) name() string                               { return "" }
func (s server) open(ctx context.Context) *goredis.PubSub { return s.client.Subscribe(ctx) }
func (server) batch() int                                 { return 256 }

func (server) subscribe(ctx context.Context, conn *goredis.PubSub, channels ...string) error {
	return conn.Subscribe(ctx, channels...)
}

func (server) unsubscribe(ctx context.Context, conn *goredis.PubSub, channels ...string) error {
	return conn.Unsubscribe(ctx, channels...)
}

// shards finds a channel's master by its hash slot, and uses sharded pub/sub.
type shards struct{ *reloads }

func (shards) publishing() any { return "spublish" }

func (c shards) find(ctx context.Context, channel string) (node, error) {
	master, err := c.client.MasterForKey(ctx, channel)
	if err != nil {
		return nil, err
	}
	return shard{master}, nil
}

// shard is one master of a cluster. A command of its may name channels of one slot
// only, so each names one.
type shard struct{ client *goredis.Client }

func (s shard) name() string                             { return s.client.Options().Addr }
func (s shard) open(ctx context.Context) *goredis.PubSub { return s.client.SSubscribe(ctx) }
func (shard) batch() int                                 { return 1 }

func (shard) subscribe(ctx context.Context, conn *goredis.PubSub, channels ...string) error {
	return conn.SSubscribe(ctx, channels...)
}

func (shard) unsubscribe(ctx context.Context, conn *goredis.PubSub, channels ...string) error {
	return conn.SUnsubscribe(ctx, channels...)
}
