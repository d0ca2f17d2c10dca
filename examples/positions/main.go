// Positions is a room in which all see each other move.
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/wskit/wskit/collect"
	"github.com/wskit/wskit/router"
)

type Position struct {
	Player string  `json:"player"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
}

func newRouter() *router.Router {
	var at sync.Map // the position of each player
	r := router.New()
	moves := collect.New(router.Declare[[]Position](r, "positions"), func(p Position) string { return p.Player })
	router.RPC(r, "join", func(c *router.Context, _ struct{}) ([]Position, error) {
		err := c.Subscribe("field") // before the list: nothing is missed in between
		all := []Position{}
		at.Range(func(_, p any) bool { all = append(all, p.(Position)); return true })
		return all, err
	})
	router.On(r, "move", func(c *router.Context, p Position) error {
		p.Player = c.Conn().ID()
		at.Store(p.Player, p)
		return moves.Publish("field", p)
	})
	return r
}

func main() {
	addr := cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")
	r := newRouter()
	log.Println("ws://" + addr)
	log.Fatal(r.Serve(context.Background(), &http.Server{Addr: addr, Handler: r}))
}
