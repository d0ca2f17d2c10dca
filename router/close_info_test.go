package router_test

import (
	"context"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/router"
)

// OnClose gets the topics of the application alone, and a reason that was cut between two characters.
func TestWhatCloseHooksGet(t *testing.T) {
	closed := make(chan router.CloseInfo, 1)
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Broker: memory.NewBroker()}, Authenticate: asUser,
		Addressing: router.AddressingOptions{Enabled: true},
		OnClose:    func(_ *router.Conn, info router.CloseInfo) { closed <- info },
	}, func(r *router.Router) {
		router.On(r, "bye", func(c *router.Context, _ struct{}) error {
			c.Conn().Close(4001, "a"+strings.Repeat("€", 100))
			return nil
		})
	})
	p := s.dial(as("acme", "ann"))
	p.write(textFrame(`{"type":"bye"}`))
	p.expect("close 4001")
	p.write(closing(4001, ""))
	info := <-closed
	if len(info.Topics) > 0 {
		t.Errorf("the topics are %q, and the application has joined none", info.Topics)
	}
	if want := "a" + strings.Repeat("€", 40); info.Reason != want {
		t.Errorf("the reason is %q, want %q", info.Reason, want)
	}
}

// Of several declarations that fit a topic, the one with the longest prefix counts.
func TestTheLongestPrefixOfAHistoryCounts(t *testing.T) {
	t.Parallel()
	r := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker()}})
	declared := map[string]int{"*": 1, "room:*": 2, "room:a*": 3, "room:ab*": 4, "room:abc": 5}
	for topics, n := range declared {
		r.History(topics, router.HistoryOptions{Messages: n})
	}
	for topic, want := range map[string]int{"x": 1, "room:x": 2, "room:ax": 3, "room:abx": 4, "room:abc": 5} {
		for range 10 {
			if err := r.Publish(context.Background(), topic, "heard", nil); err != nil {
				t.Fatal(err)
			}
		}
		page, err := r.ReadHistory(context.Background(), topic, router.HistoryQuery{})
		if err != nil || len(page.Messages) != want {
			t.Errorf("%s: %d messages are kept, %v; want %d", topic, len(page.Messages), err, want)
		}
	}
}
