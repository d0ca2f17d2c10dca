package client_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

type (
	Join struct {
		Room string `json:"room" validate:"required"`
	}
	Joined struct {
		Members int `json:"members"`
	}
	Say struct {
		Room string `json:"room"`
		Text string `json:"text"`
	}
)

// exampleServer serves a small chat and returns its URL.
func exampleServer() (url string, stop func()) {
	r := router.New(router.Options{
		Authenticate: func(r *http.Request) (ingress.Identity, error) { return ingress.Identity{User: ingress.Token(r)}, nil },
		Backend:      adapters.Backend{Broker: memory.NewBroker(), Idempotency: memory.NewIdempotency()},
	})
	r.History("room:*")
	leave := router.DeclareQuestion[string, bool](r, "really.leave")
	router.RPC(r, "room.join", func(c *router.Context, q Join) (Joined, error) {
		err := c.Subscribe("room:" + q.Room)
		return Joined{r.LocalSubscribers("room:" + q.Room)}, err
	})
	router.RPC(r, "room.leave", func(c *router.Context, q Join) (bool, error) {
		return leave.Ask(c, c.Conn(), "Leave "+q.Room+"?")
	})
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return c.Publish("room:"+m.Room, "chat.message", m)
	})
	router.RPC(r, "order.place", func(_ *router.Context, item string) (string, error) {
		return item + " is ordered", nil
	})
	router.RPC(r, "report.get", func(c *router.Context, _ struct{}) (string, error) {
		for percent := 50; percent <= 100; percent += 50 {
			if err := c.Progress(percent); err != nil {
				return "", err
			}
		}
		return "the report", nil
	})
	s := httptest.NewServer(r)
	return "ws" + strings.TrimPrefix(s.URL, "http"), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = r.Shutdown(ctx)
		s.Close()
	}
}

func Example() {
	url, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.Dial(ctx, url, client.Options{
		Token: func(context.Context) (string, error) { return "ann", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	said := make(chan Say)
	client.On(c, "chat.message", func(_ context.Context, m Say, _ client.Meta) { said <- m })
	joined, err := client.Request[Joined](ctx, c, "room.join", Join{Room: "lobby"})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Send(ctx, c, "chat.send", Say{Room: "lobby", Text: "hi"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(joined.Members, "member:", (<-said).Text)
	// Output: 1 member: hi
}

// example is a client of the example's server.
func example(o client.Options) (context.Context, *client.Client, func()) {
	url, stop := exampleServer()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	if o.Token == nil {
		o.Token = func(context.Context) (string, error) { return "ann", nil }
	}
	c, err := client.Dial(ctx, url, o)
	if err != nil {
		log.Fatal(err)
	}
	return ctx, c, func() { _ = c.Close(ctx); cancel(); stop() }
}

// A refused request has the code of the server. An outcome may be unknown.
func ExampleRequest() {
	ctx, c, end := example(client.Options{})
	defer end()
	_, err := client.Request[Joined](ctx, c, "room.join", Join{})
	switch refused, ok := errors.AsType[*errors.Error](err); {
	case errors.Is(err, client.ErrUnknownOutcome):
		fmt.Println("the server may have handled it")
	case ok:
		fmt.Println(refused.Code, "try again:", refused.Retryable())
	}
	// Output: INVALID_ARGUMENT try again: false
}

// A request with a key is sent again when its connection breaks, and is handled once.
func ExampleMessageOptions() {
	ctx, c, end := example(client.Options{})
	defer end()
	o := client.MessageOptions{IdempotencyKey: rand.Text(), WaitOnLimit: true}
	reply, err := client.Request[string](ctx, c, "order.place", "tea", o)
	fmt.Println(reply, err)
	// Output: tea is ordered <nil>
}

func ExampleFollow() {
	ctx, c, end := example(client.Options{})
	defer end()
	call := client.Follow[int, string](ctx, c, "report.get", nil)
	for percent, err := range call.Progress() {
		fmt.Println(percent, err)
	}
	fmt.Println(call.Reply())
	// Output:
	// 50 <nil>
	// 100 <nil>
	// the report <nil>
}

func ExampleAnswer() {
	ctx, c, end := example(client.Options{})
	defer end()
	client.Answer(c, "really.leave", func(_ context.Context, text string) (bool, error) {
		fmt.Println(text)
		return true, nil
	})
	left, err := client.Request[bool](ctx, c, "room.leave", Join{Room: "lobby"})
	fmt.Println(left, err)
	// Output:
	// Leave lobby?
	// true <nil>
}

// The handlers of Setup miss nothing. OnGap says where events of a topic may be missing.
func ExampleOptions_setup() {
	said := make(chan string, 1)
	ctx, c, end := example(client.Options{
		Setup: func(c *client.Client) {
			client.On(c, "chat.message", func(_ context.Context, m Say, meta client.Meta) {
				said <- m.Text + " in " + meta.Topic
			})
		},
		OnGap: func(g client.Gap) { fmt.Println(g.Topic, "is incomplete:", g.Reason) },
	})
	defer end()
	if _, err := client.Request[Joined](ctx, c, "room.join", Join{Room: "lobby"}); err != nil {
		log.Fatal(err)
	}
	if err := client.Send(ctx, c, "chat.send", Say{Room: "lobby", Text: "hi"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-said)
	c.Forget("room:lobby") // it is not resumed after a reconnect
	// Output: hi in room:lobby
}

func ExampleClient_Wait() {
	ctx, c, end := example(client.Options{})
	defer end()
	connected, err := c.Wait(ctx, func(s client.State) bool { return s.Phase == client.Connected })
	fmt.Println(connected.Phase, connected.Connections, err)

	_ = c.Close(ctx)
	_, err = client.Request[string](ctx, c, "order.place", "tea")
	fmt.Println(c.State().Phase, errors.Is(err, client.ErrClosed))
	// Output:
	// connected 1 <nil>
	// closed true
}

// A server that refuses for good ends the client.
func ExampleCloseError() {
	s := httptest.NewServer(router.New(router.Options{
		OnOpen: func(*router.Conn) error { return errors.PermissionDenied.New("members only") },
	}))
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"))
	if err == nil {
		var end client.State
		if end, err = c.Wait(ctx, func(s client.State) bool { return s.Phase == client.Closed }); err == nil {
			err = end.Err
		}
	}
	if closed, ok := errors.AsType[*client.CloseError](err); ok {
		fmt.Println(closed.Code, errors.From(err).Message)
	}
	// Output: 1008 members only
}
