package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// Below the documented round trip every decision is that of Redis, from the first on,
// which has to make the connections and to load the script; with one server and with
// several, whose calls come alone and many at a time. The timeout is thirty times the default, and
// so are the round trips, so that a machine that is busy with other things does not
// decide. Only a machine that does not run at all for a while makes a round fail, each of which
// begins anew: one of five has to succeed.
func TestDistantRedis(t *testing.T) {
	t.Parallel() // it waits
	const timeout = 3 * time.Second
	server := redistest.Start(t)
	for _, c := range []struct {
		roundTrip time.Duration
		servers   int
	}{{0, 1}, {timeout / 2, 1}, {timeout * 8 / 10, 1}, {timeout * 8 / 10, 4}} {
		t.Run(fmt.Sprintf("%v, %d servers", c.roundTrip, c.servers), func(t *testing.T) {
			t.Parallel()
			proxy := redistest.StartProxy(t, server.Addr)
			proxy.Delay(c.roundTrip)
			var wrong error
			for round := range 5 {
				name := fmt.Sprint(c.servers, "-", c.roundTrip.Milliseconds(), "-", round)
				if wrong = takeFromAfar(t, proxy, name, c.servers, timeout); wrong == nil {
					return
				}
			}
			t.Error(wrong)
		})
	}
}

// takeFromAfar has servers take more than there is, and returns an error if calls timed out, and so not all decisions were
// those of Redis.
func takeFromAfar(t *testing.T, proxy *redistest.Proxy, name string, servers int, timeout time.Duration) (wrong error) {
	policy := limit.TokenBucket{Capacity: 40, Refill: 1, Per: 24 * time.Hour}
	var nodes []*limit.Limiter
	for range servers {
		client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true})
		defer func() { _ = client.Close() }()
		store := redis.NewStore(client, redis.StoreOptions{RememberedKeys: -1})
		nodes = append(nodes, limit.New(store, policy, limit.Options{Name: name, Timeout: timeout}))
	}
	var wait sync.WaitGroup
	var admitted atomic.Int64
	for _, n := range nodes {
		for range 16 {
			wait.Go(func() {
				for range 4 {
					d, err := n.Take(context.Background(), limit.KeyOf("all"), 1)
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wait.Wait()
	for _, n := range nodes {
		st := n.Stats()
		if st.FailedOver != 0 || st.StoreFailures != 0 || st.Switches != 0 {
			wrong = fmt.Errorf("not by Redis: %+v", st)
		}
		if st.StoreFailures != st.TimedOut {
			t.Errorf("a call failed that did not time out: %+v", st)
		}
	}
	if n := admitted.Load(); n != 40 && wrong == nil {
		t.Errorf("%d admitted of 40", n)
	}
	return wrong
}
