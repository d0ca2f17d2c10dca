package router_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// journal notes what happens, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// take returns the entries since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer func() { j.entries = nil }()
	return j.entries
}

// before and after are middleware that notes the type it sees.
func (j *journal) before(name string) ingress.Middleware {
	return func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			j.add(name + " " + c.Type)
			return next(c)
		}
	}
}

func (j *journal) after(name string) router.Middleware {
	return func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			j.add(name + " " + c.Type())
			return next(c)
		}
	}
}

// ok is a request without payloads.
func ok(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

// A frame goes through the middleware of the router, then of its groups from the outermost,
// then of its route, before decoding and after; through no other group's, and in the order
// in which it was added, whether routes were registered before that or after.
func TestGroupsHaveMiddlewareOfTheirOwn(t *testing.T) {
	t.Parallel()
	var j journal
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		board := r.Group("board.").With(j.before("board 1"))
		board.UseHandler(j.after("board 1"))
		router.RPC(board, "open", ok)
		shapes := board.Group("shape.")
		route := shapes.With(j.before("route"))
		route.UseHandler(j.after("route"))
		router.RPC(route, "add", ok)
		chat := r.Group("")
		router.RPC(chat, "say", ok)
		router.RPC(r, "alone", ok)

		shapes.UseHandler(j.after("shapes"))
		shapes.Use(j.before("shapes"))
		board.UseHandler(j.after("board 2"))
		board.Use(j.before("board 2"))
		chat.UseHandler(j.after("chat"))
		r.UseHandler(j.after("router"))
		r.Use(j.before("router"))
	})
	p := s.dial()
	for _, tc := range []struct {
		typ    string
		before []string
		after  []string
	}{
		{"board.open", []string{"router", "board 1", "board 2"}, []string{"router", "board 1", "board 2"}},
		{"board.shape.add", []string{"router", "board 1", "board 2", "shapes", "route"}, []string{"router", "board 1", "board 2", "shapes", "route"}},
		{"say", []string{"router"}, []string{"router", "chat"}},
		{"alone", []string{"router"}, []string{"router"}},
	} {
		p.write(request("1", tc.typ))
		p.expect("reply 1 ")
		var want []string
		for _, name := range append(tc.before, tc.after...) {
			want = append(want, name+" "+tc.typ)
		}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tc.typ, got, want)
		}
	}
	for _, unknown := range []string{"open", "shape.add", "board.", "board.shape."} {
		p.write(request("1", unknown))
		p.expect("RPC_ERROR 1 UNIMPLEMENTED")
	}
	p.bye()
	s.recovered()
}

// What a group's middleware refuses is the frame's answer, and other types do not meet it.
// One that neither passes a frame on nor refuses it is a fault, as in the router's own.
func TestMiddlewareOfAGroupRefuses(t *testing.T) {
	t.Parallel()
	faults := make(chan router.Fault, 1)
	s := serveSocket(t, router.Options{OnError: func(f router.Fault) { faults <- f }}, func(r *router.Router) {
		admin := r.Group("admin.")
		admin.Use(func(ingress.Handler) ingress.Handler {
			return func(*ingress.Context) error { return errors.PermissionDenied.New("admins only") }
		})
		router.RPC(admin, "stop", ok)
		forgetful := r.Group("forgetful.")
		forgetful.Use(func(ingress.Handler) ingress.Handler {
			return func(*ingress.Context) error { return nil }
		})
		router.RPC(forgetful, "do", ok)
	})
	p := s.dial()
	p.write(request("1", "admin.stop"), echo("2", "x"), request("3", "forgetful.do"))
	p.expect("RPC_ERROR 1 PERMISSION_DENIED")
	p.expectInAnyOrder("reply 2 x", "RPC_ERROR 3 INTERNAL") // a refusal may overtake the answer of a handler
	if f := <-faults; f.Type != "forgetful.do" {
		t.Errorf("the fault is %+v", f)
	}
	p.bye()
	s.recovered()
}

// What a group's options say holds for its routes, and for groups in it.
func TestGroupsHandDownOptions(t *testing.T) {
	t.Parallel()
	r := router.New()
	g := r.Group("g.", router.RouteOptions{Concurrent: true, Strict: true, Timeout: 7, MaxPayload: 1000})
	router.RPC(g.Group("h."), "a", ok)
	router.RPC(g, "b", ok, router.RouteOptions{Timeout: 8, MaxPayload: 2000, Reply: "done"})
	for _, i := range r.Routes() {
		timeout, size, reply := 7, 1000, "g.h.a.reply"
		if i.Type == "g.b" {
			timeout, size, reply = 8, 2000, "g.done"
		}
		if !i.Concurrent || !i.Strict || int(i.Timeout) != timeout || i.MaxPayload != size || i.ReplyType != reply {
			t.Errorf("got %+v", i)
		}
	}
}

// Two registrations of one type are named by file and line, through groups and packages'
// functions.
func TestClashNamesBothPlaces(t *testing.T) {
	t.Parallel()
	next := func() string { // the line after the one that calls it
		_, file, line, _ := runtime.Caller(1)
		return fmt.Sprintf("%s:%d", file, line+1)
	}
	for name, clash := range map[string]func() (first, second string){
		"two events": func() (first, second string) {
			r := router.New()
			first = next()
			router.On(r, "a.b", none)
			defer clashes(t, &first, &second)
			second = next()
			router.On(r.Group("a."), "b", none)
			return
		},
		"an event and a request": func() (first, second string) {
			r := router.New()
			first = next()
			router.RPC(r.Group("a.").Group("b"), "", ok)
			defer clashes(t, &first, &second)
			second = next()
			router.On(r, "a.b", none)
			return
		},
		"two declarations": func() (first, second string) {
			r := router.New()
			first = next()
			router.Declare[int](r, "a.b")
			defer clashes(t, &first, &second)
			second = next()
			router.Declare[int](r.Group("a."), "b")
			return
		},
	} {
		t.Run(name, func(t *testing.T) { clash() })
	}
}

func clashes(t *testing.T, first, second *string) {
	v, _ := recover().(string)
	for _, want := range []string{`"a.b"`, *first, *second} {
		if want == "" || !strings.Contains(v, want) {
			t.Errorf("the panic %q does not name %q", v, want)
		}
	}
}

// A type may come in and go out: these are two registrations.
func TestATypeInBothDirections(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		cursor := router.Declare[said](r, "cursor")
		router.On(r, "cursor", func(c *router.Context, m said) error { return cursor.Send(c, c.Conn(), m) })
	})
	p := s.dial()
	p.write(textFrame(`{"type":"cursor","payload":{"text":"a"}}`))
	p.expect(`cursor {"text":"a"}`)
	p.bye()
	s.recovered()
}
