package docs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of requests.md.

type (
	Find struct {
		ID string `json:"id" validate:"required"`
	}
	Order struct {
		ID   string `json:"id"`
		Item string `json:"item"`
	}
	Percent struct {
		Done int `json:"done"`
	}
	Confirm struct {
		Text string `json:"text"`
	}
)

type shop struct {
	orders map[string]Order
	placed int
}

func (s *shop) find(ctx context.Context, id string) (Order, bool, error) {
	o, ok := s.orders[id]
	return o, ok, ctx.Err()
}

func (s *shop) router() *router.Router {
	r := router.New()

	router.RPC(r, "order.find", func(c *router.Context, q Find) (Order, error) {
		o, ok, err := s.find(c, q.ID) // c is a context.Context
		if err != nil {
			return Order{}, err // without a code: INTERNAL for the client, and a line in your log
		}
		if !ok {
			return Order{}, errors.NotFound.Errorf("no order %q", q.ID)
		}
		return o, nil
	})

	router.RPC(r, "report.get", func(c *router.Context, _ struct{}) (string, error) {
		for done := 10; done <= 100; done += 10 {
			if err := c.Progress(Percent{done}); err != nil {
				return "", err
			}
			if err := s.work(c, done); err != nil { // c ends: aborted, over time, or the client is gone
				return "", err
			}
		}
		return "the report", nil
	}, router.RouteOptions{Concurrent: true, Timeout: time.Minute})

	confirm := router.DeclareQuestion[Confirm, bool](r, "confirm")
	router.RPC(r, "order.cancel", func(c *router.Context, q Find) (bool, error) {
		yes, err := confirm.Ask(c, c.Conn(), Confirm{Text: "Cancel order " + q.ID + "?"})
		if err != nil || !yes {
			return false, err
		}
		delete(s.orders, q.ID)
		return true, nil
	})

	router.RPC(r, "mail.send", func(c *router.Context, q Find) (struct{}, error) {
		ctx := context.WithoutCancel(c.Detach()) // with the values of c; it does not end with the request
		go s.mail(ctx, q.ID)
		return struct{}{}, nil
	})

	router.RPC(r, "order.place", func(c *router.Context, o Order) (Order, error) {
		s.placed++
		return o, nil
	})
	return r
}

// concurrent is in how-it-works.md.
func concurrent(r *router.Router, report func(*router.Context, struct{}) (string, error)) {
	router.RPC(r, "report.get", report, router.RouteOptions{Concurrent: true})
}

func TestConcurrentOfHowItWorks(t *testing.T) {
	r := router.New()
	other := make(chan struct{})
	concurrent(r, func(*router.Context, struct{}) (string, error) { <-other; return "done", nil })
	router.On(r, "other", func(*router.Context, struct{}) error { close(other); return nil })
	c := routertest.New(t, r).Dial()
	q := c.Request("report.get", nil)
	c.Send("other", struct{}{})
	routertest.ExpectReply[string](q)
}

func (*shop) mail(context.Context, string) {}

// work is what takes long: in this test, until the request ends.
func (*shop) work(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRequestsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{orders: map[string]Order{"7": {"7", "tea"}}}
		c := routertest.New(t, s.router()).Dial()
		if got := routertest.ExpectReply[Order](c.Request("order.find", Find{"7"})); got.Item != "tea" {
			t.Errorf("got %+v", got)
		}
		if f := c.Request("order.find", Find{"8"}).ExpectError(errors.NotFound); f.Retryable {
			t.Errorf("got %+v", f)
		}

		q := c.Request("report.get", nil)
		if got := routertest.ExpectProgress[Percent](q); got.Done != 10 {
			t.Errorf("progress is %+v", got)
		}
		routertest.ExpectReply[Order](c.Request("order.find", Find{"7"})) // not behind the report
		q.Abort()
		q.ExpectError(errors.Cancelled)

		routertest.Answer(c, "confirm", func(q Confirm) (bool, error) { return q.Text == "Cancel order 7?", nil })
		if !routertest.ExpectReply[bool](c.Request("order.cancel", Find{"7"})) {
			t.Error("the order is not cancelled")
		}
		routertest.ExpectReply[struct{}](c.Request("mail.send", Find{"7"}))

		for _, id := range []string{"1", "2"} {
			c.SendRaw(`{"type":"order.place","meta":{"correlationId":"k` + id + `","idempotencyKey":"e4a1"},"payload":{"id":"9","item":"tea"}}`)
			c.ExpectAny("order.place.reply")
		}
		if s.placed != 1 {
			t.Errorf("the order is placed %d times", s.placed)
		}
	})
}
