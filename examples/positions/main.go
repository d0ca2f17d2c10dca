// Positions is a room in which all see each other move.
package main

import (
	"context"
	"log"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/wskit/wskit/collect"
	"github.com/wskit/wskit/router"
)

type Position struct {
	Player string  `json:"player"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
}

// field has the position of each player.
type field struct {
	mu sync.Mutex
	at map[string]Position
}

func (f *field) set(p Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[p.Player] = p
}

func (f *field) all() []Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.at))
}

func newRouter() *router.Router {
	f := &field{at: map[string]Position{}}
	r := router.New(router.Options{})
	moves := collect.New(router.Declare[[]Position](r, "positions"), func(p Position) string { return p.Player }, collect.Options{})
	router.RPC(r, "join", func(c *router.Context, _ struct{}) ([]Position, error) {
		err := c.Subscribe("field") // before the list: nothing is missed in between
		return f.all(), err
	})
	router.On(r, "move", func(c *router.Context, p Position) error {
		p.Player = c.Conn().ID()
		f.set(p)
		return moves.Publish("field", p)
	})
	return r
}

func main() {
	log.Println("ws://127.0.0.1:8080")
	log.Fatal(newRouter().Serve(context.Background(), &http.Server{Addr: "127.0.0.1:8080"}))
}
