// Messenger is the server of a chat between people with several devices: messages and receipts
// reach all devices of a user, a retried message is sent once, signing out everywhere is confirmed
// on the device that asks for it, and moderators suspend users.
//
//	go run ./examples/messenger -addr 127.0.0.1:8083
//
// With -redis, several servers are one. -contract ts writes the types for clients. A client connects to
// /ws?access_token=ann, or as moderator:mia. docs/applications.md refers to the page on each part.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

type (
	Send struct {
		ID   string `json:"id" validate:"required,max=64"` // the client's, so that it recognises a repetition
		To   string `json:"to" validate:"required,max=64"`
		Text string `json:"text" validate:"required,max=2000"`
	}
	Message struct {
		From string `json:"from"`
		Send
	}
	Receipt struct {
		ID   string `json:"id" validate:"required,max=64"`
		User string `json:"user" validate:"required,max=64"` // from the device: the sender; to the sender: the reader
	}
	Devices struct {
		User  string `json:"user,omitzero"`
		Count int    `json:"count"`
	}
)

// authenticate reads the demonstration's tokens. A real server verifies a signature here.
func authenticate(r *http.Request) (ingress.Identity, error) {
	role, user, ok := strings.Cut(ingress.Token(r), ":")
	if !ok {
		role, user = "member", role
	}
	if user == "" {
		return ingress.Identity{}, errors.Unauthenticated.New("connect with a token")
	}
	return ingress.Identity{User: user, Roles: []string{role}}, nil
}

func newRouter(opts router.Options) *router.Router {
	opts.Authenticate, opts.Addressing.Enabled = authenticate, true
	r := router.New(opts)
	message := router.Declare[Message](r, "message", router.EventOptions{Doc: "to the devices of the recipient, and the other ones of the sender"})
	receipt := router.Declare[Receipt](r, "receipt", router.EventOptions{Doc: "a message was read"})
	confirm := router.DeclareQuestion[Devices, bool](r, "confirm", router.QuestionOptions{Timeout: time.Minute})

	router.RPC(r, "message.send", func(c *router.Context, s Send) (Devices, error) {
		m := Message{c.Identity.User, s}
		own := r.User("", m.From).Except(c.Conn().ID())
		if err := errors.Join(message.Send(c, own, m), message.Send(c, r.User("", s.To), m)); err != nil {
			return Devices{}, err // the client sends it again, with the same ID
		}
		n, err := r.User("", s.To).Count(c)
		if err != nil {
			n = 0 // a server has just failed; a push notification more does no harm
		}
		return Devices{s.To, n}, nil
	})
	router.On(r, "message.read", func(c *router.Context, q Receipt) error {
		return receipt.Send(c, r.User("", q.User), Receipt{q.ID, c.Identity.User})
	})
	router.RPC(r, "devices.signOut", func(c *router.Context, _ struct{}) (Devices, error) {
		others := r.User("", c.Identity.User).Except(c.Conn().ID())
		n, err := others.Count(c)
		if err != nil {
			return Devices{}, err
		}
		yes, err := confirm.Ask(c, c.Conn(), Devices{Count: n})
		if err != nil || !yes {
			return Devices{}, err
		}
		n, err = others.Close(c, 4100, "signed out")
		return Devices{Count: n}, err
	})

	moderator := r.Group("user.").With(ingress.RequireRole("moderator"))
	router.RPC(moderator, "suspend", func(c *router.Context, q Devices) (Devices, error) {
		n, err := r.User("", q.User).Close(c, errors.ClosePolicy, "suspended")
		return Devices{q.User, n}, err
	})
	return r
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8083", "`host:port` to serve on")
	redisURL := flag.String("redis", "", "`URL` of a Redis that several servers share")
	contract.Flags(flag.CommandLine, func() (*contract.Contract, error) {
		return contract.Of(newRouter(router.Options{}), contract.Options{Title: "Messenger", Authenticated: true})
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *redisURL); err != nil {
		log.Print("messenger: ", err)
	}
}

// serve runs the server until ctx is done, and then shuts it down.
func serve(ctx context.Context, addr, redisURL string) (err error) {
	var backend adapters.Backend // the memory of this process
	if redisURL != "" {
		if backend, err = redis.Open(ctx, redisURL, redis.Options{Prefix: "messenger"}); err != nil {
			return err
		}
	}
	r := newRouter(router.Options{Backend: backend})
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	return r.Serve(ctx, &http.Server{Addr: addr, Handler: mux})
}
