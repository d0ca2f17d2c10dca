package tasks

import "github.com/wskit/wskit/router"

type (
	// Letter is from a client to a user.
	Letter struct {
		To   string `json:"to" validate:"required"`
		Text string `json:"text" validate:"required"`
	}
	// Received is what the devices of the user get.
	Received struct {
		From string `json:"from"`
		Text string `json:"text"`
	}
)

// user sends to a user, on all devices.
func user(r *router.Router) {
	received := router.Declare[Received](r, "letter.received")
	router.On(r, "letter.send", func(c *router.Context, l Letter) error {
		return received.Send(c, r.User("", l.To), Received{c.Identity.User, l.Text})
	})
}
