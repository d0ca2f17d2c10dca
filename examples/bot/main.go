// Bot is a member of a room of the README's chat, who tells the time to all who write "time?". Run the chat, then the
// bot.
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"time"

	"github.com/wskit/wskit/client"
)

type Say struct {
	Room string `json:"room"`
	From string `json:"from"`
	Text string `json:"text"`
}

// run answers in a room until ctx ends, or the server refuses for good.
func run(ctx context.Context, url, room string, now func() time.Time) error {
	c, err := client.Dial(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	client.On(c, "chat.said", func(ctx context.Context, m Say, _ client.Meta) {
		if m.Text != "time?" {
			return
		}
		answer := Say{room, "clock", "It is " + now().Format(time.Kitchen)}
		if _, err := client.Request[bool](ctx, c, "chat.say", answer, client.MessageOptions{WaitOnLimit: true}); err != nil {
			log.Print(err)
		}
	})
	for connection := 0; ; { // a room without a history is joined on each connection anew
		s, err := c.Wait(ctx, func(s client.State) bool { return s.Phase == client.Closed || s.Connections > connection })
		if err != nil || s.Phase == client.Closed {
			return cmp.Or(err, s.Err)
		}
		connection = s.Connections
		if _, err := client.Request[bool](ctx, c, "room.join", room); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	url := flag.String("url", "ws://127.0.0.1:8080/ws", "the address of the chat")
	flag.Parse()
	log.Fatal(run(context.Background(), *url, "lobby", time.Now))
}
