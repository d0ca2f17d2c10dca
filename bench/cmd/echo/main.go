// Echo is wskit in the comparison: one validated request behind a rate limiter, and
// one topic to which all clients subscribe. It is ordinary application code, not tuned for
// the measurement.
package main

import (
	"context"
	"crypto/subtle"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

type echo struct {
	Room string `json:"room" validate:"required"`
	Text string `json:"text" validate:"required"`
}

type message struct {
	Text string `json:"text"`
}

func main() {
	log.SetFlags(0)
	addr := flag.String("addr", "127.0.0.1:9001", "address to listen on; port 0 lets the kernel choose")
	capacity := flag.Int64("capacity", 1e9, "requests a client may send at once; 1 refuses nearly all")
	refill := flag.Int64("refill", 1e9, "requests a client regains per second")
	topic := flag.String("topic", "plain", "what the routers have, and /fan publishes on: plain, broker (a broker in memory) or history (with a history on that broker)")
	secure := flag.Bool("tls", false, "serve TLS, with a certificate made at the start")
	window := flag.Duration("window", 0, "time over which the clients of /ws come back after SIGTERM; 0 is the default of wskit")
	compress := flag.Bool("compress", false, "accept permessage-deflate")
	locks := flag.Bool("locks", false, "record for which locks goroutines wait, for /debug/locks")
	flag.Parse()
	if *locks {
		runtime.SetMutexProfileFraction(1)
	}

	policy := limit.TokenBucket{Capacity: *capacity, Refill: *refill, Per: time.Second}
	echo := echoRouter(*topic, router.Options{Compression: *compress, Liveness: router.Liveness{DrainWindow: *window}}, policy)
	go drainOnTerm(echo)
	log.Fatal(server.Run(*addr, *secure, server.Routes{Echo: echo, Fan: fanRouter(*topic), Visit: visitRouter(policy)}))
}

// drainOnTerm ends the process in good order.
func drainOnTerm(r *router.Router) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	<-term
	_ = r.Shutdown(context.Background()) // without a deadline it does not fail
	os.Exit(0)
}

// echoRouter uses no topic, whatever there is.
func echoRouter(topic string, opts router.Options, policy limit.Policy) *router.Router {
	return addEcho(newRouter(topic, opts), policy)
}

func addEcho(r *router.Router, policy limit.Policy) *router.Router {
	r.Use(ratelimit.New(limit.New(memory.NewStore(), policy), ratelimit.PerUserOrIPPerType))
	router.RPC(r, "chat.echo", func(_ *router.Context, q echo) (echo, error) {
		return q, nil
	}, router.RouteOptions{Reply: "chat.echoed"})
	return r
}

// visitRouter asks clients for a token and bounds their number, by user, address and in total, and the rate at which
// they come.
func visitRouter(policy limit.Policy) *router.Router {
	const most = 1e6
	var open sync.Map // users by connection
	return addEcho(router.New(router.Options{
		Gate: gate.New(memory.NewStore(), gate.Options{
			PerIP: policy, PerIdentity: policy, MaxPerUser: most, MaxPerIP: most, MaxTotal: most,
		}),
		Authenticate: func(r *http.Request) (ingress.Identity, error) {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if subtle.ConstantTimeCompare([]byte(token), []byte(server.Token)) == 0 {
				return ingress.Identity{}, errors.Unauthenticated.New("wrong token")
			}
			return ingress.Identity{User: "ann"}, nil
		},
		OnOpen: func(c *router.Conn) error {
			open.Store(c.ID(), c.Identity().User)
			return nil
		},
		OnClose: func(c *router.Conn, _ router.CloseInfo) { open.Delete(c.ID()) },
	}), policy)
}

// fanTopic is the topic every connection on /fan is subscribed to as it opens.
const fanTopic = "room:lobby"

func fanRouter(topic string) *router.Router {
	text := strings.Repeat("x", 200)
	r := newRouter(topic, router.Options{
		OnOpen: func(c *router.Conn) error { return c.Subscribe(context.Background(), fanTopic) },
	})
	router.On(r, "chat.send", func(c *router.Context, _ echo) error {
		return c.Publish(fanTopic, "chat.message", message{Text: text})
	})
	return r
}

// newRouter returns a router with what the topic needs.
func newRouter(topic string, opts router.Options) *router.Router {
	if topic != "plain" {
		opts.Backend.Broker = memory.NewBroker()
	}
	r := router.New(opts)
	if topic == "history" {
		r.History(fanTopic)
	}
	return r
}
