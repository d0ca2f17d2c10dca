package router_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// banned is a rejection that closes the connection.
var banned = errors.LimitExceeded{
	Kind: errors.LimitBanned, Observed: 5, Limit: 5, RetryAfter: 90 * time.Second, Close: errors.CloseTooManyRequests,
}

// rejections collects what OnLimitExceeded gets.
type rejections struct {
	mu   sync.Mutex
	info []router.LimitInfo
}

func (o *rejections) hook(i router.LimitInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.info = append(o.info, i)
}

func (o *rejections) all() []router.LimitInfo {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.info
}

// A rejection with a close code closes the connection with it and the wait as the
// reason, wherever it comes from and whatever OnExceeded says; the hook is called once.
func TestARejectionThatCloses(t *testing.T) {
	t.Parallel()
	reject := func(*router.Context, struct{}) error { e := banned; return fmt.Errorf("room: %w", &e) }
	for _, tc := range []struct {
		name, frame string
		ingress     bool
	}{
		{"event in ingress", `{"type":"event"}`, true},
		{"request in ingress", `{"type":"request","meta":{"correlationId":"1"}}`, true},
		{"too large a frame in ingress", `{"type":"event","payload":"` + strings.Repeat("x", 200) + `"}`, true},
		{"bad frame in ingress", `{"type":`, true},
		{"unknown type in ingress", `{"type":"made.up"}`, true},
		{"event in the handler", `{"type":"event"}`, false},
		{"request in the handler", `{"type":"request","meta":{"correlationId":"1"}}`, false},
		{"event beside others", `{"type":"beside"}`, false},
	} {
		for name, on := range map[string]router.OnExceeded{"Send": router.OnExceededSend, "Close": router.OnExceededClose, "Custom": router.OnExceededCustom} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				var reported rejections
				inMemory(t, router.Options{
					OnLimitExceeded: reported.hook,
					Limits:          router.Limits{OnExceeded: on, MaxPayload: 128},
				}, func(r *router.Router) {
					r.Use(func(next ingress.Handler) ingress.Handler {
						return func(c *ingress.Context) error {
							if tc.ingress {
								return c.Reject(banned)
							}
							return next(c)
						}
					})
					router.On(r, "event", reject)
					router.On(r, "beside", reject, router.RouteOptions{Concurrent: true})
					router.RPC(r, "request", func(c *router.Context, q struct{}) (struct{}, error) { return q, reject(c, q) })
				}, func(t *testing.T, r *router.Router, c *routertest.Client) {
					c.SendRaw(tc.frame)
					if reason := c.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":90000}` {
						t.Errorf("the reason is %s", reason)
					}
					synctest.Wait()
					if f := c.Frames(); len(f) > 0 {
						t.Errorf("frames came before the close: %v", f)
					}
					if info := reported.all(); len(info) != 1 || info[0].LimitExceeded != banned {
						t.Errorf("OnLimitExceeded got %+v", info)
					}
					if s := r.Stats(); s.Rejected != 1 || s.Faults != 0 {
						t.Errorf("Stats are %+v", s)
					}
				})
			})
		}
	}
}

// A rejection without a wait does not say that the wait is 0, in a frame and in a reason.
func TestARejectionWithoutAWait(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		l := errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1}
		if closes {
			l.Close = errors.CloseTooManyRequests
		}
		inMemory(t, router.Options{}, func(r *router.Router) {
			r.Use(func(ingress.Handler) ingress.Handler {
				return func(c *ingress.Context) error { return c.Reject(l) }
			})
		}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
			r := c.Request("anything", nil)
			if closes {
				if reason := c.ExpectClose(errors.CloseTooManyRequests); reason != "" {
					t.Errorf("the reason is %s", reason)
				}
			} else if f := r.ExpectError(errors.ResourceExhausted); !f.Retryable || f.RetryAfterMs != nil {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A request that has been answered meanwhile does not hide the rejection that its
// handler returns.
func TestARejectionAfterTheAnswer(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]errors.CloseCode{"goes on": 0, "closes": errors.CloseTooManyRequests} {
		t.Run(name, func(t *testing.T) {
			var reported rejections
			inMemory(t, router.Options{OnLimitExceeded: reported.hook}, func(r *router.Router) {
				router.RPC(r, "slow", func(c *router.Context, _ struct{}) (struct{}, error) {
					<-c.Done()
					e := banned
					e.Close = code
					return struct{}{}, &e
				})
				router.RPC(r, "ping", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			}, func(t *testing.T, r *router.Router, c *routertest.Client) {
				q := c.Request("slow", nil)
				q.Abort()
				q.ExpectError(errors.Cancelled)
				if code != 0 {
					c.ExpectClose(code)
				} else {
					routertest.ExpectReply[struct{}](c.Request("ping", nil))
				}
				synctest.Wait()
				if info := reported.all(); len(info) != 1 || info[0].Close != code {
					t.Errorf("OnLimitExceeded got %+v", info)
				}
			})
		})
	}
}

// A code that no frame may hold does not bring the connection down.
func TestARejectionWithAnInvalidCloseCode(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		router.On(r, "event", func(*router.Context, struct{}) error {
			return &errors.LimitExceeded{Kind: errors.LimitRate, RetryAfter: time.Second, Close: 1006}
		})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for range 2 {
			c.Send("event", nil)
			c.ExpectError(errors.ResourceExhausted)
		}
	})
}

func TestARejectionByOnOpenCloses(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{OnOpen: func(*router.Conn) error { e := banned; return &e }}, func(*router.Router) {},
		func(t *testing.T, _ *router.Router, c *routertest.Client) {
			if reason := c.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":90000,"message":"banned for a time"}` {
				t.Errorf("the reason is %s", reason)
			}
		})
}
