package client_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router/routertest"
)

// Events that come faster than they are handled wait at the server, in the network and here. None is lost.
func TestSlowHandlers(t *testing.T) {
	t.Parallel()
	s := newCounting()
	const events = 3000
	received := make(chan int, events)
	ahead := make(chan struct{}, 800) // that many events are not handled: the log keeps 1,000
	behind := make(chan struct{})
	c := dial(t, serve(t, "127.0.0.1:0", s.Router).addr, asAnn(client.Options{
		MaxQueued: 4,
		OnGap:     func(g client.Gap) { t.Errorf("gap: %+v", g) },
		Setup: func(c *client.Client) {
			client.On(c, "said", func(_ context.Context, m text, _ client.Meta) {
				n, _ := strconv.Atoi(m.Text)
				if n == 10 {
					<-behind
				}
				received <- n
			})
		},
	}))
	if _, err := client.Request[struct{}](within(t), c, "join", text{"room:a"}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for n := range events {
			ahead <- struct{}{}
			if err := s.Publish(context.Background(), "room:a", "said", text{strconv.Itoa(n)}); err != nil {
				t.Error(err)
			}
			if n == 600 {
				close(behind)
			}
		}
	}()
	for want := range events {
		if got := poll.Receive(t, received, "the next event"); got != want {
			t.Fatalf("got event %d, want %d", got, want)
		}
		<-ahead
	}
}

// A client that does not read, because its inbox is full, does not get the answers to its pings. Its connection is not
// dead.
func TestAFullInboxIsNotADeadConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCounting()
		const events = 100
		handled := make(chan struct{}, events)
		c, err := client.Dial(t.Context(), "ws://routertest", asAnn(client.Options{
			HTTPClient: routertest.New(t, s.Router).HTTPClient(),
			MaxQueued:  4, PingInterval: 20 * time.Millisecond, PongTimeout: 700 * time.Millisecond,
			Setup: func(c *client.Client) {
				client.On(c, "said", func(_ context.Context, m text, _ client.Meta) {
					if m.Text == "10" {
						time.Sleep(5 * time.Second)
					}
					handled <- struct{}{}
				})
			},
		}))
		ok(t, err)
		_, err = client.Request[struct{}](t.Context(), c, "join", text{"room:a"})
		ok(t, err)
		for n := range events {
			ok(t, s.Publish(t.Context(), "room:a", "said", text{strconv.Itoa(n)}))
		}
		for range events {
			<-handled
		}
		if n := c.State().Connections; n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		ok(t, c.Close(t.Context()))
	})
}

// A handler that waits for an answer behind more events than there is room for gets it, or another connection is
// opened.
func TestHandlersSendRequests(t *testing.T) {
	t.Parallel()
	s := newCounting()
	var mu sync.Mutex
	outcomes := map[bool]int{}
	c := dial(t, serve(t, "127.0.0.1:0", s.Router).addr, asAnn(client.Options{
		MaxQueued: 4,
		OnGap:     func(g client.Gap) { t.Errorf("gap: %+v", g) },
		Setup: func(c *client.Client) {
			client.On(c, "said", func(ctx context.Context, m text, _ client.Meta) {
				_, err := client.Request[text](ctx, c, "do", m)
				if err != nil && !errors.Is(err, client.ErrUnknownOutcome) {
					t.Errorf("request %s: %v", m.Text, err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[err == nil]++
			})
		},
	}))
	if _, err := client.Request[struct{}](within(t), c, "join", text{"room:a"}); err != nil {
		t.Fatal(err)
	}
	const events = 300
	for n := range events {
		if err := s.Publish(context.Background(), "room:a", "said", text{strconv.Itoa(n)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all events to be handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return outcomes[true]+outcomes[false] == events
	})
	t.Logf("%v, %d connections", outcomes, c.State().Connections)
	for n := range events {
		if times := s.count(strconv.Itoa(n)); times > 1 {
			t.Errorf("request %d was handled %d times", n, times)
		}
	}
}
