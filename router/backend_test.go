package router_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Without a backend, keys, presence and history work in one process.
func TestWithoutABackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var paid atomic.Int32
		r := router.New()
		r.History("room")
		router.RPC(r, "pay", func(*router.Context, struct{}) (int32, error) { return paid.Add(1), nil })
		router.RPC(r, "join", func(c *router.Context, _ struct{}) (int, error) {
			if err := c.Join("room", "ann"); err != nil {
				return 0, err
			}
			if err := c.Publish("room", "said", "hello"); err != nil {
				return 0, err
			}
			members, err := r.Presence(c, "room")
			return len(members), err
		})
		c := routertest.New(t, r).Dial()
		for range 2 {
			c.SendRaw(`{"type":"pay","meta":{"correlationId":"1","idempotencyKey":"k"}}`)
			if got := string(c.ExpectAny("pay.reply").Payload); got != "1" {
				t.Errorf("the payment was made %s times", got)
			}
		}
		c.SendRaw(`{"type":"join","meta":{"correlationId":"2"}}`)
		c.ExpectAny("said")
		if members := string(c.ExpectAny("join.reply").Payload); members != "1" {
			t.Errorf("%s members are present", members)
		}
		page, err := r.ReadHistory(t.Context(), "room", router.HistoryQuery{})
		if err != nil || len(page.Messages) != 1 {
			t.Errorf("the history has %d messages, %v", len(page.Messages), err)
		}
	})
}

// Two processes with one secret accept each other's tickets. While the secret is not known, a client is not subscribed,
// and asks again.
func TestTicketsOfASharedSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		backend := adapters.Backend{
			Broker: memory.NewBroker(), Shared: true,
			Secret: func(_ context.Context, name string) ([]byte, error) {
				if away.Load() {
					return nil, errors.New("no connection")
				}
				return []byte(strings.Repeat(name, 10)), nil
			},
		}
		serve := func() *routertest.Server {
			r := router.New(router.Options{Backend: backend})
			r.History("room")
			router.RPC(r, "subscribe", func(c *router.Context, _ struct{}) (struct{}, error) {
				return struct{}{}, c.Subscribe("room")
			})
			return routertest.New(t, r)
		}
		away.Store(true)
		one := serve().Dial()
		one.SendRaw(`{"type":"subscribe","meta":{"correlationId":"1"}}`)
		routertest.ExpectFailure(one, "1")
		away.Store(false)
		one.SendRaw(`{"type":"subscribe","meta":{"correlationId":"2"}}`)
		subscribed := string(one.ExpectAny("$ws:subscribed").Payload)
		one.ExpectAny("subscribe.reply")
		_, ticket, _ := strings.Cut(subscribed, `"ticket":"`)
		ticket, _, _ = strings.Cut(ticket, `"`)
		_, pos, _ := strings.Cut(subscribed, `"pos":"`)
		pos, _, _ = strings.Cut(pos, `"`)

		away.Store(true)
		two := serve().Dial()
		resume := `{"type":"$ws:resume","meta":{"correlationId":"3"},"payload":{"topics":[{"ticket":"` + ticket + `","pos":"` + pos + `"}]}}`
		two.SendRaw(resume)
		if got := string(two.ExpectAny("$ws:resumed").Payload); !strings.Contains(got, `"reason":"unavailable"`) {
			t.Errorf("resumed without the secret: %s", got)
		}
		away.Store(false)
		two.SendRaw(resume)
		if got := string(two.ExpectAny("$ws:resumed").Payload); !strings.Contains(got, `"resumed":true`) {
			t.Errorf("resumed in the other process: %s", got)
		}
	})
}
