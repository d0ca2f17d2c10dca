package tasks

import (
	"time"

	"github.com/wskit/wskit/router"
)

// history keeps what is said in rooms for an hour, for those that come back and those that come late.
func history() *router.Router {
	r := router.New()
	r.History("room:*", router.HistoryOptions{Age: time.Hour})
	router.RPC(r, "room.join", func(c *router.Context, room string) (struct{}, error) {
		return struct{}{}, c.SubscribeFrom("room:"+room, "")
	})
	router.On(r, "room.say", func(c *router.Context, l Letter) error {
		return c.Publish("room:"+l.To, "room.said", Received{c.Identity.User, l.Text})
	})
	return r
}
