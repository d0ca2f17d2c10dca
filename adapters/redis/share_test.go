package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// Whatever a Broker and a Presence do, they leave connections for others of their
// client's: here it has five, which are stalled while calls are under way.
func TestBrokerAndPresenceLeaveConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, PoolSize: 5, ReadTimeout: patience, PoolTimeout: time.Second})
	t.Cleanup(func() { _ = client.Close() })
	b := redis.NewBroker(client, redis.BrokerOptions{Timeout: patience})
	t.Cleanup(func() { _ = b.Close() })
	p := redis.NewPresence(client, redis.PresenceOptions{Timeout: patience})
	t.Cleanup(func() { _ = p.Close() })
	if err := client.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	const calls = 200
	var wait sync.WaitGroup
	var done atomic.Int64
	proxy.Delay(time.Second) // what Redis sends comes late
	for i := range calls {
		wait.Go(func() {
			defer done.Add(1)
			if err := b.Publish(ctx, pubsub.Message{Topic: fmt.Sprint(i)}); err != nil {
				t.Errorf("Publish: %v", err)
			}
		})
		wait.Go(func() {
			defer done.Add(1)
			if _, err := p.Members(ctx, fmt.Sprint(i)); err != nil {
				t.Errorf("Members: %v", err)
			}
		})
	}
	waits := client.PoolStats().WaitCount
	for range 2 {
		if err := client.Ping(ctx).Err(); err != nil {
			t.Errorf("Ping, after %d of %d calls: %v", done.Load(), 2*calls, err)
		}
	}
	if s := client.PoolStats(); s.WaitCount != waits || s.Timeouts != 0 {
		t.Errorf("others wait for a connection: %+v", s)
	}
	wait.Wait()
}

// What Client returns has connections of its own: all of them may be busy.
func TestStoreKeepsConnectionsForItself(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := redis.OpenStore(ctx, server.URL()+"&pool_size=2")
	if err != nil {
		t.Fatal(err)
	}
	others := s.Client()
	busy, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() { others.BLPop(busy, 0, "nothing") })
	}
	eventually(t, "both connections are busy", func() bool {
		info, _ := server.Do("INFO", "clients").(string)
		return strings.Contains(info, "blocked_clients:2")
	})
	for range 10 {
		if _, err := s.Take(ctx, []byte("k"), hourly(100), 1); err != nil {
			t.Errorf("Take: %v", err)
		}
	}
	stop()
	server.Do("RPUSH", "nothing", "a", "b")
	wait.Wait()
	if s.Client() != others {
		t.Error("Client returns another one each time")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := others.Ping(ctx).Err(); !errors.Is(err, goredis.ErrClosed) {
		t.Errorf("after Close of the store its client says %v", err)
	}
}

// Once it is known that Redis is stalled, a publish fails at once, and one message
// in a second tries.
func TestPublishingFailsFastDuringAStall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger, logged := newLog()
	b := newBroker(t, server, redis.BrokerOptions{Timeout: 2 * time.Second, Logger: logger})
	in := subscribe(t, b, "room")
	publish(t, b, "room", "before")
	server.Stall()
	if err := b.Publish(ctx, pubsub.Message{Topic: "room"}); err == nil {
		t.Error("a stalled server has taken a message")
	}
	fast := 0
	for range 100 {
		err := b.Publish(ctx, pubsub.Message{Topic: "room"})
		if err == nil {
			t.Error("a stalled server has taken a message")
		}
		if failsFast(err) {
			fast++
		}
	}
	if fast < 50 { // a few may have tried
		t.Errorf("%d of 100 messages failed at once", fast)
	}
	server.Resume()
	eventually(t, "publishing works", func() bool {
		return b.Publish(ctx, pubsub.Message{Topic: "room", Frame: []byte("back")}) == nil
	})
	eventually(t, "it arrives", func() bool { return in.count("back") > 0 })
	eventually(t, "it is logged", func() bool {
		return strings.Count(logged(), "publishing fails") == 1 && strings.Count(logged(), "publishing works again") == 1
	})
}
