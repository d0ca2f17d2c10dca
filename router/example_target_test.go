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
