package router_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type text struct {
	Text string `json:"text"`
}

// inMemory runs a test against a router in a bubble of fake time.
func inMemory(t *testing.T, opts router.Options, routes func(*router.Router), test func(*testing.T, *router.Router, *routertest.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(opts)
		routes(r)
		test(t, r, routertest.New(t, r).Dial())
	})
}

// What clients validate holds type, meta and payload, in meta the correlation id,
// and nothing else.
func TestFramesAsOnTheWire(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "room.join", func(c *router.Context, q text) (text, error) {
			if err := c.Progress(map[string]int{"n": 1}); err != nil {
				return text{}, err
			}
			return text{"joined"}, nil
		}, router.RouteOptions{Reply: "room.joined"})
		router.RPC(r, "room.leave", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		router.RPC(r, "missing", func(*router.Context, struct{}) (struct{}, error) {
			return struct{}{}, errors.NotFound.New("no such room")
		})
		router.RPC(r, "busy", func(*router.Context, struct{}) (struct{}, error) {
			return struct{}{}, errors.Unavailable.New("later").WithRetryAfter(1500 * time.Microsecond).WithDetails(map[string]string{"shard": "a"})
		})
		router.On(r, "fails", func(*router.Context, text) error { return errors.AlreadyExists.New("twice") })
		router.On(r, "says", func(c *router.Context, m text) error { return c.Send("said", m) })
		router.On(r, "bare", func(c *router.Context, _ struct{}) error { return c.Send("bared", struct{}{}) })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for _, tc := range []struct {
			name, in string
			out      []string
		}{
			{"reply", `{"type":"room.join","meta":{"timestamp":1,"correlationId":"02b7","clientId":"x","receivedAt":9},"payload":{"text":"a"}}`, []string{
				`{"type":"$ws:rpc-progress","meta":{"correlationId":"02b7"},"data":{"n":1},"payload":{"n":1}}`,
				`{"type":"room.joined","meta":{"correlationId":"02b7"},"payload":{"text":"joined"}}`}},
			{"reply without payload", `{"type":"room.leave","meta":{"correlationId":"é\"\u0041"}}`, []string{
				`{"type":"room.leave.reply","meta":{"correlationId":"é\"\u0041"}}`}},
			{"rpc error", `{"type":"missing","meta":{"correlationId":"3"}}`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"3"},"payload":{"code":"NOT_FOUND","message":"no such room","retryable":false}}`}},
			{"retry advice", `{"type":"busy","meta":{"correlationId":"4"},"payload":null}`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"4"},"payload":{"code":"UNAVAILABLE","message":"later","retryable":true,"retryAfterMs":2,"details":{"shard":"a"}}}`}},
			{"failed event", `{"type":"fails","payload":{"text":"a"}}`, []string{
				`{"type":"ERROR","payload":{"type":"fails","code":"ALREADY_EXISTS","message":"twice","retryable":false}}`}},
			{"failed event with an id", `{"type":"fails","meta":{"correlationId":"5"},"payload":{"text":"a"}}`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"5"},"payload":{"code":"ALREADY_EXISTS","message":"twice","retryable":false}}`}},
			{"event", `{"payload":{"text":"<&>"},"type":"says","meta":null}`, []string{`{"type":"said","payload":{"text":"<&>"}}`}},
			{"event without payload", `{"type":"bare","meta":{}}`, []string{`{"type":"bared"}`}},
			{"request without id", `{"type":"missing"}`, []string{
				`{"type":"ERROR","payload":{"type":"missing","code":"INVALID_ARGUMENT","message":"request has no meta.correlationId; the type has an answer: use request, not send","retryable":false}}`}},
			{"a slip", `{"type":"sasy","meta":{"correlationId":"6"}}`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"6"},"payload":{"code":"UNIMPLEMENTED","message":"message type is not known; \"says\" is","retryable":false}}`}},
			{"unknown type", `{"type":"nope","meta":{"correlationId":"6"}}`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"6"},"payload":{"code":"UNIMPLEMENTED","message":"message type is not known","retryable":false}}`}},
			{"reserved type", `{"type":"RPC_ERROR","meta":{"correlationId":"7"}}`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"7"},"payload":{"code":"INVALID_ARGUMENT","message":"message type is reserved for the protocol","retryable":false}}`}},
			{"reserved prefix", `{"type":"$ws:rpc-progress"}`, []string{
				`{"type":"ERROR","payload":{"type":"$ws:rpc-progress","code":"INVALID_ARGUMENT","message":"message type is reserved for the protocol","retryable":false}}`}},
			{"bad JSON after its id", `{"meta":{"correlationId":"8"},"type":`, []string{
				`{"type":"RPC_ERROR","meta":{"correlationId":"8"},"payload":{"code":"INVALID_ARGUMENT","message":"frame is not valid JSON, or a name in it repeats","retryable":false}}`}},
			{"abort of nothing", `{"type":"$ws:abort","meta":{"correlationId":"9"}}`, nil},
			{"abort without id", `{"type":"$ws:abort"}`, []string{
				`{"type":"ERROR","payload":{"type":"$ws:abort","code":"INVALID_ARGUMENT","message":"request has no meta.correlationId","retryable":false}}`}},
			{"heartbeat", `{"type":"__heartbeat"}`, []string{`{"type":"__heartbeat_ack","meta":{"ts":946684800000}}`}},
		} {
			c.SendRaw(tc.in)
			synctest.Wait()
			var got []string
			for _, f := range c.Frames() {
				got = append(got, string(f.Raw))
			}
			if strings.Join(got, "\n") != strings.Join(tc.out, "\n") {
				t.Errorf("%s:\n got %s\nwant %s", tc.name, strings.Join(got, "\n     "), strings.Join(tc.out, "\n     "))
			}
		}
	})
}

func TestUncodedErrorsNeverLeaveTheServer(t *testing.T) {
	t.Parallel()
	var faults atomic.Int64
	inMemory(t, router.Options{OnError: func(f router.Fault) {
		faults.Add(1)
		if f.Type == "panics" && f.Stack == nil {
			t.Error("the fault of a panic has no stack")
		}
	}}, func(r *router.Router) {
		router.RPC(r, "fails", func(*router.Context, struct{}) (struct{}, error) {
			return struct{}{}, errors.New("secret")
		})
		router.RPC(r, "panics", func(*router.Context, struct{}) (struct{}, error) { panic("secret") })
		router.RPC(r, "unencodable", func(*router.Context, struct{}) (any, error) { return func() {}, nil })
		router.RPC(r, "coded", func(*router.Context, struct{}) (any, error) {
			return nil, errors.Internal.New("secret").WithDetails("secret")
		})
		router.RPC(r, "bad details", func(*router.Context, struct{}) (any, error) {
			return nil, errors.NotFound.New("as returned").WithDetails(func() {})
		})
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		for _, typ := range []string{"fails", "panics", "unencodable", "coded"} {
			f := c.Request(typ, nil).ExpectError(errors.Internal)
			if f.Message != "internal error" || f.Retryable || f.Details != nil {
				t.Errorf("%s is answered %+v", typ, f)
			}
		}
		if f := c.Request("bad details", nil).ExpectError(errors.NotFound); f.Message != "as returned" || f.Details != nil {
			t.Errorf("an error whose details do not encode is answered %+v", f)
		}
		if faults.Load() != 5 {
			t.Errorf("%d faults were reported, want 5", faults.Load())
		}
	})
}

func TestAbortCancelsTheHandler(t *testing.T) {
	t.Parallel()
	var cause atomic.Value
	inMemory(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "wait", func(c *router.Context, _ struct{}) (text, error) {
			<-c.Done()
			cause.Store(c.Err())
			_ = c.Progress("after the answer")
			return text{"too late"}, nil
		})
		router.RPC(r, "ping", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		q := c.Request("wait", nil)
		waiting := c.Request("wait", nil) // in line behind it
		synctest.Wait()
		router.DetachHandlers(r)
		synctest.Wait()
		waiting.Abort()
		if f := waiting.ExpectError(errors.Cancelled); f.Retryable {
			t.Errorf("CANCELLED is %+v", f)
		}
		q.Abort()
		q.ExpectError(errors.Cancelled)
		routertest.ExpectReply[struct{}](c.Request("ping", nil))
		synctest.Wait()
		if f := c.Frames(); len(f) != 0 {
			t.Errorf("a second answer came: %v", f)
		}
		if cause.Load() != context.Canceled {
			t.Errorf("the handler's context ended with %v", cause.Load())
		}
	})
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{RequestTimeout: 3 * time.Second}, func(r *router.Router) {
		hang := func(c *router.Context, _ struct{}) (text, error) {
			time.Sleep(time.Minute) // takes no notice of its context
			return text{}, c.Err()
		}
		router.RPC(r, "hangs", hang, router.RouteOptions{Concurrent: true})
		router.RPC(r, "hangs.long", hang, router.RouteOptions{Concurrent: true, Timeout: 8 * time.Second})
		router.RPC(r, "hangs.ever", hang, router.RouteOptions{Concurrent: true, Timeout: -1})
		router.RPC(r, "polite", func(c *router.Context, _ struct{}) (text, error) {
			<-c.Done()
			return text{}, c.Err()
		}, router.RouteOptions{Concurrent: true})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for _, tc := range []struct {
			typ, meta string
			want      time.Duration
		}{
			{"hangs", "", 3 * time.Second},
			{"hangs", `,"timeoutMs":250`, 250 * time.Millisecond},
			{"hangs", `,"timeoutMs":99999`, 3 * time.Second},
			{"hangs.long", "", 8 * time.Second},
			{"hangs.ever", `,"timeoutMs":40`, 40 * time.Millisecond},
			{"polite", `,"timeoutMs":1e300`, 3 * time.Second},
			{"polite", `,"timeoutMs":1`, time.Millisecond},
		} {
			start := time.Now()
			c.SendRaw(`{"type":"` + tc.typ + `","meta":{"correlationId":"x"` + tc.meta + `}}`)
			f := routertest.ExpectFailure(c, "x")
			if f.Code != errors.DeadlineExceeded || !f.Retryable {
				t.Errorf("%s%s is answered %+v", tc.typ, tc.meta, f)
			}
			if took := time.Since(start); took != tc.want {
				t.Errorf("%s%s is answered after %v, want %v", tc.typ, tc.meta, took, tc.want)
			}
		}
		time.Sleep(2 * time.Minute)
		if f := c.Frames(); len(f) != 0 {
			t.Errorf("second answers came: %v", f)
		}
	})
}

// The messages of a connection are handled in order, however long each takes,
// while the connection is still read.
func TestOrderWithinAConnection(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		router.On(r, "step", func(c *router.Context, m struct{ N, Ms int }) error {
			time.Sleep(time.Duration(m.Ms) * time.Millisecond)
			return c.Send("done", m)
		})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for n := range 200 {
			c.Send("step", map[string]int{"N": n, "Ms": n * 7 % 5 * 3})
		}
		start := time.Now()
		c.SendRaw(`{"type":"__heartbeat"}`)
		c.ExpectAny("__heartbeat_ack")
		if time.Since(start) > 100*time.Millisecond {
			// Events wait for their turn up to the in-flight limit; past it the
			// connection is not read, so the heartbeat may wait for some of them.
			t.Logf("the heartbeat took %v", time.Since(start))
		}
		for n := range 200 {
			if m := routertest.ExpectEvent[struct{ N int }](c, "done"); m.N != n {
				t.Fatalf("message %d was handled when %d was due", m.N, n)
			}
		}
	})
}

// An answer that is ready does not wait for the handler of a later message.
func TestAnswersDoNotWaitForLaterHandlers(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "quick", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		router.RPC(r, "slow", func(*router.Context, struct{}) (struct{}, error) {
			time.Sleep(5 * time.Second)
			return struct{}{}, nil
		})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		start := time.Now()
		quick := c.Request("quick", nil)
		slow := c.Request("slow", nil)
		routertest.ExpectReply[struct{}](quick)
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("the quick answer took %v", took)
		}
		routertest.ExpectReply[struct{}](slow)
	})
}

func TestConcurrentRoutes(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{Limits: router.Limits{MaxInFlight: 3}}, func(r *router.Router) {
		router.RPC(r, "slow", func(c *router.Context, m text) (text, error) {
			time.Sleep(time.Second)
			return m, c.Err()
		}, router.RouteOptions{Concurrent: true})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		start := time.Now()
		var open []*routertest.Request
		for _, s := range []string{"a", "b", "c"} {
			open = append(open, c.Request("slow", text{s}))
		}
		f := c.Request("slow", text{"d"}).ExpectError(errors.ResourceExhausted)
		if !f.Retryable || f.RetryAfterMs == nil || !strings.Contains(string(f.Details), "in_flight") {
			t.Errorf("too many in flight is answered %+v", f)
		}
		for i, q := range open {
			if got := routertest.ExpectReply[text](q); got.Text != string(rune('a'+i)) {
				t.Errorf("request %d is answered %q", i, got.Text)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("three requests of a second each took %v", took)
		}
		routertest.ExpectReply[text](c.Request("slow", text{"e"}))
	})
}

func TestMiddlewareOfHandlersSeesTheMessage(t *testing.T) {
	t.Parallel()
	var trail []string
	mark := func(name string) router.Middleware {
		return func(next router.Handler) router.Handler {
			return func(c *router.Context) error {
				trail = append(trail, name+":"+c.Message().(*text).Text)
				err := next(c)
				trail = append(trail, name+" done")
				return err
			}
		}
	}
	inMemory(t, router.Options{}, func(r *router.Router) {
		route := r.Group("")
		route.UseHandler(mark("route"))
		router.RPC(route, "echo", func(_ *router.Context, m text) (text, error) {
			trail = append(trail, "handler")
			return m, nil
		})
		r.UseHandler(mark("outer"), mark("inner")) // after the route, and still around it
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		routertest.ExpectReply[text](c.Request("echo", text{"hi"}))
		want := "outer:hi inner:hi route:hi handler route done inner done outer done"
		if got := strings.Join(trail, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// Middleware before decoding runs in the order in which it was added, also over several calls.
// SentType is the text of the client, for each frame its own.
func TestOrderOfIngressMiddleware(t *testing.T) {
	t.Parallel()
	var trail []string
	mark := func(name string) ingress.Middleware {
		return func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				trail = append(trail, name+":"+c.Type+":"+c.SentType())
				defer func() { trail = append(trail, name+" done") }()
				return next(c)
			}
		}
	}
	inMemory(t, router.Options{}, func(r *router.Router) {
		r.Use(mark("first"), mark("second"))
		r.Use(mark("third"))
		router.RPC(r, "echo", func(_ *router.Context, m text) (text, error) { return m, nil })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		c.Send("unknown", nil)
		routertest.ExpectReply[text](c.Request("echo", text{"hi"}))
		want := "first::unknown second::unknown third::unknown third done second done first done " +
			"first:echo:echo second:echo:echo third:echo:echo third done second done first done"
		if got := strings.Join(trail, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestKeysReachTheConnectionFromEverywhere(t *testing.T) {
	t.Parallel()
	var session = ingress.NewKey[int]()
	var inMiddleware atomic.Int64
	inMemory(t, router.Options{
		OnOpen: func(c *router.Conn) error { session.Set(c.Identity(), 1); return nil },
	}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				n, _ := session.Get(&c.Identity)
				inMiddleware.Store(int64(n))
				return next(c)
			}
		})
		router.RPC(r, "count", func(c *router.Context, _ struct{}) (int, error) {
			n, _ := session.Get(c.Identity)
			session.Set(c.Identity, n+1)
			return n, nil
		})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for want := 1; want <= 3; want++ {
			if got := routertest.ExpectReply[int](c.Request("count", nil)); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			if got := inMiddleware.Load(); got != int64(want) {
				t.Errorf("middleware saw %d, want %d", got, want)
			}
		}
	})
}

// Events of a concurrent route are bounded like requests, but by not reading on.
func TestConcurrentEventsAreBounded(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	inMemory(t, router.Options{Limits: router.Limits{MaxInFlight: 4}}, func(r *router.Router) {
		router.On(r, "slow", func(*router.Context, struct{}) error {
			now := running.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			running.Add(-1)
			return nil
		}, router.RouteOptions{Concurrent: true})
		router.RPC(r, "ping", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for range 40 {
			c.Send("slow", nil)
		}
		routertest.ExpectReply[struct{}](c.Request("ping", nil))
		if most.Load() != 4 {
			t.Errorf("%d events were handled at once, want 4", most.Load())
		}
	})
}

// A message may be a pointer to its type, tags included.
func TestPointerMessages(t *testing.T) {
	t.Parallel()
	type inner struct {
		ID string `json:"id" validate:"required"`
	}
	type order struct {
		inner
		Items []inner `json:"items" validate:"dive"`
	}
	inMemory(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "order", func(_ *router.Context, o *order) (string, error) {
			if o == nil {
				return "none", nil
			}
			return o.ID, nil
		})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		if got := routertest.ExpectReply[string](c.Request("order", map[string]any{"id": "a"})); got != "a" {
			t.Errorf("got %q", got)
		}
		if got := routertest.ExpectReply[string](c.Request("order", nil)); got != "none" {
			t.Errorf("without a payload: got %q", got)
		}
		f := c.Request("order", map[string]any{"items": []any{map[string]any{"id": ""}}}).ExpectError(errors.InvalidArgument)
		if want := `{"fields":[{"path":"id","rule":"required"},{"path":"items.0.id","rule":"required"}]}`; string(f.Details) != want {
			t.Errorf("details are %s, want %s", f.Details, want)
		}
	})
}
