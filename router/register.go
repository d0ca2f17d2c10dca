package router

import (
	"fmt"
	"slices"

	"github.com/wskit/wskit/ingress"
)

// Use adds middleware around the handlers of all routes, whether they are
// registered before or after it; the first that was added is the outermost. It runs after a
// message has been decoded and validated. It panics once the router has served a connection.
func (r *Router) Use(middleware ...Middleware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serving != nil {
		panic("router: Use is called after the router has served a connection; add all middleware before http.Serve")
	}
	r.around = append(r.around, middleware...)
}

// UseIngress adds middleware for every frame, which runs before the payload is decoded, in the
// order in which it was added. Its errors are the answer to the frame. It panics once the router
// has served a connection.
func (r *Router) UseIngress(middleware ...ingress.Middleware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serving != nil {
		panic("router: UseIngress is called after the router has served a connection; add all middleware before http.Serve")
	}
	r.before = append(r.before, middleware...)
}

// freeze makes the registrations final.
func (r *Router) freeze() *serving {
	if s := r.frozen.Load(); s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serving != nil {
		return r.serving
	}
	s := &serving{
		routes:  make(map[string]*route, len(r.routes)+2),
		ingress: wrapped(ingress.Handler(ingress.Pass), r.before),
	}
	for typ, rt := range r.routes {
		rt.handle = handler(rt, r.around)
		s.routes[typ] = rt
	}
	for _, rt := range builtin {
		s.routes[rt.typ] = rt
	}
	r.serving = s
	r.frozen.Store(s)
	return s
}

// handler composes the middleware around a route's typed handler.
func handler(rt *route, around []Middleware) Handler {
	h := func(c *Context) error {
		c.called = true
		c.out.Truncate(c.head) // middleware may try again
		return rt.codec.call(c, c.lent, &c.out)
	}
	return wrapped(wrapped(Handler(h), rt.opts.Use), around)
}

// wrapped is a handler with middleware around it; the first is the outermost.
func wrapped[H any, M ~func(H) H](h H, middleware []M) H {
	for _, wrap := range slices.Backward(middleware) {
		h = wrap(h)
	}
	return h
}

func (r *Router) register(rt *route) {
	if err := checkType(rt.typ); err != nil {
		panic(err.Error())
	}
	if rt.opts.Reply != "" {
		if !rt.request {
			panic(fmt.Sprintf("router: %q is an event and has no reply; register it with RPC or leave RouteOptions.Reply empty", rt.typ))
		}
		if err := checkType(rt.opts.Reply); err != nil {
			panic(err.Error())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serving != nil {
		panic(fmt.Sprintf("router: %q is registered after the router has served a connection; register all types before http.Serve", rt.typ))
	}
	if _, ok := r.routes[rt.typ]; ok {
		panic(fmt.Sprintf("router: %q is registered twice; remove one registration or rename the type", rt.typ))
	}
	r.routes[rt.typ] = rt
}

// On registers the handler of an event: a message that is not answered. It is
// a function and not a method because methods have no type parameters; T is
// inferred from the handler.
//
// The payload is decoded into a T by the rules of the second version of
// encoding/json: names match exactly, so a field Room without a tag is "Room" on
// the wire and never "room"; unknown members are ignored, and missing fields are zero. Where T is a struct, it is then checked by its
// `validate` tags (github.com/go-playground/validator). A payload that is not
// valid is answered with INVALID_ARGUMENT and the fields, and does not reach the handler. With T struct{} the message needs no payload.
//
// An error that the handler returns is sent to the client as ERROR, or as
// RPC_ERROR if the event carried a correlation id: one of package errors with
// its code and message, the errors of package context as CANCELLED and
// DEADLINE_EXCEEDED; any other error, and a panic, as INTERNAL with a fixed text; these
// are reported to Options.OnError.
//
// On panics if the type is registered already, is reserved or has not 1 to 128
// bytes; if the `validate` tags of T are not valid; if opts has more than one
// element or names a reply; and once the router has served a connection.
func On[T any](r *Router, typ string, h func(*Context, T) error, opts ...RouteOptions) {
	if h == nil {
		panic(fmt.Sprintf("router: %q is registered with a nil handler; pass a function", typ))
	}
	r.register(newEventRoute(typ, h, oneOf(typ, opts)))
}

// RPC registers the handler of a request: a message with a correlation id that
// gets exactly one answer, the reply or an error. With R struct{} the reply has
// no payload. A reply that does not encode is answered INTERNAL. The time for the
// answer is bounded, see Options.RequestTimeout. See [On] for the rest.
func RPC[T, R any](r *Router, typ string, h func(*Context, T) (R, error), opts ...RouteOptions) {
	if h == nil {
		panic(fmt.Sprintf("router: %q is registered with a nil handler; pass a function", typ))
	}
	r.register(newRequestRoute(typ, h, oneOf(typ, opts)))
}

func oneOf(typ string, opts []RouteOptions) RouteOptions {
	switch len(opts) {
	case 0:
		return RouteOptions{}
	case 1:
		return opts[0]
	}
	panic(fmt.Sprintf("router: %q is registered with %d RouteOptions; merge them into one", typ, len(opts)))
}
