package router_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/router"
)

// Pages of the server's own host may connect. Others have to be listed.
func ExampleOptions_origins() {
	r := router.New(router.Options{
		Origins: []string{"https://app.example.com", "localhost:5173"}, // the second is that of a development server
	})
	server := httptest.NewServer(r)
	defer server.Close()
	for _, origin := range []string{"https://app.example.com", "https://evil.example"} {
		c, res, err := websocket.Dial(context.Background(), server.URL, &websocket.DialOptions{
			HTTPHeader: http.Header{"Origin": {origin}},
		})
		if err == nil {
			_ = c.CloseNow()
		}
		fmt.Println(origin, res.StatusCode)
	}
	// Output:
	// https://app.example.com 101
	// https://evil.example 403
}

// A room is a topic: what is published there reaches all that have subscribed.
func ExampleContext_Subscribe() {
	type Room struct {
		Room string `json:"room" validate:"required,max=40"`
	}
	r := router.New()
	router.RPC(r, "room.join", func(c *router.Context, q Room) (struct{}, error) {
		return struct{}{}, c.Subscribe("room:" + q.Room)
	})
	router.RPC(r, "room.leave", func(c *router.Context, q Room) (struct{}, error) {
		c.Unsubscribe("room:" + q.Room)
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":{"room":"lobby"}}`)
	c.receive(1)
	fmt.Println(r.LocalSubscribers("room:lobby"))
	c.send(`{"type":"room.leave","meta":{"correlationId":"2"},"payload":{"room":"lobby"}}`)
	c.receive(1)
	fmt.Println(r.LocalSubscribers("room:lobby"))
	// Output:
	// {"type":"room.join.reply","meta":{"correlationId":"1"}}
	// 1
	// {"type":"room.leave.reply","meta":{"correlationId":"2"}}
	// 0
}

// Any goroutine may send to a connection, and close it.
func ExampleConn_Send() {
	r := router.New()
	router.RPC(r, "export", func(c *router.Context, _ struct{}) (struct{}, error) {
		go func(conn *router.Conn) { // not the Context, which ends with the handler
			if err := conn.Send("export.ready", "https://example.com/export.csv"); err != nil {
				log.Print(err) // the connection has ended
			}
		}(c.Conn())
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"export","meta":{"correlationId":"1"}}`)
	seen := c.next(2) // the reply and the event, in either order
	fmt.Println(strings.Contains(seen, `"export.reply"`), strings.Contains(seen, `"export.ready"`))
	// Output: true true
}

// Servers that share a broker share their topics. Here two routers in one process stand for two servers; servers
// of their own use redis.NewBroker.
func ExampleOptions_broker() {
	broker := memory.NewBroker()
	var servers [2]*router.Router
	for i := range servers {
		servers[i] = router.New(router.Options{Backend: adapters.Backend{Broker: broker}})
		router.RPC(servers[i], "news.follow", func(c *router.Context, _ struct{}) (struct{}, error) {
			return struct{}{}, c.Subscribe("news")
		})
	}
	c := connect(servers[0])
	defer c.close()
	c.send(`{"type":"news.follow","meta":{"correlationId":"1"}}`)
	c.receive(1)
	if err := servers[1].Publish(context.Background(), "news", "news.flash", "It rains."); err != nil {
		fmt.Println(err)
	}
	c.receive(1)
	// Output:
	// {"type":"news.follow.reply","meta":{"correlationId":"1"}}
	// {"type":"news.flash","payload":"It rains."}
}

// One type may be larger than the others.
func ExampleRouteOptions_maxPayload() {
	type Image struct {
		PNG []byte `json:"png"` // base64 in JSON
	}
	r := router.New(router.Options{Limits: router.Limits{MaxPayload: 4 << 10}})
	size := func(_ *router.Context, m Image) (int, error) { return len(m.PNG), nil }
	router.RPC(r, "avatar.set", size)
	router.RPC(r, "board.image", size, router.RouteOptions{MaxPayload: 1 << 20})

	c := connect(r)
	defer c.close()
	large := strings.Repeat("AAAA", 4096)
	for _, typ := range []string{"board.image", "avatar.set"} {
		c.send(`{"type":"` + typ + `","meta":{"correlationId":"1"},"payload":{"png":"` + large + `"}}`)
		c.receive(1)
	}
	// Output:
	// {"type":"board.image.reply","meta":{"correlationId":"1"},"payload":12288}
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"payload too large","retryable":false,"retryAfterMs":null,"details":{"kind":"payload","observed":4097,"limit":4096}}}
}
