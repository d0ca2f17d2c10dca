package router_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

func ExampleDeclare() {
	type (
		Say struct {
			Text string `json:"text"`
		}
		Message struct {
			Text string    `json:"text"`
			At   time.Time `json:"at,omitzero"`
		}
	)
	r := router.New()
	message := router.Declare[Message](r, "chat.message", router.EventOptions{Doc: "A message of a user."})
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return message.Send(c, c.Conn(), Message{Text: m.Text})
	})
	router.On(r, "chat.mistake", func(c *router.Context, m Say) error {
		err := c.Send("chat.message", m) // not a Message
		fmt.Println(err != nil)
		return nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.mistake","payload":{"text":"hi"}}`, `{"type":"chat.send","payload":{"text":"hi"}}`)
	c.receive(1)
	// Output:
	// true
	// {"type":"chat.message","payload":{"text":"hi"}}
}

func ExampleEvent() {
	type Price struct {
		Symbol string  `json:"symbol"`
		Price  float64 `json:"price"`
	}
	r := router.New()
	price := router.Declare[Price](r, "price")
	router.RPC(r, "price.follow", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Subscribe("prices")
	})
	router.On(r, "price.set", func(c *router.Context, p Price) error {
		return price.Publish(c, "prices", p) // from a handler
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"price.follow","meta":{"correlationId":"1"}}`, `{"type":"price.set","payload":{"symbol":"A","price":1}}`)
	c.receive(2)
	// From anywhere else.
	if err := price.Publish(context.Background(), "prices", Price{"B", 2}); err != nil {
		fmt.Println(err)
	}
	c.receive(1)
	// Output:
	// {"type":"price.follow.reply","meta":{"correlationId":"1"}}
	// {"type":"price","payload":{"symbol":"A","price":1}}
	// {"type":"price","payload":{"symbol":"B","price":2}}
}

// A package registers its types into what it is handed, a router or a group of it.
func ExampleRegistrar() {
	registerBoard := func(r router.Registrar) { // of package board
		router.RPC(r, "open", func(*router.Context, struct{}) (string, error) { return "opened", nil })
	}
	r := router.New()
	registerBoard(r.Group("board."))

	c := connect(r)
	defer c.close()
	c.send(`{"type":"board.open","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"board.open.reply","meta":{"correlationId":"1"},"payload":"opened"}
}

// Drawing has limits of its own; all else has those of the router.
func ExampleRouter_Group() {
	perUser := func(n int64) ingress.Middleware {
		limiter := limit.New(memory.NewStore(), limit.FixedWindow{Limit: n, Window: 24 * time.Hour})
		return ratelimit.New(limiter, ratelimit.PerUserOrIP)
	}
	r := router.New()
	r.Use(perUser(100))
	board := r.Group("board.", router.RouteOptions{
		Exempt:     true,    // from the 100 a day
		MaxPayload: 1 << 20, // bytes
	})
	board.Use(perUser(1))
	router.On(board, "draw", func(c *router.Context, line []int) error { return c.Send("drawn", len(line)) })

	c := connect(r)
	defer c.close()
	for range 2 {
		c.send(`{"type":"board.draw","payload":[1,2]}`)
		_, frame, _ := c.ws.Read(context.Background())
		kind, _, _ := strings.Cut(string(frame), `"payload"`)
		fmt.Println(kind)
	}
	// Output:
	// {"type":"drawn",
	// {"type":"ERROR",
}

// A limit for one type alone, declared where the type is.
func ExampleRouter_With() {
	searches := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Second})
	r := router.New()
	find := func(*router.Context, string) ([]string, error) { return nil, nil }
	router.RPC(r.With(ratelimit.New(searches, ratelimit.PerUserOrIP)), "search", find, router.RouteOptions{
		Doc:        "Finds messages by their text.",
		MaxPayload: 1 << 10, // bytes
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"search","meta":{"correlationId":"1"},"payload":"go"}`)
	c.receive(1)
	// Output:
	// {"type":"search.reply","meta":{"correlationId":"1"},"payload":[]}
}

// Of positions of a cursor, 200 refusals a second would help no client.
func ExampleRouteOptions_silent() {
	moves := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Minute})
	r := router.New()
	move := func(c *router.Context, x int) error { return c.Send("cursor.moved", x) }
	router.On(r.With(ratelimit.New(moves, ratelimit.PerUserOrIP)), "cursor.move", move, router.RouteOptions{Silent: true})
	router.RPC(r, "cursors", func(*router.Context, struct{}) (int64, error) { return r.Stats().Unanswered, nil })

	c := connect(r)
	defer c.close()
	for x := range 5 {
		c.send(fmt.Sprintf(`{"type":"cursor.move","payload":%d}`, x))
	}
	c.send(`{"type":"cursors","meta":{"correlationId":"1"}}`)
	c.receive(3)
	// Output:
	// {"type":"cursor.moved","payload":0}
	// {"type":"cursor.moved","payload":1}
	// {"type":"cursors.reply","meta":{"correlationId":"1"},"payload":3}
}

func ExampleRouteOptions_strict() {
	type Order struct {
		Symbol string `json:"symbol"`
		Limit  int    `json:"limit,omitempty"`
	}
	r := router.New()
	router.On(r, "order", func(*router.Context, Order) error { return nil }, router.RouteOptions{Strict: true})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"order","payload":{"symbol":"A","limt":3}}`)
	c.receive(1)
	// Output:
	// {"type":"ERROR","payload":{"type":"order","code":"INVALID_ARGUMENT","message":"payload does not decode","retryable":false,"details":{"fields":[{"path":"limt","rule":"unknown"}]}}}
}

func ExampleRouter_Routes() {
	type (
		Join   struct{ Room string }
		Joined struct{ Members int }
	)
	r := router.New()
	rooms := r.Group("room.")
	router.RPC(rooms, "join", func(*router.Context, Join) (Joined, error) { return Joined{}, nil },
		router.RouteOptions{Doc: "Enters a room."})
	router.Declare[string](rooms, "closed", router.EventOptions{Doc: "The room is no more."})
	for _, i := range r.Routes() {
		fmt.Println(i.Type, i.Kind, i.Message, i.Reply, i.Timeout, "#", i.Doc)
	}
	// Output:
	// room.closed declared string <nil> 0s # The room is no more.
	// room.join request router_test.Join router_test.Joined 30s # Enters a room.
}
