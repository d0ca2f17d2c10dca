package redis_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// After Redis has stood still, while connections of a user were closed and others tried to open, Count is how many the
// user's clients have: none that was closed in the meantime counts.
func TestCountAfterRedisStoodStill(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var servers []*routertest.Server
	var routers []*router.Router
	for range 2 {
		b := brokerOn(t, &goredis.Options{Addr: s.Addr}, redis.BrokerOptions{Timeout: 300 * time.Millisecond, HealthTimeout: time.Second})
		r := router.New(router.Options{
			Backend:      adapters.Backend{Broker: b},
			Addressing:   router.AddressingOptions{Enabled: true, Timeout: time.Second},
			Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{User: "ann"}, nil },
		})
		routers, servers = append(routers, r), append(servers, routertest.New(t, r))
	}
	var open []*routertest.Client
	dial := func() {
		c, _, err := servers[rand.N(2)].TryDial()
		if err != nil {
			return
		}
		open = append(open, c)
	}
	for range 3 {
		dial()
	}
	for range 3 {
		s.Stall()
		for _, c := range open[:2] {
			c.Close()
		}
		open = open[2:]
		dial()
		dial()
		s.Resume()
		eventually(t, "the connections are counted", func() bool {
			n, err := routers[0].User("", "ann").Count(context.Background())
			if err != nil {
				if errors.CodeOf(err) != errors.Unavailable {
					t.Fatal(err)
				}
				return false
			}
			if n > len(open) {
				t.Fatalf("%d are counted, and clients have %d", n, len(open))
			}
			return true
		})
		for len(open) < 3 {
			dial()
		}
	}
}
