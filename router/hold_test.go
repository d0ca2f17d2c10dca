package router_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// A frame that middleware holds does not hold up the answers before it, and the
// frames behind it wait.
func TestAHeldFrame(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "held" {
					if err := c.Hold(5 * time.Second); err != nil {
						return err
					}
				}
				return next(c)
			}
		})
		for _, typ := range []string{"before", "held", "behind"} {
			router.RPC(r, typ, func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		}
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		start := time.Now()
		before, held := c.Request("before", nil), c.Request("held", nil)
		for _, step := range []struct {
			q    *routertest.Request
			want time.Duration
		}{{before, 0}, {held, 5 * time.Second}} {
			routertest.ExpectReply[struct{}](step.q)
			if took := time.Since(start); took != step.want {
				t.Errorf("%s is answered after %v, want %v", step.q.ID, took, step.want)
			}
		}
		routertest.ExpectReply[struct{}](c.Request("behind", nil))
	})
}

// A connection that is closed while middleware holds a frame ends in seconds, whether
// with pings and without, and cancels the context of the middleware.
func TestAHeldFrameOfAConnectionThatIsClosed(t *testing.T) {
	t.Parallel()
	for name, liveness := range map[string]router.Liveness{"pinged": {}, "left alone": {PingInterval: -1}} {
		t.Run(name, func(t *testing.T) {
			var conn *router.Conn
			var held chan error
			inMemory(t, router.Options{Liveness: liveness, OnOpen: func(c *router.Conn) error { conn = c; return nil }}, func(r *router.Router) {
				held = make(chan error, 1) // of this bubble
				r.Use(func(ingress.Handler) ingress.Handler {
					return func(c *ingress.Context) error {
						held <- c.Hold(time.Hour)
						return context.Canceled
					}
				})
			}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
				c.Send("held", nil)
				synctest.Wait()
				start := time.Now()
				conn.Close(errors.ClosePolicy, "signed out")
				c.ExpectClose(errors.ClosePolicy)
				if err := <-held; err == nil || time.Since(start) > 10*time.Second {
					t.Errorf("held for %v more, %v", time.Since(start), err)
				}
			})
		})
	}
}
