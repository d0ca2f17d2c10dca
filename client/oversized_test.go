package client_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// A message above MaxMessage does not break the connection, on which it would come again: its request fails, its topic has a
// gap and goes on, the server's question is answered, and everything else is handled once and in order.
func TestMessagesAboveMaxMessage(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 100<<10)
	r := router.New()
	r.History("h:*")
	type text = string
	for _, topic := range []string{"h:room", "plain"} {
		router.RPC(r, "join."+topic[:1], func(c *router.Context, _ struct{}) (struct{}, error) { return struct{}{}, c.Subscribe(topic) })
	}
	router.RPC(r, "big", func(*router.Context, struct{}) (text, error) { return big, nil })
	router.RPC(r, "small", func(*router.Context, struct{}) (text, error) { return "small", nil })
	confirm := router.DeclareQuestion[text, text](r, "confirm")
	router.RPC(r, "ask", func(c *router.Context, size int) (text, error) { return confirm.Ask(c, c.Conn(), big[:size]) },
		router.RouteOptions{Concurrent: true})
	s := httptest.NewServer(r)
	defer s.Close()

	var mu sync.Mutex
	var order []string
	add := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	seen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(order)
	}
	c, err := client.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1), client.Options{
		MaxMessage: 64 << 10,
		OnGap:      func(g client.Gap) { add("gap " + g.Topic + " " + g.Reason) },
		OnError:    func(typ string, err error) { add("error " + typ) },
		Setup: func(c *client.Client) {
			client.On(c, "said", func(_ context.Context, s string, _ client.Meta) { add(s[:1]) })
			client.Answer(c, "confirm", func(_ context.Context, s string) (string, error) { return "yes", nil })
		},
	})
	ok(t, err)
	defer closeNow(t, c)
	for _, typ := range []string{"join.h", "join.p"} {
		_, err := client.Request[struct{}](t.Context(), c, typ, nil)
		ok(t, err)
	}
	for _, topic := range []string{"h:room", "plain"} {
		for _, s := range []string{"1", big, "2"} {
			ok(t, r.Publish(t.Context(), topic, "said", s))
		}
	}
	_, err = client.Request[string](t.Context(), c, "big", nil, client.MessageOptions{IdempotencyKey: "k"})
	expectCode(t, err, "RESOURCE_EXHAUSTED")
	if !strings.Contains(err.Error(), "Options.MaxMessage") {
		t.Errorf("the error is %v", err)
	}
	if got, err := client.Request[string](t.Context(), c, "ask", 3); err != nil || got != "yes" {
		t.Errorf("a small question is answered %q, %v", got, err)
	}
	_, err = client.Request[string](t.Context(), c, "ask", len(big))
	expectCode(t, err, "RESOURCE_EXHAUSTED")
	want := []string{"1", "gap h:room tooLarge", "2", "1", "error said", "2"}
	eventually(t, "what was published", func() bool { return len(seen()) == len(want) })
	if got := seen(); !slices.Equal(got, want) {
		t.Errorf("it got %q, want %q", got, want)
	}
	if got, err := client.Request[string](t.Context(), c, "small", nil); err != nil || got != "small" {
		t.Errorf("a request afterwards: %q, %v", got, err)
	}
	if n := c.State().Connections; n != 1 {
		t.Errorf("%d connections were needed", n)
	}
	// It does not come again when the topic is resumed.
	if _, err := r.AllConnections().Close(t.Context(), errors.CloseGoingAway, ""); err != nil {
		t.Error(err)
	}
	ok(t, r.Publish(t.Context(), "h:room", "said", "3"))
	eventually(t, "the topic goes on", func() bool { return len(seen()) > len(want) })
	if got := seen()[len(want):]; !slices.Equal(got, []string{"3"}) {
		t.Errorf("after the reconnect it got %q", got)
	}
}
