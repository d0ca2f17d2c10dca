package tasks

import (
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// room is a chat in rooms, with a limit.
func room() *router.Router {
	r := router.New()
	r.Use(ratelimit.New(limit.New(memory.New().Limits, limit.TokenBucket{
		Capacity: 20, Refill: 5, Per: time.Second,
	}), ratelimit.PerUserOrIP))
	said := router.Declare[Received](r, "room.said")
	router.RPC(r, "room.join", func(c *router.Context, room string) (struct{}, error) {
		return struct{}{}, c.Subscribe("room:" + room)
	})
	router.On(r, "room.say", func(c *router.Context, l Letter) error {
		return said.Publish(c, "room:"+l.To, Received{c.Conn().ID(), l.Text})
	})
	return r
}
