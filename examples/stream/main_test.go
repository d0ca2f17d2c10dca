package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/routertest"
)

func TestWordsComeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := routertest.New(t, newRouter(parrot)).Dial()
		q := c.Request("ask", Ask{"why?"})
		for _, want := range []string{"You", "have", "asked:", "why?"} {
			if got := routertest.ExpectProgress[string](q); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if got := routertest.ExpectReply[Answer](q); got.Text != "You have asked: why?" {
			t.Errorf("answered %q", got.Text)
		}
	})
}

// The model stops when the client aborts, and when it leaves.
func TestTheModelStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan struct{}, 2)
		s := routertest.New(t, newRouter(func(ctx context.Context, _ string, word func(string) error) error {
			_ = word("first")
			<-ctx.Done()
			stopped <- struct{}{}
			return ctx.Err()
		}))
		c := s.Dial()
		q := c.Request("ask", Ask{"why?"})
		routertest.ExpectProgress[string](q)
		q.Abort()
		q.ExpectError(errors.Cancelled)
		<-stopped
		q = c.Request("ask", Ask{"why?"})
		routertest.ExpectProgress[string](q)
		c.Vanish()
		<-stopped
	})
}
