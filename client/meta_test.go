package client_test

import (
	"context"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// Own members of meta arrive in both directions.
func TestOwnMeta(t *testing.T) {
	t.Parallel()
	r := router.New()
	router.RPC(r, "echo", func(c *router.Context, m text) (text, error) {
		var trace string
		if _, err := c.Meta("trace", &trace); err != nil {
			return text{}, err
		}
		return text{trace}, c.Send("said", m, router.SendOptions{Meta: router.Meta{"trace": "of the server"}})
	})
	c := dial(t, serve(t, "127.0.0.1:0", r).addr, client.Options{})
	got := make(chan string, 1)
	client.On(c, "said", func(_ context.Context, _ text, m client.Meta) {
		var trace string
		if _, err := m.Value("trace", &trace); err != nil {
			t.Error(err)
		}
		got <- trace
	})
	reply, err := client.Request[text](t.Context(), c, "echo", text{"hi"}, client.MessageOptions{Meta: map[string]any{"trace": "of the client"}})
	if err != nil || reply.Text != "of the client" {
		t.Errorf("the server gets %q, %v", reply.Text, err)
	}
	if trace := poll.Receive(t, got, "the event comes"); trace != "of the server" {
		t.Errorf("the client gets %q", trace)
	}
}
