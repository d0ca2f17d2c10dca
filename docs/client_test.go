package docs_test

import (
	"context"
	"crypto/rand"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of client.md.

type tokenSource struct{}

func (tokenSource) Get(context.Context) (string, error) { return "ann", nil }

var tokens tokenSource

func newRouter() *router.Router {
	r := (&shop{orders: map[string]Order{"7": {"7", "tea"}}}).router()
	router.On(r, "cursor.move", func(*router.Context, Position) error { return nil })
	return r
}

func useClient(ctx context.Context, url string) error {
	c, err := client.Dial(ctx, url, client.Options{ // wss://chat.example.com/ws
		Token: tokens.Get, // before each attempt
		Setup: func(c *client.Client) { // before the first message comes
			client.On(c, "chat.message", func(ctx context.Context, m Said, meta client.Meta) {
				log.Print(m.From, ": ", m.Text)
			})
			client.Answer(c, "confirm", func(ctx context.Context, q Confirm) (bool, error) {
				return q.Text == "Really?", nil
			})
		},
		OnGap: func(g client.Gap) { log.Print(g.Topic, " is incomplete: ", g.Reason) },
	})
	if err != nil {
		return err
	}
	reply, err := client.Request[Order](ctx, c, "order.find", Find{ID: "7"})
	if err != nil || reply.Item != "tea" {
		return errors.Join(err, errors.New("got "+reply.Item))
	}
	err = client.Send(ctx, c, "cursor.move", Position{3, 4})
	if err != nil {
		return err
	}
	once := client.MessageOptions{IdempotencyKey: rand.Text()} // handled once, however often it is sent
	patient := client.MessageOptions{WaitOnLimit: true}        // waits out a rate limit; messages that were not sent before wait behind it
	for _, o := range []client.MessageOptions{once, patient} {
		if _, err := client.Request[Order](ctx, c, "order.place", Order{ID: "9"}, o); err != nil {
			return err
		}
	}
	err = c.Close(ctx)
	return err
}

func TestClientPage(t *testing.T) {
	server := httptest.NewServer(newRouter())
	defer server.Close()
	if err := useClient(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http")); err != nil {
		t.Error(err)
	}
}

func TestClientPageWithoutSockets(t *testing.T) {
	s := routertest.New(t, newRouter())
	c, err := client.Dial(t.Context(), "ws://test", client.Options{HTTPClient: s.HTTPClient()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
