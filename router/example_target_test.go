package router_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

func ExampleRouter_User() {
	r := router.New(router.Options{
		Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{User: "ann"}, nil },
	})
	phone, laptop := connect(r), connect(r)
	defer phone.close()
	defer laptop.close()

	ctx := context.Background()
	ann := r.User("", "ann")
	for n := 0; n < 2; {
		n, _ = ann.Count(ctx)
	}
	if err := ann.Send(ctx, "mail.new", "Hello"); err != nil {
		fmt.Println(err)
	}
	phone.receive(1)
	laptop.receive(1)

	list, err := ann.List(ctx)
	fmt.Println(len(list), "connections,", err)
	n, err := ann.Close(ctx, 4001, "signed out")
	fmt.Println(n, "closed,", err)
	// Output:
	// {"type":"mail.new","payload":"Hello"}
	// {"type":"mail.new","payload":"Hello"}
	// 2 connections, <nil>
	// 2 closed, <nil>
}

func ExampleRouter_Revoke() {
	r := router.New(router.Options{
		Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{User: "ann"}, nil },
		OnOpen:       func(c *router.Conn) error { return c.Subscribe(c.Context(), "room:a") },
	})
	ctx := context.Background()
	defer r.Shutdown(ctx)
	ann := connect(r)
	for r.LocalSubscribers("room:a") == 0 {
	}

	fmt.Println(r.Revoke(ctx, router.Right{User: "ann", Topics: "room:*"}))
	_ = r.Publish(ctx, "room:a", "chat.message", "not for ann")
	_ = r.User("", "ann").Send(ctx, "notice", "You were removed from the room.")
	ann.receive(2)
	ann.close()
	// Output:
	// <nil>
	// {"type":"$ws:unsubscribed","payload":{"topic":"room:a","reason":"revoked"}}
	// {"type":"notice","payload":"You were removed from the room."}
}
