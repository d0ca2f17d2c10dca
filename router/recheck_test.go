package router_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// After a renewal, topics end to which the user has lost the right. What could not be found out ends nothing: it is asked again.
func TestRecheck(t *testing.T) {
	unknown := map[string]error{
		"unavailable": errors.Unavailable.New("the database is away"), "fault": errors.New("a fault"), "late": context.DeadlineExceeded,
	}
	for name, err := range unknown {
		t.Run(name, func(t *testing.T) {
			var calls, works atomic.Int32
			opts := authenticated(router.Options{
				OnError: func(router.Fault) {},
				Recheck: func(_ context.Context, c *router.Conn, topic string) error {
					calls.Add(1)
					switch {
					case topic == "gone":
						return errors.PermissionDenied.New("no")
					case topic == "stays":
						return nil
					case works.Load() == 0 && calls.Load()%2 == 0:
						panic("on purpose")
					case works.Load() == 0:
						return err
					}
					return errors.NotFound.New("no such room")
				},
			})
			renewing(t, opts, "acme/ann/user/", func(t *testing.T, r *router.Router, c *routertest.Client) {
				topics := []string{"gone", "stays", "unknown"}
				if n, err := r.User("acme", "ann").Subscribe(t.Context(), topics...); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				ended := func() (all []string) {
					synctest.Wait()
					for _, f := range c.Frames() {
						if f.Type == "$ws:unsubscribed" {
							all = append(all, string(f.Payload))
						}
					}
					return all
				}
				for range 3 { // longer than the first pauses
					time.Sleep(time.Second)
				}
				if got := ended(); len(got) > 0 || calls.Load() > 0 {
					t.Fatalf("before a renewal: %q", got)
				}
				routertest.ExpectReply[struct{}](c.Request("$ws:renew", map[string]string{"token": "acme/ann/user/"}))
				time.Sleep(10 * time.Minute)
				if got := ended(); !slices.Equal(got, []string{`{"topic":"gone","reason":"revoked"}`}) {
					t.Errorf("ended: %q", got)
				}
				if n := calls.Load(); n < 10 || n > 30 {
					t.Errorf("%d calls in ten minutes", n)
				}
				works.Store(1)
				time.Sleep(time.Minute)
				if got := ended(); !slices.Equal(got, []string{`{"topic":"unknown","reason":"revoked"}`}) {
					t.Errorf("ended: %q", got)
				}
				if n := r.LocalSubscribers("stays"); n != 1 {
					t.Errorf("%d members", n)
				}
				done := calls.Load()
				time.Sleep(time.Hour)
				if calls.Load() != done {
					t.Error("it is called again")
				}
			})
		})
	}
}

func TestRecheckNeedsRenew(t *testing.T) {
	defer func() {
		if v := recover(); v == nil {
			t.Error("Recheck without Renew is ignored in silence")
		}
	}()
	router.New(router.Options{Recheck: func(context.Context, *router.Conn, string) error { return nil }})
}
