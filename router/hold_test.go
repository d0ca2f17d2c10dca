package router_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// A frame that middleware holds does not hold up the answers before it, and the
// frames behind it wait.
func TestAHeldFrame(t *testing.T) {
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
