package router_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// An ERROR has no id. Its type says which message failed.
func TestErrorsNameTheTypeThatFailed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	for _, tc := range []struct{ name, frame, want string }{
		{"payload not valid", `{"type":"room.join","payload":{"text":""}}`, "room.join"},
		{"payload of another JSON type", `{"type":"room.join","payload":7}`, "room.join"},
		{"handler's error", `{"type":"fails"}`, "fails"},
		{"handler's panic", `{"type":"panics"}`, "panics"},
		{"handler's rejection", `{"type":"rejects"}`, "rejects"},
		{"concurrent handler's error", `{"type":"beside"}`, "beside"},
		{"request without id", `{"type":"ask"}`, "ask"},
		{"not registered", `{"type":"chat.sned"}`, "chat.sned"},
		{"not registered, with escapes", `{"type":"a\u0001\"\u00e4"}`, "a\x01\"ä"},
		{"not registered, as long as allowed", `{"type":"` + long + `"}`, long},
		{"reserved", `{"type":"__other"}`, "__other"},
		{"abort without id", `{"type":"$ws:abort"}`, "$ws:abort"},
		{"refused by middleware", `{"type":"refused"}`, "refused"},
		{"refused by a limit", `{"type":"limited"}`, "limited"},
		{"refused by a limit, not registered", `{"type":"limited.other"}`, "limited.other"},
		{"refused by a limit, large", `{"type":"limited","payload":"` + strings.Repeat("x", 6<<10) + `"}`, "limited"},
		{"too large", `{"type":"room.join","payload":"` + strings.Repeat("x", 9<<10) + `"}`, "room.join"},
		{"too large, type too late", `{"payload":"` + strings.Repeat("x", 9<<10) + `","type":"room.join"}`, ""},
		{"not JSON after its type", `{"type":"room.join","payload":`, "room.join"},
		{"meta is not an object", `{"meta":7,"type":"room.join"}`, "room.join"},
		{"too long a type", `{"type":"` + long + `x"}`, ""},
		{"empty type", `{"type":""}`, ""},
		{"type that is no string", `{"type":7}`, ""},
		{"no type", `{}`, ""},
		{"not JSON", `hi`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inMemory(t, router.Options{Limits: router.Limits{MaxPayload: 8 << 10}, OnError: func(router.Fault) {}}, func(r *router.Router) {
				type join struct {
					Text string `json:"text" validate:"required"`
				}
				r.Use(func(next ingress.Handler) ingress.Handler {
					return func(c *ingress.Context) error {
						switch {
						case c.SentType() == "refused":
							return errors.PermissionDenied.New("refused")
						case strings.HasPrefix(c.SentType(), "limited"):
							return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, RetryAfter: time.Second})
						}
						return next(c)
					}
				})
				event := func(typ string, err error, opts ...router.RouteOptions) {
					router.On(r, typ, func(*router.Context, struct{}) error { return err }, opts...)
				}
				router.On(r, "room.join", func(*router.Context, join) error { return nil })
				router.On(r, "panics", func(*router.Context, struct{}) error { panic("on purpose") })
				router.RPC(r, "ask", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
				event("fails", errors.NotFound.New("no such room"))
				event("rejects", &errors.LimitExceeded{Kind: errors.LimitRate, RetryAfter: time.Second})
				event("beside", errors.NotFound.New("no such room"), router.RouteOptions{Concurrent: true})
				event("refused", nil)
				event("limited", nil)
			}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
				c.SendRaw(tc.frame)
				synctest.Wait()
				frames := c.Frames()
				if len(frames) != 1 || frames[0].Type != "ERROR" {
					t.Fatalf("answered with %v, want one ERROR", frames)
				}
				f := struct {
					Type *string `json:"type"`
				}{}
				if err := json.Unmarshal(frames[0].Payload, &f); err != nil {
					t.Fatal(err)
				}
				switch {
				case tc.want == "" && f.Type != nil:
					t.Errorf("the error names the type %q, want none: %s", *f.Type, frames[0].Raw)
				case tc.want != "" && (f.Type == nil || *f.Type != tc.want):
					t.Errorf("the error does not name the type %q: %s", tc.want, frames[0].Raw)
				}
			})
		})
	}
}

// The error of an event that is sent again is the first one's, type included.
func TestRepeatedErrorsNameTheType(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{Backend: adapters.Backend{Idempotency: memory.NewIdempotency()}}, func(r *router.Router) {
		router.On(r, "order", func(*router.Context, struct{}) error { return errors.NotFound.New("no such symbol") })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for range 2 {
			c.SendRaw(`{"type":"order","meta":{"idempotencyKey":"k"}}`)
			if f := c.ExpectError(errors.NotFound); f.Type != "order" {
				t.Errorf("the error names the type %q, want order", f.Type)
			}
		}
	})
}
