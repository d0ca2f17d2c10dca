package router_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// untilOver asks a context for its error until there is one. Then Done must be closed, and
// where Done is closed first, there must be an error.
func untilOver(ctx context.Context, done <-chan struct{}) string {
	for {
		closed := false
		select {
		case <-done:
			closed = true
		default:
		}
		err := ctx.Err()
		switch {
		case closed && err == nil:
			return "Done is closed and Err returns nil"
		case err == nil:
			runtime.Gosched()
			continue
		}
		select {
		case <-ctx.Done():
			return ""
		default:
			return fmt.Sprintf("Err returns %q and Done is not closed", err)
		}
	}
}

// A context has an error if and only if its Done is closed, as package context demands:
// that of a request whose time is over or whose connection ends, whether Done has been
// asked for before or not; that of a connection; and that of middleware.
func TestErrAndDoneAgree(t *testing.T) {
	results := make(chan string, 10)
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{
		OnOpen: func(c *router.Conn) error { conns <- c; return nil },
	}, func(r *router.Router) {
		r.UseIngress(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "filtered" {
					ctx := c.Context()
					go func() { results <- untilOver(ctx, ctx.Done()) }()
				}
				return next(c)
			}
		})
		router.RPC(r, "asked", func(c *router.Context, _ struct{}) (struct{}, error) {
			results <- untilOver(c, c.Done())
			return struct{}{}, nil
		})
		router.RPC(r, "lazy", func(c *router.Context, _ struct{}) (struct{}, error) {
			results <- untilOver(c, nil)
			return struct{}{}, nil
		})
		router.RPC(r, "filtered", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	})
	request := func(typ string, wait time.Duration) []byte {
		return textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"c","timeoutMs":%d}}`, typ, wait.Milliseconds()))
	}
	check := func(what string) {
		t.Helper()
		select {
		case wrong := <-results:
			if wrong != "" {
				t.Errorf("%s: %s", what, wrong)
			}
		case <-time.After(patience):
			t.Fatalf("%s: the context does not end", what)
		}
	}
	for range 4 {
		p := s.dial()
		<-conns
		for _, typ := range []string{"asked", "lazy"} {
			p.write(request(typ, time.Millisecond))
			p.expect("RPC_ERROR c DEADLINE_EXCEEDED")
			check(typ + ", its time over")
		}
		p.bye()
		for _, typ := range []string{"asked", "lazy", "filtered"} {
			p := s.dial()
			c := <-conns
			go func() { results <- untilOver(c.Context(), c.Context().Done()) }()
			p.write(request(typ, time.Minute))
			if typ == "filtered" {
				p.expect("reply c ")
			}
			p.hangUp()
			check(typ + ", its connection gone")
			check("connection")
		}
	}
	s.settled()
}
