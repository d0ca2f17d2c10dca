package router_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/wskit/wskit/router"
)

type (
	hostKey  struct{}
	orderKey struct{}
)

// Values from the handshake, values that middleware sets for one message, and work that goes on
// after the handler has returned.
func ExampleContext_Detach() {
	written := make(chan string)
	audit := func(ctx context.Context) {
		written <- fmt.Sprintf("order %v, known host: %v", ctx.Value(orderKey{}), ctx.Value(hostKey{}) != nil)
	}

	r := router.New(router.Options{
		Handshake: router.Handshake{ConnContext: func(req *http.Request) context.Context {
			return context.WithValue(context.Background(), hostKey{}, req.Host)
		}},
	})
	r.UseHandler(func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			c.SetValues(context.WithValue(c.Detach(), orderKey{}, c.CorrelationID()))
			return next(c)
		}
	})
	router.RPC(r, "order.place", func(c *router.Context, _ struct{}) (struct{}, error) {
		go audit(context.WithoutCancel(c.Detach())) // not cancelled when the connection ends
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"order.place","meta":{"correlationId":"17"}}`)
	c.receive(1)
	fmt.Println(<-written)
	// Output:
	// {"type":"order.place.reply","meta":{"correlationId":"17"}}
	// order 17, known host: true
}
