package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type (
	traceKey struct{}
	stepKey  struct{}
)

// traced is HTTP middleware that puts a trace id into the context of a request.
func traced(next http.Handler, also func(*http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = req.WithContext(context.WithValue(req.Context(), traceKey{}, req.Header.Get("X-Trace-Id")))
		if also != nil {
			also(req)
		}
		next.ServeHTTP(w, req)
	})
}

// behind serves a router behind HTTP middleware.
func behind(t *testing.T, r *router.Router, wrap func(http.Handler) http.Handler) *socketServer {
	hs := httptest.NewServer(wrap(r))
	t.Cleanup(func() {
		_ = r.Shutdown(context.Background())
		hs.Close()
	})
	s := &socketServer{t: t, r: r, addr: hs.Listener.Addr().String()}
	t.Cleanup(s.hangUpAll)
	return s
}

// What HTTP middleware put into the context of the request is in every context of the
// connection, each with its own, for as long as it is open and in OnClose; that the request has
// ended cancels none of them. Without ConnContext there is nothing.
func TestValuesOfTheHandshake(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{true, false} {
		var places journal
		ended := make(chan string, 1)
		note := func(place string, ctx context.Context) {
			trace, _ := ctx.Value(traceKey{}).(string)
			places.add(place + " " + trace)
			if err := context.Cause(ctx); err != nil {
				places.add(place + " is cancelled")
			}
		}
		opts := router.Options{
			OnOpen: func(c *router.Conn) error {
				note("OnOpen", c.Context())
				return nil
			},
			OnClose: func(c *router.Conn, _ router.CloseInfo) {
				trace, _ := c.Context().Value(traceKey{}).(string)
				ended <- trace
			},
		}
		if set {
			opts.Handshake.ConnContext = (*http.Request).Context
		}
		r := router.New(opts)
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				note("before decoding", c.Context())
				return next(c)
			}
		})
		router.RPC(r, "echo", func(c *router.Context, m said) (said, error) {
			note("handler", c)
			child, cancel := context.WithCancel(c)
			defer cancel()
			note("child", child)
			note("detached", c.Detach())
			note("connection", c.Conn().Context())
			return m, nil
		})
		requestEnded := make(chan struct{})
		s := behind(t, r, func(next http.Handler) http.Handler {
			return traced(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				next.ServeHTTP(w, req)
				go func() {
					<-req.Context().Done()
					requestEnded <- struct{}{}
				}()
			}), nil)
		})
		for i := range 3 {
			trace := fmt.Sprint("trace-", i)
			p := s.dial("X-Trace-Id: " + trace)
			<-requestEnded // net/http has cancelled the context of the request
			p.write(echo("1", "a"))
			p.expect("reply 1 a") // behind a handler that takes its time, another goroutine reads
			p.write(echo("2", "b"))
			p.expect("reply 2 b")
			p.bye()
			if !set {
				trace = ""
			}
			var want []string
			for range 2 {
				for _, place := range []string{"before decoding", "handler", "child", "detached", "connection"} {
					want = append(want, place+" "+trace)
				}
			}
			if got := places.take(); strings.Join(got, ",") != strings.Join(append([]string{"OnOpen " + trace}, want...), ",") {
				t.Errorf("with ConnContext %v: %q", set, got)
			}
			if got := <-ended; got != trace {
				t.Errorf("with ConnContext %v: OnClose has %q", set, got)
			}
		}
	}
}

// A connection does not hold the request that it was opened with, whether it has its values or not.
func TestTheRequestIsNotHeld(t *testing.T) {
	for name, connContext := range map[string]func(*http.Request) context.Context{
		"default": nil, "all values": (*http.Request).Context,
	} {
		requests := make(chan weak.Pointer[http.Request], 1)
		s := behind(t, router.New(router.Options{Handshake: router.Handshake{ConnContext: connContext}}), func(next http.Handler) http.Handler {
			return traced(next, func(req *http.Request) { requests <- weak.Make(req) })
		})
		s.dial("X-Trace-Id: a")
		eventually(t, name+": the connection to be open", func() bool { return s.r.Stats().Connections == 1 })
		req := <-requests
		eventually(t, name+": the request to be collected", func() bool {
			runtime.GC()
			return req.Value() == nil
		})
		if n := s.r.Stats().Connections; n != 1 {
			t.Errorf("%s: %d connections are open", name, n)
		}
	}
}

// A hook that panics refuses the handshake, and one that returns nil has no values.
func TestConnContextThatFails(t *testing.T) {
	t.Parallel()
	faults := make(chan router.Fault, 1)
	for status, hook := range map[int]func(*http.Request) context.Context{
		http.StatusInternalServerError: func(*http.Request) context.Context { panic("no context") },
		http.StatusSwitchingProtocols:  func(*http.Request) context.Context { return nil },
	} {
		s := serveSocket(t, router.Options{Handshake: router.Handshake{ConnContext: hook}, OnError: func(f router.Fault) { faults <- f }}, nil)
		p := s.connect()
		p.write([]byte(s.handshake()))
		if got := p.response().StatusCode; got != status {
			t.Errorf("the handshake is answered %d, want %d", got, status)
		}
		if status == http.StatusSwitchingProtocols {
			p.write(echo("1", "a"))
			p.expect("reply 1 a")
			continue
		}
		if f := <-faults; !strings.Contains(f.Err.Error(), "ConnContext") {
			t.Errorf("the fault is %v", f.Err)
		}
	}
}

// steps returns what middleware has set for a message, outermost first.
func steps(ctx context.Context) string {
	s, _ := ctx.Value(stepKey{}).(string)
	return s
}

// addStep makes a context with one step more.
func addStep(ctx context.Context, step string) context.Context {
	return context.WithValue(ctx, stepKey{}, steps(ctx)+step)
}

// Each layer of middleware sees what those around it have set, and sets more; the handler and all
// that it calls see it all, beside the values of the handshake.
func TestValuesFromMiddleware(t *testing.T) {
	t.Parallel()
	before := func(step string) ingress.Middleware {
		return func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				c.SetValues(addStep(c.Context(), step))
				return next(c)
			}
		}
	}
	after := func(step string) router.Middleware {
		return func(next router.Handler) router.Handler {
			return func(c *router.Context) error {
				ctx, cancel := context.WithCancel(addStep(c.Detach(), step))
				cancel() // it has no effect on the message
				c.SetValues(ctx)
				return next(c)
			}
		}
	}
	seen := make(chan string, 10)
	r := router.New(router.Options{Handshake: router.Handshake{ConnContext: (*http.Request).Context}})
	r.Use(before("a"), before("b"))
	r.UseHandler(after("c"))
	route := r.With(before("r"))
	route.UseHandler(after("d"))
	router.RPC(route, "echo", func(c *router.Context, m said) (said, error) {
		child, cancel := context.WithCancel(c)
		defer cancel()
		for _, ctx := range []context.Context{c, child, c.Detach(), context.WithoutCancel(c.Detach())} {
			seen <- fmt.Sprint(steps(ctx), " ", ctx.Value(traceKey{}), " ", ctx.Err(), " ", context.Cause(ctx))
		}
		return m, nil
	})
	s := behind(t, r, func(next http.Handler) http.Handler { return traced(next, nil) })
	p := s.dial("X-Trace-Id: x")
	for range 3 {
		p.write(echo("1", "a"))
		p.expect("reply 1 a")
		for range 4 {
			if got := <-seen; got != "abrcd x <nil> <nil>" {
				t.Errorf("the handler sees %q", got)
			}
		}
	}
}

// A value never reaches another message: of random messages, some of which set values before or
// after decoding, and which are handled inline, in line behind a slow one, or concurrently, are
// refused, malformed or aborted, on several connections at once, each sees its own values or none.
func TestValuesDoNotReachOtherMessages(t *testing.T) {
	t.Parallel()
	type message struct {
		N      string `json:"n"`
		Before bool   `json:"before"` // middleware sets it before decoding
		After  bool   `json:"after"`
	}
	var served *router.Router
	handle := func(c *router.Context, m message) (said, error) {
		want := ""
		if m.Before {
			want += "b"
		}
		if m.After {
			want += m.N
		}
		if got := steps(c); got != want {
			t.Errorf("message %s (%+v) sees %q", m.N, m, got)
		}
		if strings.HasSuffix(m.N, "7") {
			runtime.Gosched()
			router.DetachHandlers(served)
		}
		return said{m.N}, nil
	}
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		served = r
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if got := steps(c.Context()); got != "" {
					t.Errorf("a frame begins with %q", got)
				}
				if c.Size%2 == 0 { // the client makes it so
					c.SetValues(addStep(c.Context(), "b"))
				}
				if c.Type == "refused" {
					return errors.PermissionDenied.New("no")
				}
				return next(c)
			}
		})
		r.UseHandler(func(next router.Handler) router.Handler {
			return func(c *router.Context) error {
				if m, ok := c.Message().(*message); ok && m.After {
					c.SetValues(addStep(c.Detach(), m.N))
				}
				return next(c)
			}
		})
		router.RPC(r, "ordered", handle)
		router.RPC(r, "concurrent", handle, router.RouteOptions{Concurrent: true})
		router.RPC(r, "refused", handle)
	})
	var clients sync.WaitGroup
	for client := range 4 {
		p := s.dial()
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), 1))
			for round := range 40 {
				var batch []byte
				var want []string
				for i := range 1 + rng.IntN(8) {
					typ := []string{"ordered", "concurrent", "refused", "unknown", "ordered"}[rng.IntN(5)]
					n, before := fmt.Sprintf("%d-%d-%d", client, round, i), rng.IntN(2) == 0
					frame := fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q},"payload":{"n":%q,"before":%v,"after":%v}}`, typ, n, n, before, rng.IntN(2) == 0)
					if (len(frame)%2 == 0) != before {
						frame += " "
					}
					batch = append(batch, textFrame(frame)...)
					switch typ {
					case "refused":
						want = append(want, "RPC_ERROR "+n+" PERMISSION_DENIED")
					case "unknown":
						want = append(want, "RPC_ERROR "+n+" UNIMPLEMENTED")
					default:
						want = append(want, "reply "+n+" "+n)
					}
				}
				p.write(batch)
				p.expectInAnyOrder(want...)
			}
			p.bye()
		})
	}
	clients.Wait()
	s.recovered()
}

// SetValues refuses a context that would refer to the message itself, and says what to do.
func TestSetValuesOfTheContextItself(t *testing.T) {
	t.Parallel()
	faults := make(chan router.Fault, 1)
	s := serveSocket(t, router.Options{OnError: func(f router.Fault) { faults <- f }}, func(r *router.Router) {
		router.RPC(r, "self", func(c *router.Context, _ struct{}) (struct{}, error) {
			child, cancel := context.WithCancel(c)
			defer cancel()
			c.SetValues(context.WithValue(child, stepKey{}, "a"))
			return struct{}{}, nil
		})
	})
	p := s.dial()
	p.write(textFrame(`{"type":"self","meta":{"correlationId":"1"}}`))
	p.expect("RPC_ERROR 1 INTERNAL")
	if f := <-faults; !strings.Contains(f.Err.Error(), "derive it from Context.Detach") {
		t.Errorf("the fault is %v", f.Err)
	}
	p.bye()
	s.recovered()
}

// What a handler has begun keeps the values of its message while the next ones are handled with
// others. It is cancelled with the connection, with ErrClosed as the cause, and not at all where it
// is to outlive that.
func TestDetach(t *testing.T) {
	t.Parallel()
	type work struct {
		bound, free context.Context
		step        string
	}
	works := make(chan work, 100)
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "begin", func(c *router.Context, m said) (said, error) {
			if m.Text != "" {
				c.SetValues(addStep(c.Detach(), m.Text))
			}
			bound, cancel := context.WithCancel(c.Detach())
			context.AfterFunc(bound, cancel)
			works <- work{bound, context.WithoutCancel(c.Detach()), m.Text}
			return m, nil
		})
	})
	p := s.dial()
	for i := range 10 {
		text := fmt.Sprint(i)
		if i%3 == 0 {
			text = ""
		}
		p.write(textFrame(fmt.Sprintf(`{"type":"begin","meta":{"correlationId":"1","timeoutMs":60000},"payload":{"text":%q}}`, text)))
		p.expect("reply 1 " + text)
	}
	var all []work
	for range 10 {
		all = append(all, <-works)
	}
	check := func(ended bool) {
		t.Helper()
		for _, w := range all {
			if steps(w.bound) != w.step || steps(w.free) != w.step {
				t.Errorf("work of %q has the values %q and %q", w.step, steps(w.bound), steps(w.free))
			}
			if _, ok := w.bound.Deadline(); ok {
				t.Error("it has the deadline of the message")
			}
			if ended {
				<-w.bound.Done()
			}
			if got := w.bound.Err() != nil; got != ended {
				t.Errorf("the connection has ended: %v, the context of its work: %v", ended, w.bound.Err())
			}
			if ended && (w.bound.Err() != context.Canceled || context.Cause(w.bound) != router.ErrClosed) {
				t.Errorf("it ends with %v, because of %v", w.bound.Err(), context.Cause(w.bound))
			}
			if w.free.Err() != nil || w.free.Done() != nil {
				t.Errorf("what outlives the connection ends with %v", w.free.Err())
			}
		}
	}
	check(false)
	p.bye()
	check(true)
	s.settled()
}

// A test with routertest fails when a Context is used after its handler has returned, for which
// another message could have used it. Libraries may ask a context that is cancelled.
func TestContextAfterItsHandler(t *testing.T) {
	t.Parallel()
	for _, concurrent := range []bool{false, true} {
		kept := make(chan *router.Context, 1)
		r := router.New(router.Options{OnError: func(router.Fault) {}})
		router.RPC(r, "plain", func(c *router.Context, _ struct{}) (struct{}, error) {
			kept <- c
			return struct{}{}, c.Err()
		}, router.RouteOptions{Concurrent: concurrent})
		router.RPC(r, "derived", func(c *router.Context, _ struct{}) (struct{}, error) {
			_, cancel := context.WithCancel(c)
			defer cancel()
			kept <- c
			return struct{}{}, nil
		}, router.RouteOptions{Concurrent: concurrent})
		watched := &recorded{TB: t}
		client := routertest.New(watched, r).Dial()
		release := router.HoldWatchdog(r) // the Context of a handler that takes its time is not used again
		for typ, want := range map[string]int{"plain": 6, "derived": 4} {
			routertest.ExpectReply[any](client.Request(typ, struct{}{}))
			if got := watched.failures.take(); len(got) > 0 {
				t.Errorf("a handler fails the test: %q", got)
			}
			c := <-kept
			eventually(t, "the handler's context to be over", func() bool { return c.Err() != nil })
			_ = watched.failures.take()
			_ = c.Value(stepKey{})
			_ = c.Err()
			_ = c.Send("late", nil)
			_ = c.Publish("late", "late", nil)
			c.Conn()
			c.Detach()
			got := watched.failures.take()
			if concurrent {
				want = 4 // it is never used for another message
			}
			if len(got) != want || !strings.Contains(got[0], "Context.Detach") || !strings.Contains(got[0], typ) {
				t.Errorf("concurrent %v: %s fails the test with %q, want %d failures", concurrent, typ, got, want)
			}
		}
		release()
	}
}
