package faulttest

import (
	"context"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// The places of the request "place": at most so many are handled at a time, of all clients in all
// processes.
const placeMax = 3

// Keys in Redis. The handlers count themselves there.
const (
	placeRunning = "faulttest:running" // a hash: handlers that run, by the address of their server
	placePeak    = "faulttest:peak"    // the most that ran at once, of the servers in the hash
	placeBegun   = "faulttest:begun"   // how many have begun
	placeGo      = "faulttest:go"      // exists while handlers that wait may return
	placeKey     = "wskit:places~held"
)

// PlacesConfig configures the places of a server.
type PlacesConfig struct {
	Lease   time.Duration
	Timeout time.Duration // after which a process has the places for itself
}

// Place says what the handler does before it returns.
type Place struct {
	End  string `json:"end"`  // "", "error" or "panic"
	Wait bool   `json:"wait"` // for placeGo
	Ms   int    `json:"ms"`
	// Uncounted handlers do not count themselves, and so can end while Redis is away.
	Uncounted bool `json:"uncounted"`
}

// countHandler adds to the handlers of a server, and keeps the largest sum.
var countHandler = goredis.NewScript(`
redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
local sum = 0
for _, n in ipairs(redis.call('HVALS', KEYS[1])) do sum = sum + n end
if sum > tonumber(redis.call('GET', KEYS[2]) or 0) then redis.call('SET', KEYS[2], sum) end
if tonumber(ARGV[2]) > 0 then redis.call('INCR', KEYS[3]) end
return sum`)

// registerPlaces adds the request "place". What it returns releases the places of handlers that
// have ended.
func registerPlaces(r *router.Router, store *redis.Store, c Config) (flush func(context.Context) error) {
	places := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
		Max: placeMax, LeaseTime: c.Places.Lease, Limiter: limit.Options{Name: "places", Timeout: c.Places.Timeout},
	})
	client := store.Client()
	count := func(n int) error {
		return countHandler.Run(context.Background(), client, []string{placeRunning, placePeak, placeBegun}, c.Addr, n).Err()
	}
	placed := r.With(ratelimit.NewConcurrency(places, ratelimit.Global))
	router.RPC(placed, "place", func(c *router.Context, p Place) (string, error) {
		if !p.Uncounted {
			if err := count(1); err != nil {
				return "", err
			}
			defer func() {
				poll.Within(hangGuard, func() bool { return count(-1) == nil }) // Redis is away
			}()
		}
		pause(time.Duration(p.Ms) * time.Millisecond)
		if p.Wait {
			poll.Within(hangGuard, func() bool {
				n, err := client.Exists(context.Background(), placeGo).Result()
				return err == nil && n > 0
			})
		}
		switch p.End {
		case "error":
			return "", errors.Aborted.New("as it should")
		case "panic":
			panic("as it should")
		}
		return strconv.Itoa(p.Ms), nil
	}, router.RouteOptions{
		Concurrent: true,
	})
	return places.Flush
}
