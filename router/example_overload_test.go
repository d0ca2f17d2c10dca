package router_test

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/router"
)

// Orders matter more than positions, and users that pay more than others: while the process cannot
// keep up, the positions of cursors of free users are dropped first.
func ExampleOverloadOptions() {
	r := router.New(router.Options{Overload: router.OverloadOptions{
		Enabled: true,
		Tiers:   map[string]int{"paid": 1},
	}})
	type position struct{ X, Y int }
	router.RPC(r, "order.place", func(*router.Context, struct{}) (struct{}, error) {
		return struct{}{}, nil
	}, router.RouteOptions{Priority: 2})
	router.On(r, "cursor", func(*router.Context, position) error {
		return nil
	}, router.RouteOptions{Priority: -2, Silent: true})

	c := connect(r)
	c.send(`{"type":"order.place","meta":{"correlationId":"1"}}`)
	c.receive(1)
	fmt.Println("refusing:", r.Stats().Overload.Refusing)
	c.close()
	_ = r.Shutdown(context.Background())
	// Output:
	// {"type":"order.place.reply","meta":{"correlationId":"1"}}
	// refusing: false
}
