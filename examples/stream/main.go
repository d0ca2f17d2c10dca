// Stream answers a question word by word, as a language model does, and stops when the client does.
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/wskit/wskit/router"
)

type Ask struct {
	Question string `json:"question" validate:"required,max=2000"`
}

type Answer struct {
	Text string `json:"text"`
}

// A model calls word with each word of its answer, until ctx ends.
type model func(ctx context.Context, question string, word func(string) error) error

func newRouter(model model) *router.Router {
	r := router.New()
	router.RPC(r, "ask", func(c *router.Context, q Ask) (Answer, error) {
		var words []string
		err := model(c, q.Question, func(word string) error {
			words = append(words, word)
			return c.Progress(word)
		})
		return Answer{strings.Join(words, " ")}, err
	}, router.RouteOptions{Concurrent: true, Timeout: 2 * time.Minute})
	return r
}

// parrot stands for a real model.
func parrot(ctx context.Context, question string, word func(string) error) error {
	for _, w := range strings.Fields("You have asked: " + question) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		if err := word(w); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	addr := cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")
	r := newRouter(parrot)
	log.Println("ws://" + addr)
	log.Fatal(r.Serve(context.Background(), &http.Server{Addr: addr, Handler: r}))
}
