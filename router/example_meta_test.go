package router_test

import (
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// A client says in which version of the application it was written. Middleware reads that before
// the payload is decoded, and the reply and an event have members of their own, too.
func ExampleMeta() {
	r := router.New()
	r.Use(func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			var version int
			if _, err := c.Meta("version", &version); err != nil {
				return err
			}
			if version < 3 {
				return errors.FailedPrecondition.New("reload the page")
			}
			return next(c)
		}
	})
	router.RPC(r, "echo", func(c *router.Context, text string) (string, error) {
		var trace string
		if _, err := c.Meta("trace", &trace); err != nil {
			return "", err
		}
		return text, errors.Join(
			c.Send("echoing", nil, router.SendOptions{Meta: router.Meta{"trace": trace}}),
			c.SetReplyMeta("trace", trace),
		)
	})

	c := connect(r)
	defer c.close()
	c.send(
		`{"type":"echo","meta":{"correlationId":"1","version":2},"payload":"a"}`,
		`{"type":"echo","meta":{"correlationId":"2","version":3,"trace":"4bf9"},"payload":"b"}`,
	)
	c.receive(3)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"FAILED_PRECONDITION","message":"reload the page","retryable":false}}
	// {"meta":{"trace":"4bf9"},"type":"echoing"}
	// {"type":"echo.reply","meta":{"correlationId":"2","trace":"4bf9"},"payload":"b"}
}
