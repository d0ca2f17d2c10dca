package router_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// A library that counts open connections has hooks of its own beside those of the application.
func ExampleRouter_AddHooks() {
	r := router.New(router.Options{
		OnClose: func(*router.Conn, router.CloseInfo) { fmt.Println("the application: closed") },
	})
	var open atomic.Int64
	r.AddHooks(router.Hooks{
		OnOpen: func(*router.Conn) error {
			fmt.Println("the library:", open.Add(1), "open")
			return nil
		},
		OnClose: func(*router.Conn, router.CloseInfo) { fmt.Println("the library:", open.Add(-1), "open") },
	})

	connect(r).close()
	_ = r.Shutdown(context.Background()) // waits for OnClose
	// Output:
	// the library: 1 open
	// the library: 0 open
	// the application: closed
}

// When a connection has ended, it is in no topic any more. OnClose gets those that it was in.
func ExampleCloseInfo() {
	r := router.New(router.Options{
		OnClose: func(c *router.Conn, info router.CloseInfo) {
			fmt.Println(info.Code == errors.CloseNormal, info.Topics, len(c.Topics()))
		},
	})
	router.RPC(r, "room.join", func(c *router.Context, room string) (struct{}, error) {
		return struct{}{}, c.Subscribe("room:" + room)
	})

	c := connect(r)
	c.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":"lobby"}`)
	c.receive(1)
	c.close()
	_ = r.Shutdown(context.Background())
	// Output:
	// {"type":"room.join.reply","meta":{"correlationId":"1"}}
	// true [room:lobby] 0
}

// Refusals, counted by their kind for a metric.
func ExampleOptions_onRefused() {
	refused := make(chan router.Refused, 10)
	r := router.New(router.Options{OnRefused: func(i router.Refused) { refused <- i }})
	type Say struct {
		Text string `json:"text" validate:"required"`
	}
	router.On(r, "chat.send", func(*router.Context, Say) error { return nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":{"text":""}}`, `{"type":"chat.sned"}`, `hello`)
	for range 3 {
		i := <-refused
		fmt.Println(i.Kind, i.Type, i.Code)
	}
	// Output:
	// payload chat.send INVALID_ARGUMENT
	// type  UNIMPLEMENTED
	// envelope  INVALID_ARGUMENT
}

// A library passes what belongs to a message on to where it is delivered, also in another process:
// observe/otel does so with traces.
func ExampleHooks_publishMeta() {
	type traceKey struct{}
	r := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker()}})
	delivered := make(chan string, 1)
	r.AddHooks(router.Hooks{
		PublishMeta: func(ctx context.Context) router.Meta {
			if trace, ok := ctx.Value(traceKey{}).(string); ok {
				return router.Meta{"trace": trace}
			}
			return nil
		},
		OnDelivered: func(d router.Delivery) {
			var trace string
			_, _ = d.Meta("trace", &trace)
			delivered <- fmt.Sprint(d.Type(), " to ", d.Members, " member of ", d.Topic, ", trace ", trace)
		},
	})
	router.RPC(r, "join", func(c *router.Context, _ struct{}) (struct{}, error) { return struct{}{}, c.Subscribe("news") })
	c := connect(r)
	defer c.close()
	c.send(`{"type":"join","meta":{"correlationId":"1"}}`)
	c.receive(1)

	ctx := context.WithValue(context.Background(), traceKey{}, "4bf92f35")
	if err := r.Publish(ctx, "news", "headline", "rain"); err != nil {
		fmt.Println(err)
	}
	c.receive(1)
	fmt.Println(<-delivered)
	// Output:
	// {"type":"join.reply","meta":{"correlationId":"1"}}
	// {"meta":{"trace":"4bf92f35"},"type":"headline","payload":"rain"}
	// headline to 1 member of news, trace 4bf92f35
}
