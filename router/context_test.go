package router_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
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
	t.Parallel()
	results := make(chan string, 10)
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{
		OnOpen: func(c *router.Conn) error { conns <- c; return nil },
	}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
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
		if wrong := poll.Receive(t, results, what+": the context ends"); wrong != "" {
			t.Errorf("%s: %s", what, wrong)
		}
	}
	for range 4 {
		p := s.dial()
		<-conns
		for _, typ := range []string{"asked", "lazy"} {
			// Behind one whose handler is not quite through, its time may be over before it is called.
			eventually(t, typ+" to be called", func() bool {
				p.write(request(typ, time.Millisecond), echo("e", "behind"))
				p.expect("RPC_ERROR c DEADLINE_EXCEEDED", "reply e behind")
				return len(results) > 0
			})
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

// observe asks a context from several goroutines until it is over, in every way in which libraries
// do, and returns what is wrong: Err and Done disagree, the error changes, it is not the expected
// one, or a context derived from it does not end with the same error and cause.
func observe(ctx context.Context, want error) string {
	wrong := make(chan string, 16)
	var all sync.WaitGroup
	check := func(what string, derived context.Context) {
		<-derived.Done()
		if err := derived.Err(); err != want || context.Cause(derived) != context.Cause(ctx) {
			wrong <- fmt.Sprintf("%s ends with %v because of %v, want %v", what, err, context.Cause(derived), want)
		}
	}
	for i := range 8 {
		all.Go(func() {
			switch i % 4 {
			case 0:
				if got := untilOver(ctx, ctx.Done()); got != "" {
					wrong <- got
				}
			case 1:
				if got := untilOver(ctx, nil); got != "" {
					wrong <- got
				}
			case 2:
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				check("a derived context", derived)
			case 3:
				called := make(chan struct{})
				context.AfterFunc(ctx, func() { close(called) })
				<-called
				check("the context", ctx)
			}
			for range 100 {
				if err := ctx.Err(); err != want || context.Cause(ctx) != want && context.Cause(ctx) != router.ErrClosed {
					wrong <- fmt.Sprintf("it ends with %v because of %v, want %v", err, context.Cause(ctx), want)
					return
				}
			}
		})
	}
	all.Wait()
	close(wrong)
	return <-wrong
}

// However a context ends, and whatever goroutines use it meanwhile, it ends once, with one error:
// DeadlineExceeded if its time is over, and else Canceled. This holds inline, behind another
// message and concurrently, and for those of the connection and of work that goes on.
func TestContextsUnderRace(t *testing.T) {
	t.Parallel()
	takesTime(t)
	var wrong journal
	started := make(chan string, 100)
	watch := func(ctx context.Context, want error) {
		go func() { wrong.add(observe(ctx, want)) }()
	}
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		handle := func(want error) func(c *router.Context, _ struct{}) (struct{}, error) {
			return func(c *router.Context, _ struct{}) (struct{}, error) {
				watch(c.Detach(), context.Canceled)
				ctx, cancel := context.WithCancelCause(c.Detach())
				cancel(errors.New("not that of the message"))
				c.SetValues(ctx)
				watch(c.Detach(), context.Canceled)
				started <- c.Type()
				wrong.add(observe(c, want))
				return struct{}{}, nil
			}
		}
		for typ, want := range map[string]error{"late": context.DeadlineExceeded, "cancelled": context.Canceled} {
			router.RPC(r, typ, handle(want))
			router.RPC(r, typ+".concurrent", handle(want), router.RouteOptions{Concurrent: true})
		}
		router.RPC(r, "returns", func(c *router.Context, _ struct{}) (struct{}, error) {
			watch(c, context.Canceled)
			spend(time.Millisecond)
			return struct{}{}, c.Err()
		}, router.RouteOptions{Concurrent: true})
	})
	for range 8 {
		p := s.dial()
		request := func(typ, id string, wait time.Duration) {
			p.write(textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q,"timeoutMs":%d}}`, typ, id, wait.Milliseconds())))
			for wait == time.Minute && typ != "returns" && <-started != typ {
				// a late one, whose time may be over before it starts
			}
		}
		request("late", "a", 5*time.Millisecond)
		p.expect("RPC_ERROR a DEADLINE_EXCEEDED")
		request("late.concurrent", "b", 5*time.Millisecond)
		p.expect("RPC_ERROR b DEADLINE_EXCEEDED")
		request("cancelled", "c", time.Minute)
		request("cancelled.concurrent", "d", time.Minute)
		p.write(textFrame(`{"type":"$ws:abort","meta":{"correlationId":"c"}}`), textFrame(`{"type":"$ws:abort","meta":{"correlationId":"d"}}`))
		p.expectInAnyOrder("RPC_ERROR c CANCELLED", "RPC_ERROR d CANCELLED")
		request("cancelled", "e", time.Minute)
		request("cancelled.concurrent", "f", time.Minute)
		request("returns", "g", time.Minute)
		p.expect("reply g ")
		p.hangUp() // ends the rest
	}
	s.settled()
	for _, problem := range wrong.take() {
		if problem != "" {
			t.Error(problem)
		}
	}
}
