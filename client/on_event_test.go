package client_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// OnEvent gets the events that have no handler, in the order of all events, and a panic in it is an error of that
// event.
func TestOnEvent(t *testing.T) {
	t.Parallel()
	r := router.New()
	router.RPC(r, "talk", func(c *router.Context, _ struct{}) (bool, error) {
		for i, typ := range []string{"known", "one", "bad", "known", "two"} {
			if err := c.Send(typ, text{fmt.Sprint(i)}); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	got := make(chan string, 10)
	c := dial(t, serve(t, "127.0.0.1:0", r).addr, client.Options{
		OnEvent: func(_ context.Context, typ string, payload jsontext.Value, _ client.Meta) {
			if typ == "bad" {
				panic("bad")
			}
			got <- typ + string(payload)
		},
		OnError: func(typ string, _ error) { got <- "error of " + typ },
	})
	client.On(c, "known", func(_ context.Context, m text, _ client.Meta) { got <- "known " + m.Text })
	if _, err := client.Request[bool](t.Context(), c, "talk", struct{}{}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for range 5 {
		all = append(all, poll.Receive(t, got, "the next event"))
	}
	if want := []string{"known 0", `one{"text":"1"}`, "error of bad", "known 3", `two{"text":"4"}`}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}
