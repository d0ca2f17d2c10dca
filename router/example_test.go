package router_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// client is the other end of a connection, as a page has it.
type client struct {
	ws     *websocket.Conn
	server *httptest.Server
}

// connect serves r on this machine and opens a connection to it. A token is sent
// as pages send theirs.
func connect(r *router.Router, token ...string) *client {
	server := httptest.NewServer(r)
	opts := &websocket.DialOptions{}
	for _, t := range token {
		opts.Subprotocols = []string{"chat", "bearer." + t}
	}
	ws, res, err := websocket.Dial(context.Background(), server.URL, opts)
	switch {
	case err != nil && res != nil:
		fmt.Println("refused:", res.Status)
	case err != nil:
		fmt.Println(err)
	}
	return &client{ws, server}
}

// send sends frames.
func (c *client) send(frames ...string) {
	for _, f := range frames {
		if err := c.ws.Write(context.Background(), websocket.MessageText, []byte(f)); err != nil {
			fmt.Println("send:", err)
		}
	}
}

// receive prints the next n frames, or how the server closes the connection.
func (c *client) receive(n int) { fmt.Print(c.next(n)) }

// next returns what receive prints.
func (c *client) next(n int) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // an example that hangs says where
	defer cancel()
	var text strings.Builder
	for range n {
		_, frame, err := c.ws.Read(ctx)
		if ce, ok := errors.AsType[websocket.CloseError](err); ok {
			fmt.Fprintln(&text, "closed:", int(ce.Code), ce.Reason)
			break
		}
		if err != nil {
			fmt.Fprintln(&text, err)
			break
		}
		fmt.Fprintln(&text, random.ReplaceAllString(string(frame), `"$1":"…"`))
	}
	return text.String()
}

// random is what differs from run to run.
var random = regexp.MustCompile(`"(pos|ticket|head)":"[^"]*"`)

// close ends the connection from the client's side.
func (c *client) close() {
	if c.ws != nil {
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
	}
	c.server.Close()
}

// A small chat: a connection needs a token, each user has a rate limit, a request
// joins a room, and an event sends a message to all its members.
func Example() {
	type (
		Join struct {
			Room string `json:"room" validate:"required,max=40"`
		}
		Joined struct {
			Members int `json:"members"`
		}
		Say struct {
			Room string `json:"room" validate:"required,max=40"`
			Text string `json:"text" validate:"required,max=500"`
		}
		Message struct {
			From string `json:"from"`
			Text string `json:"text"`
		}
	)
	users := map[string]string{"3c59dc04": "ann", "b6d767d2": "bob"}

	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			user, ok := users[ingress.Token(req)]
			if !ok {
				return ingress.Identity{}, errors.Unauthenticated.New("unknown token")
			}
			return ingress.Identity{User: user}, nil
		},
	})
	perUser := limit.New(memory.NewStore(), limit.TokenBucket{
		Capacity: 20, Refill: 5, Per: time.Second, // 20 at once, then 5 a second
	})
	r.Use(ratelimit.New(perUser, ratelimit.PerUser))

	router.RPC(r, "room.join", func(c *router.Context, q Join) (Joined, error) {
		if err := c.Subscribe("room:" + q.Room); err != nil {
			return Joined{}, err
		}
		return Joined{Members: r.LocalSubscribers("room:" + q.Room)}, nil
	})
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return c.Publish("room:"+m.Room, "chat.message", Message{From: c.Identity.User, Text: m.Text})
	})
	// http.Handle("/ws", r)

	ann, bob := connect(r, "3c59dc04"), connect(r, "b6d767d2")
	defer ann.close()
	defer bob.close()
	for _, c := range []*client{ann, bob} {
		c.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":{"room":"lobby"}}`)
		c.receive(1)
	}
	ann.send(`{"type":"chat.send","payload":{"room":"lobby","text":"hi"}}`)
	bob.receive(1)
	// Output:
	// {"type":"room.join.reply","meta":{"correlationId":"1"},"payload":{"members":1}}
	// {"type":"room.join.reply","meta":{"correlationId":"1"},"payload":{"members":2}}
	// {"type":"chat.message","payload":{"from":"ann","text":"hi"}}
}

func ExampleOn() {
	type Say struct {
		Text string `json:"text" validate:"required,max=500"`
	}
	r := router.New()
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return c.Send("chat.heard", m)
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":{"text":"hi"}}`)
	c.receive(1)
	c.send(`{"type":"chat.send","payload":{"text":""}}`)
	c.receive(1)
	// Output:
	// {"type":"chat.heard","payload":{"text":"hi"}}
	// {"type":"ERROR","payload":{"type":"chat.send","code":"INVALID_ARGUMENT","message":"payload is not valid: text does not pass required","retryable":false,"details":{"fields":[{"path":"text","rule":"required"}]}}}
}

func ExampleRPC() {
	type (
		Sum struct {
			A int `json:"a"`
			B int `json:"b"`
		}
		Total struct {
			Total int `json:"total"`
		}
	)
	r := router.New()
	router.RPC(r, "sum", func(c *router.Context, q Sum) (Total, error) {
		return Total{q.A + q.B}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"sum","meta":{"correlationId":"02b7"},"payload":{"a":1,"b":2}}`)
	c.receive(1)
	// Output:
	// {"type":"sum.reply","meta":{"correlationId":"02b7"},"payload":{"total":3}}
}

// What a handler returns decides what the client sees: an error with a code as it
// is, any other error as INTERNAL, which OnError gets.
func ExampleRPC_errors() {
	type Join struct {
		Room string `json:"room"`
	}
	r := router.New(router.Options{
		OnError: func(f router.Fault) { fmt.Printf("%s failed: %v\n", f.Type, f.Err) },
	})
	router.RPC(r, "room.join", func(c *router.Context, q Join) (struct{}, error) {
		switch q.Room {
		case "full":
			return struct{}{}, errors.ResourceExhausted.New("the room is full").
				WithRetryAfter(2 * time.Second).WithDetails(map[string]int{"members": 50})
		case "broken":
			return struct{}{}, errors.New("table rooms: disk is full")
		}
		return struct{}{}, errors.NotFound.Errorf("no room %q", q.Room)
	})

	c := connect(r)
	defer c.close()
	for _, room := range []string{"attic", "full", "broken"} {
		c.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":{"room":"` + room + `"}}`)
		c.receive(1)
	}
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"NOT_FOUND","message":"no room \"attic\"","retryable":false}}
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"the room is full","retryable":true,"retryAfterMs":2000,"details":{"members":50}}}
	// room.join failed: table rooms: disk is full
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"INTERNAL","message":"internal error","retryable":false}}
}
