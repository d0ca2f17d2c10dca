// Inbox keeps what users are sent for a week. A user who comes back gets what came meanwhile, once and in order.
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

type Letter struct {
	To   string `json:"to" validate:"required,max=40"`
	Text string `json:"text" validate:"required,max=2000"`
}

type Received struct {
	From string `json:"from"`
	Text string `json:"text"`
}

func newRouter() *router.Router {
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			user := ingress.Token(req) // check a real token here
			if user == "" {
				return ingress.Identity{}, errors.Unauthenticated.New("log in first")
			}
			return ingress.Identity{User: user}, nil
		},
		OnOpen: func(c *router.Conn) error { return c.Subscribe(c.Context(), "inbox:"+c.Identity().User) },
	})
	r.History("inbox:*", router.HistoryOptions{Messages: 1000, Age: 7 * 24 * time.Hour})
	received := router.Declare[Received](r, "letter.received")
	router.RPC(r, "letter.send", func(c *router.Context, l Letter) (bool, error) {
		return true, received.Publish(c, "inbox:"+l.To, Received{c.Identity.User, l.Text})
	})
	return r
}

func main() {
	addr := cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")
	r := newRouter()
	log.Println("ws://" + addr)
	log.Fatal(r.Serve(context.Background(), &http.Server{Addr: addr, Handler: r}))
}
