package collect_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/collect"
	"github.com/wskit/wskit/router"
)

type Position struct {
	Player string `json:"player"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
}

// A room that sends, 20 times a second, the latest position of each player that has moved.
func Example() {
	r := router.New()
	positions := router.Declare[[]Position](r, "positions")
	moves := collect.New(positions, func(p Position) string { return p.Player })
	router.RPC(r, "join", func(c *router.Context, _ struct{}) (bool, error) {
		return true, c.Subscribe("room")
	})
	router.On(r, "move", func(c *router.Context, p Position) error {
		return moves.Publish("room", p)
	})
	server := httptest.NewServer(r)
	defer server.Close()
	defer r.Shutdown(context.Background())

	ctx := context.Background()
	ann, err := client.Dial(ctx, "ws"+strings.TrimPrefix(server.URL, "http"))
	if err != nil {
		panic(err)
	}
	defer ann.Close(ctx)
	seen := make(chan []Position)
	client.On(ann, "positions", func(_ context.Context, moved []Position, _ client.Meta) { seen <- moved })
	if _, err := client.Request[bool](ctx, ann, "join", struct{}{}); err != nil {
		panic(err)
	}
	for x := range 5 {
		_ = client.Send(ctx, ann, "move", Position{"ann", x, 0})
		_ = client.Send(ctx, ann, "move", Position{"bob", x, 1})
	}
	at := map[string]Position{}
	for at["bob"].X < 4 { // one message, unless an interval has ended in between
		for _, p := range <-seen {
			at[p.Player] = p
		}
	}
	fmt.Println(at["ann"], at["bob"])
	// Output: {ann 4 0} {bob 4 1}
}
