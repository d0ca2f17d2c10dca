package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// ask begins an answer, which goes on until its context ends.
type ask struct{}

// token is one that is published, and the time when it was made, in µs.
type token struct {
	Text string `json:"text"`
}

// serve writes tokens to all who ask.
func serve(plain bool, perSecond int) error {
	r := router.New()
	every := time.Second / time.Duration(perSecond)
	if plain {
		publishes(r, every)
	} else {
		runs, err := run.New(r, run.Options{AtOnce: -1})
		if err != nil {
			return err
		}
		run.Handle(runs, "ask", func(ctx context.Context, _ ask, w *run.Writer) error {
			return write(ctx, every, w.Text)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.HandleFunc("/figures", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, r.Stats().FramesWritten)
	})
	return server.Serve(&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second})
}

// publishes publishes each token.
func publishes(r *router.Router, every time.Duration) {
	r.History("answer:*", router.HistoryOptions{Messages: 20_000})
	tokens := router.Declare[token](r, "token")
	router.RPC(r, "ask", func(c *router.Context, _ ask) (ask, error) {
		conn := c.Conn()
		topic := "answer:" + conn.ID()
		if err := c.Subscribe(topic); err != nil {
			return ask{}, err
		}
		go func() {
			_ = write(
				conn.Context(), every,
				func(text string) error { return tokens.Publish(conn.Context(), topic, token{text}) },
			)
		}()
		return ask{}, nil
	})
}

// write writes tokens, each with the time when it was made.
func write(ctx context.Context, every time.Duration, to func(string) error) error {
	next := time.NewTicker(every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next.C:
			if err := to(strconv.FormatInt(time.Now().UnixMicro(), 10) + " "); err != nil {
				return err
			}
		}
	}
}
