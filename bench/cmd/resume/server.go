package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

const (
	hot  = "hot"  // the topic that is resumed
	live = "live" // the topic of the others
)

// countedLog counts the reads of the hot topic.
type countedLog struct {
	memory.Broker
	reads atomic.Int64
}

func (l *countedLog) Read(ctx context.Context, topic string, h pubsub.History, o pubsub.ReadOptions) (pubsub.Page, error) {
	if topic == hot {
		l.reads.Add(1)
	}
	return l.Broker.Read(ctx, topic, h, o)
}

type message struct {
	Sent int64  `json:"sent"`
	Text string `json:"text"`
}

// text is a line of chat.
const text = "a line of chat that is about as long as what people type, or what a small event of an application holds"

// serveTopics is the server. Besides the topics, POST /fill?n= publishes messages on the hot one, and GET /reads
// returns how often its log was read.
func serveTopics(context.Context) error {
	l := &countedLog{Broker: memory.NewBroker()}
	r := router.New(router.Options{Backend: adapters.Backend{Broker: l}})
	r.History(hot, router.HistoryOptions{Messages: 1 << 20, Bytes: 128 << 20})
	r.History(live)
	router.RPC(r, "join", func(c *router.Context, topic string) (struct{}, error) { return struct{}{}, c.Subscribe(topic) })
	router.On(r, "say", func(c *router.Context, m message) error { return c.Publish(live, "said", m) })
	mux := http.NewServeMux()
	mux.HandleFunc("/fill", func(w http.ResponseWriter, q *http.Request) {
		n, _ := strconv.Atoi(q.FormValue("n"))
		for range n {
			if err := r.Publish(q.Context(), hot, "said", message{Text: text}); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
	})
	mux.HandleFunc("/reads", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, l.reads.Load()) })
	mux.Handle("/ws", r)
	return server.Serve(&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second})
}
