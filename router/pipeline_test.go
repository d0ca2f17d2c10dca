package router_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// observed is a payload that shows when it is decoded. Tests that count this are not parallel.
type observed struct {
	Text string `json:"text" validate:"required,max=8"`
}

var decoded atomic.Int64

func (o *observed) UnmarshalJSON(b []byte) error {
	decoded.Add(1)
	if len(b) == 0 || b[0] != '{' {
		return errors.New("not an object")
	}
	if i := strings.Index(string(b), `"text":"`); i >= 0 {
		rest := string(b)[i+8:]
		o.Text = rest[:strings.IndexByte(rest, '"')]
	}
	return nil
}

// exhausted is middleware that refuses every frame while on, and counts them.
type exhausted struct {
	on   atomic.Bool
	seen atomic.Int64
}

func (e *exhausted) middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		e.seen.Add(1)
		if e.on.Load() {
			return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 10, RetryAfter: 249500 * time.Microsecond})
		}
		return next(c)
	}
}

// A frame that would fail at several stages is answered by the first of them.
func TestStagesAnswerInOrder(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tc := range []struct {
		name          string
		limited, busy bool
		frame         string
		code          errors.Code
		details, not  string
	}{
		{"size before peek", true, true, `{"meta":{"correlationId":"id"},` + long, errors.ResourceExhausted, `"payload"`, ""},
		{"size before ingress", true, true, `{"type":"slow","meta":{"correlationId":"id"},"payload":{"text":"` + long + `"}}`, errors.ResourceExhausted, `"payload"`, ""},
		{"ingress before an unknown type", true, true, `{"type":"nope","meta":{"correlationId":"id"}}`, errors.ResourceExhausted, `"rate"`, ""},
		{"peek before in-flight", false, true, `{"type":7,"meta":{"correlationId":"id"},"payload":{"text":"toolong!!"}}`, errors.InvalidArgument, "", "fields"},
		{"ingress before in-flight", true, true, `{"type":"slow","meta":{"correlationId":"id"},"payload":3}`, errors.ResourceExhausted, `"rate"`, ""},
		{"in-flight before decode", false, true, `{"type":"slow","meta":{"correlationId":"id"},"payload":3}`, errors.ResourceExhausted, `"in_flight"`, ""},
		{"decode before validation", false, false, `{"type":"slow","meta":{"correlationId":"id"},"payload":3}`, errors.InvalidArgument, "", ""},
		{"validation before the handler", false, false, `{"type":"slow","meta":{"correlationId":"id"},"payload":{"text":"toolong!!"}}`, errors.InvalidArgument, `"max"`, ""},
		{"the handler last", false, false, `{"type":"slow","meta":{"correlationId":"id"},"payload":{"text":"ok"}}`, errors.NotFound, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var limiter exhausted
				var handled atomic.Int64
				r := router.New(router.Options{Limits: router.Limits{MaxPayload: 256, MaxInFlight: 1}})
				r.Use(limiter.middleware)
				router.RPC(r, "slow", func(c *router.Context, m observed) (struct{}, error) {
					handled.Add(1)
					if m.Text == "wait" {
						<-c.Done()
					}
					return struct{}{}, errors.NotFound.New("handler was reached")
				}, router.RouteOptions{Concurrent: tc.busy})
				c := routertest.New(t, r).Dial()
				var open *routertest.Request
				if tc.busy {
					open = c.Request("slow", map[string]string{"text": "wait"})
					synctest.Wait()
				}
				before, seen, was := decoded.Load(), limiter.seen.Load(), handled.Load()

				limiter.on.Store(tc.limited)
				c.SendRaw(tc.frame)
				f := routertest.ExpectFailure(c, "id")
				limiter.on.Store(false)

				if f.Code != tc.code || !strings.Contains(string(f.Details), tc.details) || tc.not != "" && strings.Contains(string(f.Details), tc.not) {
					t.Errorf("answered %s %s, want %s %s", f.Code, f.Details, tc.code, tc.details)
				}
				if got := limiter.seen.Load() - seen; got != 1 {
					t.Errorf("the frame was charged %d times, want once", got)
				}
				if decodes := decoded.Load() - before; tc.code == errors.ResourceExhausted && decodes != 0 {
					t.Errorf("the payload of a refused frame was decoded")
				}
				if ran := handled.Load() - was; (ran == 1) != (tc.code == errors.NotFound) {
					t.Errorf("the handler ran %d times", ran)
				}
				if open != nil {
					open.Abort()
					open.ExpectError(errors.Cancelled)
				}
			})
		})
	}
}

func TestRefusedFloodNeverDecodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limiter exhausted
		limiter.on.Store(true)
		var mu sync.Mutex
		var reported []router.LimitInfo
		r := router.New(router.Options{OnLimitExceeded: func(info router.LimitInfo) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, info)
		}})
		r.Use(limiter.middleware)
		router.On(r, "chat.send", func(*router.Context, observed) error { return nil })
		c := routertest.New(t, r).Dial()
		before := decoded.Load()
		const n = 1000
		for range n {
			c.Send("chat.send", map[string]string{"text": "hi"})
		}
		for range n {
			f := c.ExpectError(errors.ResourceExhausted)
			if !f.Retryable || f.RetryAfterMs == nil || *f.RetryAfterMs != 250 {
				t.Fatalf("got %+v, want retryable after 250 ms: 249.5 ms rounded up", f)
			}
		}
		synctest.Wait()
		if got := decoded.Load() - before; got != 0 {
			t.Errorf("%d payloads were decoded, want none", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reported) != n {
			t.Errorf("OnLimitExceeded was called %d times for %d rejections", len(reported), n)
		}
		if i := reported[0]; i.Type != "chat.send" || i.Kind != errors.LimitRate || i.Observed != 1 || i.Limit != 10 || i.Conn == nil {
			t.Errorf("OnLimitExceeded got %+v", i)
		}
		if s := r.Stats(); s.Rejected != n || s.Faults != 0 {
			t.Errorf("Stats are %+v, want %d rejected and no fault", s, n)
		}
	})
}

// The hook must not hold up the frames, whatever it does.
func TestLimitHookIsNeverAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limiter exhausted
		release := make(chan struct{})
		var faults atomic.Int64
		r := router.New(router.Options{
			OnLimitExceeded: func(router.LimitInfo) { <-release; panic("hook") },
			OnError:         func(router.Fault) { faults.Add(1) },
		})
		r.Use(limiter.middleware)
		router.RPC(r, "ping", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		c := routertest.New(t, r).Dial()
		limiter.on.Store(true)
		for range 3 {
			c.Request("ping", nil).ExpectError(errors.ResourceExhausted)
		}
		limiter.on.Store(false)
		routertest.ExpectReply[struct{}](c.Request("ping", nil))
		close(release)
		synctest.Wait()
		if faults.Load() != 3 {
			t.Errorf("%d faults for 3 panics of the hook", faults.Load())
		}
	})
}

func TestOnExceededClose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		code   errors.CloseCode
		frame  string
		want   errors.CloseCode
		reason string
	}{
		{"rate", 0, `{"type":"x"}`, 1013, `{"retryAfterMs":250}`},
		{"rate with a code of its own", 4429, `{"type":"x"}`, 4429, `{"retryAfterMs":250}`},
		{"payload", 0, `{"type":"` + strings.Repeat("x", 200) + `"}`, 1009, `{"retryAfterMs":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var limiter exhausted
				limiter.on.Store(true)
				r := router.New(router.Options{Limits: router.Limits{MaxPayload: 128, OnExceeded: router.OnExceededClose, CloseCode: tc.code}})
				r.Use(limiter.middleware)
				c := routertest.New(t, r).Dial()
				c.SendRaw(tc.frame)
				if reason := c.ExpectClose(tc.want); reason != tc.reason {
					t.Errorf("reason is %q, want %q", reason, tc.reason)
				}
				if f := c.Frames(); len(f) != 0 {
					t.Errorf("frames came before the close: %v", f)
				}
			})
		})
	}
}

func TestOnExceededCustomLeavesItToTheHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limiter exhausted
		limiter.on.Store(true)
		r := router.New(router.Options{
			Limits:          router.Limits{OnExceeded: router.OnExceededCustom},
			OnLimitExceeded: func(i router.LimitInfo) { _ = i.Conn.Send("slow.down", nil) },
		})
		r.Use(limiter.middleware)
		c := routertest.New(t, r).Dial()
		c.SendRaw(`{"type":"x","meta":{"correlationId":"1"}}`)
		routertest.ExpectEvent[struct{}](c, "slow.down")
		synctest.Wait()
		if f := c.Frames(); len(f) != 0 {
			t.Errorf("the router sent %v", f)
		}
	})
}

// A rejection that a handler or its middleware returns is one all the same.
func TestRejectionFromAHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New()
		router.RPC(r, "costly", func(*router.Context, struct{}) (struct{}, error) {
			return struct{}{}, errors.Join(errors.New("outer"), &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 5, Limit: 3, Never: true})
		})
		c := routertest.New(t, r).Dial()
		f := c.Request("costly", nil).ExpectError(errors.FailedPrecondition)
		if f.Retryable || f.RetryAfterMs != nil {
			t.Errorf("got %+v, want not retryable", f)
		}
		if s := r.Stats(); s.Rejected != 1 || s.Faults != 0 {
			t.Errorf("Stats are %+v", s)
		}
	})
}

// A request that is open can be aborted whatever the application's middleware refuses, any number of times.
func TestAnAbortIsNotRefused(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "$ws:abort" {
					return errors.PermissionDenied.New("not now")
				}
				return next(c)
			}
		})
		router.RPC(r, "slow", func(c *router.Context, _ struct{}) (int, error) { <-c.Done(); return 7, nil })
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		const n = 2500
		for range n {
			q := c.Request("slow", nil)
			q.Abort()
			q.ExpectError(errors.Cancelled)
		}
	})
}

// Messages of the protocol pass the middleware only where a client sends more of them than it needs: then like any other.
func TestMessagesOfTheProtocolAreLimited(t *testing.T) {
	t.Parallel()
	var charged atomic.Int64
	inMemory(t, router.Options{}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if charged.Add(1); c.Type != "__heartbeat" {
					t.Errorf("%s is charged", c.Type)
				}
				return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: time.Second})
			}
		})
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		beat := func(n int) (answered, refused int) {
			for range n {
				c.SendRaw(`{"type":"__heartbeat"}`)
			}
			synctest.Wait()
			for _, f := range c.Frames() {
				switch f.Type {
				case "__heartbeat_ack":
					answered++
				case "ERROR":
					refused++
				}
			}
			return answered, refused
		}
		for range 100 { // as a client does
			time.Sleep(10 * time.Second)
			if _, refused := beat(1); refused > 0 {
				t.Fatal("a heartbeat is refused")
			}
		}
		answered, refused := beat(5000)
		if answered < 900 || answered > 1001 || answered+refused != 5000 || charged.Load() != int64(refused) {
			t.Errorf("of 5,000 at once %d are answered, %d refused, %d charged", answered, refused, charged.Load())
		}
		time.Sleep(100 * time.Second)
		if answered, _ = beat(5000); answered < 99 || answered > 101 {
			t.Errorf("100 s later %d are answered", answered)
		}
		time.Sleep(20 * time.Hour)
		if answered, _ = beat(5000); answered < 900 || answered > 1001 {
			t.Errorf("20 h later %d are answered", answered)
		}
	})
}

func TestAnAbortThatIsTooLargeIsNotTheAnswer(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{Limits: router.Limits{MaxPayload: 256}}, func(r *router.Router) {
		router.RPC(r, "slow", func(*router.Context, struct{}) (int, error) { time.Sleep(time.Second); return 7, nil })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		q := c.Request("slow", nil)
		c.SendRaw(`{"type":"$ws:abort","meta":{"correlationId":"` + q.ID + `"},"payload":"` + strings.Repeat("x", 600) + `"}`)
		c.ExpectError(errors.ResourceExhausted)
		if n := routertest.ExpectReply[int](q); n != 7 {
			t.Error(n)
		}
	})
}

func TestMiddlewareThatSwallowsAFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var faults atomic.Int64
		r := router.New(router.Options{OnError: func(router.Fault) { faults.Add(1) }})
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "swallowed" {
					return nil
				}
				if c.Type == "panics" {
					panic("middleware")
				}
				return next(c)
			}
		})
		for _, typ := range []string{"swallowed", "panics", "inner"} {
			router.RPC(r, typ, func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		}
		r.UseHandler(func(next router.Handler) router.Handler {
			return func(c *router.Context) error {
				if c.Type() == "inner" {
					return nil
				}
				return next(c)
			}
		})
		c := routertest.New(t, r).Dial()
		for _, typ := range []string{"swallowed", "panics", "inner"} {
			if f := c.Request(typ, nil).ExpectError(errors.Internal); f.Message != "internal error" {
				t.Errorf("%s: the message is %q", typ, f.Message)
			}
		}
		if faults.Load() != 3 {
			t.Errorf("%d faults were reported, want 3", faults.Load())
		}
	})
}

// halfEncoded is a reply whose encoding fails when a part of it is written.
type halfEncoded struct {
	Text string
	Last brokenMember
}

type brokenMember struct{}

func (brokenMember) MarshalJSON() ([]byte, error) { return nil, errors.New("does not encode") }

// A handler's error that middleware drops leaves a reply without a payload, and the same where the reply was half
// encoded.
func TestMiddlewareThatDropsAnError(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		r.UseHandler(func(next router.Handler) router.Handler {
			return func(c *router.Context) error { _ = next(c); return nil }
		})
		router.RPC(r, "fails", func(*router.Context, struct{}) (string, error) { return "", errors.New("fails") })
		router.RPC(r, "half", func(*router.Context, struct{}) (halfEncoded, error) {
			return halfEncoded{Text: strings.Repeat("x", 10_000)}, nil
		})
		router.RPC(r, "whole", func(*router.Context, struct{}) (string, error) { return "yes", nil })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for _, typ := range []string{"fails", "half"} {
			c.Request(typ, nil)
			if f := c.ExpectAny(typ + ".reply"); len(f.Payload) != 0 {
				t.Errorf("%s: got %+v, want a reply without a payload", typ, f)
			}
		}
		if got := routertest.ExpectReply[string](c.Request("whole", nil)); got != "yes" {
			t.Errorf("the next reply is %q", got)
		}
	})
}
