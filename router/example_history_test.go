package router_test

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/router"
)

func ExampleRouter_History() {
	r := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker()}})
	r.History("room:*", router.HistoryOptions{Messages: 500, Age: 24 * time.Hour})
	router.RPC(r, "room.join", func(c *router.Context, room string) (struct{}, error) {
		return struct{}{}, c.Subscribe("room:" + room)
	})
	router.On(r, "room.say", func(c *router.Context, text string) error {
		return c.Publish("room:a", "room.said", text)
	})

	ann := connect(r)
	defer ann.close()
	ann.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":"a"}`)
	ann.receive(2)
	ann.send(`{"type":"room.say","payload":"hi"}`)
	ann.receive(1)
	// Output:
	// {"type":"$ws:subscribed","payload":{"topic":"room:a","pos":"…","ticket":"…"}}
	// {"type":"room.join.reply","meta":{"correlationId":"1"}}
	// {"meta":{"topic":"room:a","pos":"…"},"type":"room.said","payload":"hi"}
}

// A client that comes late reads the last messages, and then all that come.
func ExampleContext_SubscribeFrom() {
	r := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker()}})
	r.History("room:*")
	router.RPC(r, "room.join", func(c *router.Context, room string) (router.HistoryPage, error) {
		topic := "room:" + room
		page, err := r.ReadHistory(c, topic, router.HistoryQuery{Backwards: true, Limit: 1})
		if err != nil {
			return page, err
		}
		return page, c.SubscribeFrom(topic, page.Head)
	})
	for _, text := range []string{"one", "two"} {
		if err := r.Publish(context.Background(), "room:a", "room.said", text); err != nil {
			fmt.Println(err)
		}
	}
	ann := connect(r)
	defer ann.close()
	ann.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":"a"}`)
	ann.receive(2)
	// Output:
	// {"type":"$ws:subscribed","payload":{"topic":"room:a","pos":"…","ticket":"…"}}
	// {"type":"room.join.reply","meta":{"correlationId":"1"},"payload":{"messages":[{"type":"room.said","payload":"two","pos":"…"}],"more":true,"head":"…"}}
}

// A client scrolls back: pages of older messages, from the newest.
func ExampleRouter_ReadHistory() {
	r := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker()}})
	r.History("room:*")
	ctx := context.Background()
	for _, text := range []string{"one", "two", "three"} {
		if err := r.Publish(ctx, "room:a", "room.said", text); err != nil {
			fmt.Println(err)
		}
	}
	before := "" // the end
	for {
		page, err := r.ReadHistory(ctx, "room:a", router.HistoryQuery{From: before, Backwards: true, Limit: 2})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, m := range page.Messages {
			fmt.Println(string(m.Payload))
		}
		if !page.More {
			return
		}
		before = page.Messages[0].Pos
		fmt.Println("older:")
	}
	// Output:
	// "two"
	// "three"
	// older:
	// "one"
}

// A moderator takes back a message.
func ExampleRouter_Redact() {
	r := router.New()
	r.History("room:*")
	ctx := context.Background()
	if err := r.Publish(ctx, "room:a", "room.said", "something bad"); err != nil {
		fmt.Println(err)
	}
	page, err := r.ReadHistory(ctx, "room:a", router.HistoryQuery{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Redact(ctx, "room:a", page.Messages[0].Pos, "removed"))
	if page, err = r.ReadHistory(ctx, "room:a", router.HistoryQuery{}); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range page.Messages { // in its place, and for those that have got it
		fmt.Println(m.Type)
	}
	// Output:
	// <nil>
	// $ws:redacted
	// $ws:redacted
}
