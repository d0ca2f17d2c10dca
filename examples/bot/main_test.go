package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// The bot answers, also after its connection was lost.
func TestTheBotAnswers(t *testing.T) {
	r := router.New() // as in the README
	var joined atomic.Int64
	router.RPC(r, "room.join", func(c *router.Context, room string) (bool, error) {
		defer joined.Add(1)
		return true, c.Subscribe("room:" + room)
	})
	router.RPC(r, "chat.say", func(c *router.Context, m Say) (bool, error) {
		return true, c.Publish("room:"+m.Room, "chat.said", m)
	})
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	t.Cleanup(func() { _ = r.Shutdown(context.Background()) })
	url := "ws" + strings.TrimPrefix(s.URL, "http")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	go func() { ended <- run(ctx, url, "lobby", func() time.Time { return noon }) }()
	joins := func(times int64) {
		t.Helper()
		poll.Until(t, "the bot joins", func() bool { return joined.Load() == times })
	}
	joins(1)
	ann, err := client.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ann.Close(context.Background()) })
	answers := make(chan Say, 10)
	client.On(ann, "chat.said", func(_ context.Context, m Say, _ client.Meta) {
		if m.From == "clock" {
			answers <- m
		}
	})
	ask := func() {
		t.Helper()
		if _, err := client.Request[bool](t.Context(), ann, "room.join", "lobby"); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Request[bool](t.Context(), ann, "chat.say", Say{"lobby", "ann", "time?"}); err != nil {
			t.Fatal(err)
		}
		if m := poll.Receive(t, answers, "an answer"); m.Text != "It is 12:00PM" {
			t.Errorf("answered %q", m.Text)
		}
	}
	ask()
	if _, err := r.AllConnections().Close(t.Context(), 4000, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Wait(t.Context(), func(s client.State) bool { return s.Connections == 2 }); err != nil {
		t.Fatal(err)
	}
	joins(3) // ann has not joined again
	ask()
	stop()
	if err := poll.Receive(t, ended, "the end of the bot"); err == nil {
		t.Error("it ended without a reason")
	}
}
