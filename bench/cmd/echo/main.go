// Echo is wskit in the comparison: one validated request behind a rate limiter, and
// one topic to which all clients subscribe. It is ordinary application code, not tuned for
// the measurement.
package main

import (
	"context"
	"flag"
	"log"
	"strings"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/limit"
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
	flag.Parse()

	policy := limit.TokenBucket{Capacity: *capacity, Refill: *refill, Per: time.Second}
	log.Fatal(server.Run(*addr, *secure, server.Routes{Echo: echoRouter(*topic, policy), Fan: fanRouter(*topic)}))
}

// echoRouter uses no topic, whatever there is.
func echoRouter(topic string, policy limit.Policy) *router.Router {
	r := newRouter(topic, router.Options{})
	r.UseIngress(ratelimit.New(limit.New(memory.NewStore(memory.Options{}), policy), ratelimit.Options{}))
	router.RPC(r, "chat.echo", func(_ *router.Context, q echo) (echo, error) {
		return q, nil
	}, router.RouteOptions{Reply: "chat.echoed"})
	return r
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
		opts.Broker = memory.NewBroker(memory.BrokerOptions{})
	}
	r := router.New(opts)
	if topic == "history" {
		r.History(fanTopic, router.HistoryOptions{})
	}
	return r
}
