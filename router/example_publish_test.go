package router_test

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// Only members of a room may write to it.
func ExampleConn_IsSubscribed() {
	r := router.New()
	router.RPC(r, "room.join", func(c *router.Context, room string) (bool, error) {
		return true, c.Subscribe("room:" + room)
	})
	router.RPC(r, "room.say", func(c *router.Context, room string) (bool, error) {
		if !c.Conn().IsSubscribed("room:" + room) {
			return false, errors.PermissionDenied.New("join the room first")
		}
		return true, nil
	})

	ann := connect(r)
	defer ann.close()
	ann.send(`{"type":"room.say","meta":{"correlationId":"1"},"payload":"lobby"}`)
	ann.receive(1)
	ann.send(`{"type":"room.join","meta":{"correlationId":"2"},"payload":"lobby"}`)
	ann.receive(1)
	ann.send(`{"type":"room.say","meta":{"correlationId":"3"},"payload":"lobby"}`)
	ann.receive(1)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"PERMISSION_DENIED","message":"join the room first","retryable":false}}
	// {"type":"room.join.reply","meta":{"correlationId":"2"},"payload":true}
	// {"type":"room.say.reply","meta":{"correlationId":"3"},"payload":true}
}

// A guest may follow a room for an hour.
func ExampleSubscribeOptions() {
	r := router.New()
	router.RPC(r, "room.visit", func(c *router.Context, room string) (bool, error) {
		return true, c.Subscribe("room:"+room, router.SubscribeOptions{Until: time.Now().Add(time.Hour)})
	})

	ann := connect(r)
	defer ann.close()
	ann.send(`{"type":"room.visit","meta":{"correlationId":"1"},"payload":"lobby"}`)
	ann.receive(1)
	// Output:
	// {"type":"room.visit.reply","meta":{"correlationId":"1"},"payload":true}
}

func ExampleContext_Publish() {
	type Position struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	r := router.New()
	router.RPC(r, "map.open", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Subscribe("map")
	})
	router.On(r, "map.move", func(c *router.Context, p Position) error {
		return c.Publish("map", "map.moved", p, router.PublishOptions{
			Overflow: router.OverflowLatestOnly, // a slow reader needs no older position
			Key:      c.Conn().ID(),             // the latest of each client
			Except:   c.Conn().ID(),
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
	r := router.New()
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
