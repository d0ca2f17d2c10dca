package router_test

import (
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// What a client has sent behind the message for which the server closes the connection is not handled.
func TestNothingIsHandledAfterClose(t *testing.T) {
	var handled atomic.Int64
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.On(r, "bye", func(c *router.Context, _ struct{}) error {
			c.Conn().Close(4001, "server")
			return nil
		})
		router.On(r, "late", func(*router.Context, struct{}) error {
			handled.Add(1)
			return nil
		}, router.RouteOptions{Concurrent: true}) // does not wait for the other one
	})
	p := s.dial()
	p.write(join(textFrame(`{"type":"bye"}`), textFrame(`{"type":"late"}`)))
	p.expect("close 4001")
	p.write(closing(4001, ""))
	p.expect("end")
	if err := s.r.Shutdown(t.Context()); err != nil { // waits for handlers
		t.Fatal(err)
	}
	if n := handled.Load(); n != 0 {
		t.Errorf("%d messages behind the close frame were handled", n)
	}
}

// Middleware sees no type that a client has made up as one with limits and figures of its own.
func TestMadeUpTypesHaveNoNameForMiddleware(t *testing.T) {
	seen := make(chan string, 2)
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				seen <- c.Type
				return next(c)
			}
		})
	})
	p := s.dial()
	p.write(join(textFrame(`{"type":"made up"}`), echo("1", "a")))
	p.expect("ERROR UNIMPLEMENTED", "reply 1 a")
	if typ := <-seen; typ != "" {
		t.Errorf("middleware sees the type %q, which no route has", typ)
	}
	if typ := <-seen; typ != "echo" {
		t.Errorf("middleware sees the type %q", typ)
	}
}
