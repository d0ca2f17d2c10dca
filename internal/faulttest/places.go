package faulttest

import (
	"context"
	"crypto/rand"
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
	placeRunning = "faulttest:running" // a hash: of each handler the address of its server, or placeEnded
	placePeak    = "faulttest:peak"    // the most that ran at once
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

const placeEnded = "ended"

// noteHandler notes that a handler has begun, or that it has ended, and keeps the most that ran at once. A call that
// was given up may still be carried out: twice, and a beginning after the end.
var noteHandler = goredis.NewScript(`
if ARGV[2] == 'ended' then
	redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
elseif redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then
	redis.call('INCR', KEYS[3])
end
local running = 0
for _, of in ipairs(redis.call('HVALS', KEYS[1])) do
	if of ~= 'ended' then running = running + 1 end
end
if running > tonumber(redis.call('GET', KEYS[2]) or 0) then redis.call('SET', KEYS[2], running) end
return running`)

// registerPlaces adds the request "place". What it returns releases the places of handlers that
// have ended.
func registerPlaces(r *router.Router, store redis.Store, c Config) (flush func(context.Context) error) {
	places := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
		Max: placeMax, LeaseTime: c.Places.Lease, Limiter: limit.Options{Name: "places", Timeout: c.Places.Timeout},
	})
	client, addr := store.Client(), c.Addr
	note := func(handler, of string) error {
		return noteHandler.Run(context.Background(), client, []string{placeRunning, placePeak, placeBegun}, handler, of).Err()
	}
	placed := r.With(ratelimit.NewConcurrency(places, ratelimit.Global))
	router.RPC(placed, "place", func(c *router.Context, p Place) (string, error) {
		if !p.Uncounted {
			handler := rand.Text()
			defer func() {
				poll.Within(hangGuard, func() bool { return note(handler, placeEnded) == nil }) // Redis is away
			}()
			if err := note(handler, addr); err != nil {
				return "", err
			}
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
