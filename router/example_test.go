package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-playground/validator/v10"

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
func (c *client) receive(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // an example that hangs says where
	defer cancel()
	for range n {
		_, frame, err := c.ws.Read(ctx)
		if ce, ok := errors.AsType[websocket.CloseError](err); ok {
			fmt.Println("closed:", int(ce.Code), ce.Reason)
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(frame))
	}
}

// close ends the connection from the client's side.
func (c *client) close() {
	if c.ws != nil {
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
	}
	c.server.Close()
}

// A small chat: who connects needs a token, each user may send so much, a request
// enters a room, and an event speaks to all who are in it.
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
			user, ok := users[router.Token(req)]
			if !ok {
				return ingress.Identity{}, errors.Unauthenticated.New("unknown token")
			}
			return ingress.Identity{User: user}, nil
		},
	})
	perUser := limit.New(memory.NewStore(memory.Options{}), limit.TokenBucket{
		Capacity: 20, Refill: 5, Per: time.Second, // 20 at once, then 5 a second
	})
	r.Use(ratelimit.New(perUser, ratelimit.Options{Key: ratelimit.PerUser}))

	router.RPC(r, "room.join", func(c *router.Context, q Join) (Joined, error) {
		if err := c.Subscribe("room:" + q.Room); err != nil {
			return Joined{}, err
		}
		return Joined{Members: r.Members("room:" + q.Room)}, nil
	})
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return c.Publish("room:"+m.Room, "chat.message", Message{From: c.UserID(), Text: m.Text})
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
	r := router.New(router.Options{})
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return c.Send("chat.heard", m)
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":{"text":"hi"}}`)
	c.send(`{"type":"chat.send","payload":{"text":""}}`)
	c.receive(2)
	// Output:
	// {"type":"chat.heard","payload":{"text":"hi"}}
	// {"type":"ERROR","payload":{"code":"INVALID_ARGUMENT","message":"payload is not valid","retryable":false,"details":{"fields":[{"path":"text","rule":"required"}]}}}
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
	r := router.New(router.Options{})
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
// is, any other error as INTERNAL, which OnError hears of.
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

func ExampleRouteOptions() {
	type Joined struct {
		Room string `json:"room"`
	}
	r := router.New(router.Options{})
	router.RPC(r, "room.join", func(*router.Context, struct{}) (Joined, error) {
		return Joined{"lobby"}, nil
	}, router.RouteOptions{Reply: "room.joined"})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.join","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"room.joined","meta":{"correlationId":"1"},"payload":{"room":"lobby"}}
}

// A report takes its time; what the same client asks meanwhile is answered.
func ExampleRouteOptions_concurrent() {
	written := make(chan struct{})
	r := router.New(router.Options{})
	router.RPC(r, "report", func(c *router.Context, _ struct{}) (string, error) {
		select {
		case <-written:
			return "done", nil
		case <-c.Done():
			return "", c.Err()
		}
	}, router.RouteOptions{Concurrent: true})
	router.RPC(r, "time", func(*router.Context, struct{}) (string, error) { return "noon", nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"report","meta":{"correlationId":"1"}}`)
	c.send(`{"type":"time","meta":{"correlationId":"2"}}`)
	c.receive(1)
	close(written)
	c.receive(1)
	// Output:
	// {"type":"time.reply","meta":{"correlationId":"2"},"payload":"noon"}
	// {"type":"report.reply","meta":{"correlationId":"1"},"payload":"done"}
}

func ExampleRouteOptions_timeout() {
	r := router.New(router.Options{})
	router.RPC(r, "search", func(c *router.Context, _ struct{}) (string, error) {
		<-c.Done() // a query that takes c gives up when its time is over
		return "", c.Err()
	}, router.RouteOptions{Timeout: 10 * time.Millisecond})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"search","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"DEADLINE_EXCEEDED","message":"deadline exceeded","retryable":true}}
}

func ExampleRouteOptions_use() {
	adminOnly := func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			if c.Identity.Tier != "admin" {
				return errors.PermissionDenied.New("only for admins")
			}
			return next(c)
		}
	}
	r := router.New(router.Options{})
	router.RPC(r, "room.delete", func(*router.Context, struct{}) (string, error) { return "deleted", nil },
		router.RouteOptions{Use: []router.Middleware{adminOnly}})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.delete","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"PERMISSION_DENIED","message":"only for admins","retryable":false}}
}

// What is turned away here has not been decoded.
func ExampleRouter_Use() {
	readOnly := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if !c.Identity.Authenticated() && strings.HasPrefix(c.Type, "chat.") {
				return errors.Unauthenticated.New("log in to write")
			}
			return next(c)
		}
	}
	r := router.New(router.Options{})
	r.Use(readOnly)
	router.On(r, "chat.send", func(*router.Context, string) error { return nil })
	router.RPC(r, "room.list", func(*router.Context, struct{}) ([]string, error) { return []string{"lobby"}, nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":"hi"}`)
	c.send(`{"type":"room.list","meta":{"correlationId":"1"}}`)
	c.receive(2)
	// Output:
	// {"type":"ERROR","payload":{"code":"UNAUTHENTICATED","message":"log in to write","retryable":false}}
	// {"type":"room.list.reply","meta":{"correlationId":"1"},"payload":["lobby"]}
}

func ExampleRouter_UseHandler() {
	type Say struct {
		Text string `json:"text"`
	}
	r := router.New(router.Options{})
	r.UseHandler(func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			if m, ok := c.Message().(*Say); ok {
				m.Text = strings.TrimSpace(m.Text)
			}
			err := next(c)
			fmt.Println(c.Type(), "returned", err)
			return err
		}
	})
	router.RPC(r, "chat.send", func(_ *router.Context, m Say) (Say, error) { return m, nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","meta":{"correlationId":"1"},"payload":{"text":"  hi "}}`)
	c.receive(1)
	// Output:
	// chat.send returned <nil>
	// {"type":"chat.send.reply","meta":{"correlationId":"1"},"payload":{"text":"hi"}}
}

func ExampleOptions_authenticate() {
	users := map[string]string{"3c59dc04": "ann"}
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			user, ok := users[router.Token(req)]
			if !ok {
				return ingress.Identity{}, errors.Unauthenticated.New("unknown token")
			}
			return ingress.Identity{User: user}, nil
		},
	})
	router.RPC(r, "whoami", func(c *router.Context, _ struct{}) (string, error) { return c.UserID(), nil })

	ann := connect(r, "3c59dc04")
	defer ann.close()
	ann.send(`{"type":"whoami","meta":{"correlationId":"1"}}`)
	ann.receive(1)

	eve := connect(r, "guessed")
	defer eve.close()
	// Output:
	// {"type":"whoami.reply","meta":{"correlationId":"1"},"payload":"ann"}
	// refused: 401 Unauthorized
}

func ExampleToken() {
	// new WebSocket("wss://example.com/ws", ["chat", "bearer.3c59dc04"])
	page, _ := http.NewRequest(http.MethodGet, "/ws", nil)
	page.Header.Set("Sec-WebSocket-Protocol", "chat, bearer.3c59dc04")
	fmt.Println(router.Token(page))

	link, _ := http.NewRequest(http.MethodGet, "/ws?access_token=3c59dc04", nil)
	fmt.Println(router.Token(link))

	program, _ := http.NewRequest(http.MethodGet, "/ws", nil)
	program.Header.Set("Authorization", "Bearer 3c59dc04")
	fmt.Println(router.Token(program))
	// Output:
	// 3c59dc04
	// 3c59dc04
	// 3c59dc04
}

func ExampleOptions_onOpen() {
	r := router.New(router.Options{
		OnOpen: func(c *router.Conn) error {
			return errors.Join(
				c.Subscribe(c.Context(), "news"),
				c.Send("welcome", nil),
			)
		},
		OnClose: func(c *router.Conn, why router.CloseInfo) {
			fmt.Println("ended with", why.Code, "by the server:", why.ByServer)
		},
	})

	c := connect(r)
	c.receive(1)
	c.close()
	_ = r.Shutdown(context.Background()) // waits for OnClose
	// Output:
	// {"type":"welcome"}
	// ended with 1000 by the server: false
}

func ExampleOptions_onLimitExceeded() {
	told := make(chan router.LimitInfo)
	r := router.New(router.Options{
		OnLimitExceeded: func(_ context.Context, info router.LimitInfo) { told <- info },
	})
	slowly := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	r.Use(ratelimit.New(limit.New(memory.NewStore(memory.Options{}), slowly)))
	router.On(r, "chat.send", func(*router.Context, string) error { return nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":"once"}`)
	c.send(`{"type":"chat.send","payload":"twice"}`)
	info := <-told
	fmt.Println(info.Kind, info.Type, info.IP, info.Conn.ID() != "")
	// Output:
	// rate chat.send 127.0.0.1 true
}

// A frame that runs into a limit ends the connection.
func ExampleLimits() {
	r := router.New(router.Options{
		Limits: router.Limits{MaxPayload: 1 << 10, OnExceeded: router.Close},
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":"` + strings.Repeat("x", 1<<10) + `"}`)
	c.receive(1)
	// Output:
	// closed: 1009 {"retryAfterMs":null}
}

// A rejection may end the connection, whatever Limits.OnExceeded says.
func ExampleRouter_Use_closing() {
	r := router.New(router.Options{})
	r.Use(func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if c.Identity.Tier == "" {
				return c.Reject(errors.LimitExceeded{
					Kind: errors.LimitBanned, RetryAfter: time.Minute, Close: errors.CloseTooManyRequests,
				})
			}
			return next(c)
		}
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send"}`)
	c.receive(1)
	// Output:
	// closed: 4429 {"retryAfterMs":60000}
}

func ExampleContext_Publish() {
	type Position struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	r := router.New(router.Options{})
	router.RPC(r, "map.open", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Subscribe("map")
	})
	router.On(r, "map.move", func(c *router.Context, p Position) error {
		return c.Publish("map", "map.moved", p, router.PublishOptions{
			Overflow:   router.LatestOnly, // who reads slowly needs no older position
			ExceptSelf: true,
		})
	})

	ann, bob := connect(r), connect(r)
	defer ann.close()
	defer bob.close()
	for _, c := range []*client{ann, bob} {
		c.send(`{"type":"map.open","meta":{"correlationId":"1"}}`)
		c.receive(1)
	}
	ann.send(`{"type":"map.move","payload":{"x":3,"y":4}}`)
	bob.receive(1)
	// Output:
	// {"type":"map.open.reply","meta":{"correlationId":"1"}}
	// {"type":"map.open.reply","meta":{"correlationId":"1"}}
	// {"type":"map.moved","payload":{"x":3,"y":4}}
}

// Whatever else the program does, it can publish, too.
func ExampleRouter_Publish() {
	r := router.New(router.Options{})
	router.RPC(r, "news.follow", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Subscribe("news")
	})
	c := connect(r)
	defer c.close()
	c.send(`{"type":"news.follow","meta":{"correlationId":"1"}}`)
	c.receive(1)

	if err := r.Publish(context.Background(), "news", "news.flash", "It rains."); err != nil {
		fmt.Println(err)
	}
	c.receive(1)
	// Output:
	// {"type":"news.follow.reply","meta":{"correlationId":"1"}}
	// {"type":"news.flash","payload":"It rains."}
}

func ExampleContext_Progress() {
	type Percent struct {
		Done int `json:"done"`
	}
	r := router.New(router.Options{})
	router.RPC(r, "import", func(c *router.Context, _ struct{}) (string, error) {
		for _, done := range []int{50, 100} {
			if err := c.Progress(Percent{done}); err != nil {
				return "", err
			}
		}
		return "imported", nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"import","meta":{"correlationId":"1"}}`)
	c.receive(3)
	// Output:
	// {"type":"$ws:rpc-progress","meta":{"correlationId":"1"},"data":{"done":50},"payload":{"done":50}}
	// {"type":"$ws:rpc-progress","meta":{"correlationId":"1"},"data":{"done":100},"payload":{"done":100}}
	// {"type":"import.reply","meta":{"correlationId":"1"},"payload":"imported"}
}

// A Context is the handler's; a goroutine that goes on keeps the Conn.
func ExampleContext_Conn() {
	r := router.New(router.Options{})
	router.RPC(r, "timer.start", func(c *router.Context, _ struct{}) (struct{}, error) {
		conn := c.Conn()
		go func() {
			select {
			case <-time.After(10 * time.Millisecond):
				_ = conn.Send("timer.rang", nil) // fails if the client has gone
			case <-conn.Context().Done():
			}
		}()
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"timer.start","meta":{"correlationId":"1"}}`)
	c.receive(2)
	// Output:
	// {"type":"timer.start.reply","meta":{"correlationId":"1"}}
	// {"type":"timer.rang"}
}

// A registry of connections: the value of a key is found through the Conn as
// through the Context.
func ExampleConn() {
	nickname := ingress.NewKey[string]("nickname") // in a package variable

	var mu sync.Mutex
	online := make(map[*router.Conn]bool)
	r := router.New(router.Options{
		OnOpen: func(c *router.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			online[c] = true
			return nil
		},
		OnClose: func(c *router.Conn, _ router.CloseInfo) {
			mu.Lock()
			defer mu.Unlock()
			delete(online, c)
		},
	})
	router.RPC(r, "nickname.set", func(c *router.Context, name string) (struct{}, error) {
		nickname.Set(c, name)
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"nickname.set","meta":{"correlationId":"1"},"payload":"Ann of Avonlea"}`)
	c.receive(1)

	mu.Lock()
	defer mu.Unlock()
	for conn := range online {
		name, _ := nickname.Get(conn)
		_ = conn.Send("hello", name)
	}
	c.receive(1)
	// Output:
	// {"type":"nickname.set.reply","meta":{"correlationId":"1"}}
	// {"type":"hello","payload":"Ann of Avonlea"}
}

// The client takes its request back, and the query that was made for it ends.
func ExampleContext() {
	ended := make(chan error)
	query := func(ctx context.Context) error { // a database
		<-ctx.Done()
		return ctx.Err()
	}
	r := router.New(router.Options{})
	router.RPC(r, "search", func(c *router.Context, _ struct{}) (string, error) {
		err := query(c)
		ended <- err
		return "", err
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"search","meta":{"correlationId":"02b7"}}`)
	c.send(`{"type":"$ws:abort","meta":{"correlationId":"02b7"}}`)
	c.receive(1)
	fmt.Println("the query:", <-ended)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"02b7"},"payload":{"code":"CANCELLED","message":"aborted by the client","retryable":false}}
	// the query: context canceled
}

// Before the process ends, clients are told to come back, to another server
// behind the same name.
func ExampleRouter_Shutdown() {
	r := router.New(router.Options{DrainWindow: -1}) // all at once
	c := connect(r)
	defer c.close()

	drained := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		drained <- r.Shutdown(ctx) // and after it, that of the http.Server
	}()
	c.receive(1)
	fmt.Println(<-drained)
	// Output:
	// closed: 1001 {"retryAfterMs":0}
	// <nil>
}

func ExampleRouter_Stats() {
	r := router.New(router.Options{Limits: router.Limits{MaxPayload: 128}})
	c := connect(r)
	defer c.close()
	c.send(`{"type":"` + strings.Repeat("x", 200) + `"}`)
	c.receive(1)

	stats := r.Stats()
	fmt.Println(stats.Connections, "open,", stats.Rejected, "rejected")
	// Output:
	// {"type":"ERROR","payload":{"code":"RESOURCE_EXHAUSTED","message":"payload too large","retryable":false,"retryAfterMs":null,"details":{"kind":"payload","observed":211,"limit":128}}}
	// 1 open, 1 rejected
}

func ExampleRegisterValidation() {
	slug := regexp.MustCompile(`^[a-z0-9-]+$`)
	err := router.RegisterValidation("slug", func(f validator.FieldLevel) bool {
		return slug.MatchString(f.Field().String())
	})
	if err != nil {
		panic(err)
	}

	type Join struct {
		Room string `json:"room" validate:"slug"`
	}
	r := router.New(router.Options{})
	router.On(r, "room.join", func(*router.Context, Join) error { return nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.join","payload":{"room":"The Lobby"}}`)
	c.receive(1)
	// Output:
	// {"type":"ERROR","payload":{"code":"INVALID_ARGUMENT","message":"payload is not valid","retryable":false,"details":{"fields":[{"path":"room","rule":"slug"}]}}}
}

// A client in Go reads which fields were at fault.
func ExampleFieldError() {
	details := `{"fields":[{"path":"text","rule":"max","param":"500"}]}`
	var fault struct {
		Fields []router.FieldError `json:"fields"`
	}
	if err := json.Unmarshal([]byte(details), &fault); err != nil {
		panic(err)
	}
	for _, f := range fault.Fields {
		fmt.Println(f.Path, f.Rule, f.Param)
	}
	// Output: text max 500
}
