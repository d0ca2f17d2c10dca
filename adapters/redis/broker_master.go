package redis

import (
	"context"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A planned failover of Sentinel closes no connection: for some seconds the former master
// goes on as one, and subscriptions that are left there get nothing of what is published
// at the new one. The client gets the new master at once, on Sentinel's channel
// +switch-master, and drops its pooled connections, but not those of subscriptions. So a
// hook looks at where new connections lead. When they lead elsewhere than a link does, the link
// has to prove itself in a short time.

const (
	// sentinelAddr is what go-redis calls the address of a client of Sentinels.
	sentinelAddr = "FailoverClient"
	// proveEvery is how often a link publishes to itself at least under Sentinels, so that
	// a connection that was dropped is made again soon.
	proveEvery = 250 * time.Millisecond
	// proveWithin is how long a link is given that leads elsewhere than new connections.
	proveWithin = 250 * time.Millisecond
)

// watchMaster has the links compared with new connections, if the client is one of
// Sentinels.
func (b *broker) watchMaster() {
	if c, ok := b.client.(*goredis.Client); ok && c.Options().Addr == sentinelAddr {
		b.sentinels = true
		c.AddHook(masterHook{b})
	}
}

type masterHook struct{ b *broker }

// linkKey is for the link in the context of which a connection is made.
type linkKey struct{}

func (h masterHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil && h.b.ctx.Err() == nil {
			where := conn.RemoteAddr().String()
			if l, ok := ctx.Value(linkKey{}).(*link); ok && l.b == h.b {
				l.where.Store(&where)
			} else {
				h.b.doubt(where)
			}
		}
		return conn, err
	}
}

func (masterHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

func (masterHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// doubt has the links prove themselves that lead elsewhere.
func (b *broker) doubt(where string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, l := range b.links {
		if there := l.where.Load(); there != nil && *there != where {
			signal(l.doubts)
		}
	}
}
