package router_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

func ExampleOptions_authenticate() {
	users := map[string]string{"3c59dc04": "ann"}
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			user, ok := users[ingress.Token(req)]
			if !ok {
				return ingress.Identity{}, errors.Unauthenticated.New("unknown token")
			}
			return ingress.Identity{User: user}, nil
		},
	})
	router.RPC(r, "whoami", func(c *router.Context, _ struct{}) (string, error) { return c.Identity.User, nil })

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

// A client renews its identity over the open connection. The new token has another role.
func ExampleOptions_renew() {
	tokens := map[string]ingress.Identity{
		"3c59dc04": {User: "ann", ExpiresAt: time.Now().Add(time.Hour)},
		"b6d767d2": {User: "ann", Roles: []string{"admin"}, ExpiresAt: time.UnixMilli(4102444800000)},
		"37693cfc": {User: "bob", Roles: []string{"admin"}},
	}
	verify := func(token string) (ingress.Identity, error) {
		id, ok := tokens[token]
		if !ok {
			return id, errors.Unauthenticated.New("unknown token")
		}
		return id, nil
	}
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) { return verify(ingress.Token(req)) },
		Renew: func(_ context.Context, _ *router.Conn, token string) (ingress.Identity, error) {
			return verify(token)
		},
	})
	router.RPC(r, "roles", func(c *router.Context, _ struct{}) ([]string, error) { return c.Identity.Roles, nil })

	c := connect(r, "3c59dc04")
	defer c.close()
	for _, frame := range []string{
		`{"type":"$ws:renew","meta":{"correlationId":"1"},"payload":{"token":"37693cfc"}}`,
		`{"type":"$ws:renew","meta":{"correlationId":"2"},"payload":{"token":"b6d767d2"}}`,
		`{"type":"roles","meta":{"correlationId":"3"}}`,
	} {
		c.send(frame)
		c.receive(1)
	}
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"PERMISSION_DENIED","message":"a renewal cannot change the user; open another connection","retryable":false}}
	// {"type":"$ws:renewed","meta":{"correlationId":"2"},"payload":{"expiresAt":4102444800000}}
	// {"type":"roles.reply","meta":{"correlationId":"3"},"payload":["admin"]}
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
	reported := make(chan router.LimitInfo)
	r := router.New(router.Options{
		OnLimitExceeded: func(info router.LimitInfo) { reported <- info },
	})
	slowly := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	r.Use(ratelimit.New(limit.New(memory.NewStore(), slowly), ratelimit.PerUserOrIP))
	router.On(r, "chat.send", func(*router.Context, string) error { return nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":"once"}`)
	c.send(`{"type":"chat.send","payload":"twice"}`)
	info := <-reported
	fmt.Println(info.Kind, info.Type, info.IP, info.Conn.ID() != "")
	// Output:
	// rate chat.send 127.0.0.1 true
}

// A frame that runs into a limit ends the connection.
func ExampleLimits() {
	r := router.New(router.Options{
		Limits: router.Limits{MaxPayload: 1 << 10, OnExceeded: router.OnExceededClose},
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":"` + strings.Repeat("x", 1<<10) + `"}`)
	c.receive(1)
	// Output:
	// closed: 1009 {"retryAfterMs":null}
}

// A Context is the handler's; a goroutine that goes on keeps the Conn.
func ExampleContext_Conn() {
	baked := make(chan struct{})
	r := router.New()
	router.RPC(r, "bread.order", func(c *router.Context, _ struct{}) (struct{}, error) {
		conn := c.Conn()
		go func() {
			select {
			case <-baked:
				_ = conn.Send("bread.ready", nil) // fails if the client has gone
			case <-conn.Context().Done():
			}
		}()
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"bread.order","meta":{"correlationId":"1"}}`)
	c.receive(1)
	close(baked)
	c.receive(1)
	// Output:
	// {"type":"bread.order.reply","meta":{"correlationId":"1"}}
	// {"type":"bread.ready"}
}

// A registry of connections: the value of a key is found through the Conn as
// through the Context.
func ExampleConn() {
	nickname := ingress.NewKey[string]() // in a package variable

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
		nickname.Set(c.Identity, name)
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"nickname.set","meta":{"correlationId":"1"},"payload":"Ann of Avonlea"}`)
	c.receive(1)

	mu.Lock()
	defer mu.Unlock()
	for conn := range online {
		name, _ := nickname.Get(conn.Identity())
		_ = conn.Send("hello", name)
	}
	c.receive(1)
	// Output:
	// {"type":"nickname.set.reply","meta":{"correlationId":"1"}}
	// {"type":"hello","payload":"Ann of Avonlea"}
}

// Before the process ends, clients are asked to reconnect, to another server
// behind the same name.
func ExampleRouter_Shutdown() {
	r := router.New(router.Options{Liveness: router.Liveness{DrainWindow: -1}}) // all at once
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
	// {"type":"ERROR","payload":{"code":"RESOURCE_EXHAUSTED","message":"payload too large","retryable":false,"retryAfterMs":null,"details":{"kind":"payload","observed":129,"limit":128}}}
	// 1 open, 1 rejected
}
