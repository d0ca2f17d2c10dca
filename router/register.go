package router

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/frame"
)

// Use adds middleware for every frame, which runs before the payload is decoded, in the
// order in which it was added. Its errors are the answer to the frame. It panics once the router
// has served a connection.
func (r *Router) Use(middleware ...ingress.Middleware) { r.top.Use(middleware...) }

// UseHandler adds middleware around the handlers of all routes, whether they are
// registered before or after it; the first that was added is the outermost. It runs after a
// message has been decoded and validated. It panics once the router has served a connection.
func (r *Router) UseHandler(middleware ...Middleware) { r.top.UseHandler(middleware...) }

// freeze makes the registrations final.
func (r *Router) freeze() *serving {
	if s := r.frozen.Load(); s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.frozen.Load(); s != nil {
		return s
	}
	s := &serving{
		routes:     make(map[string]*route, len(r.routes)+2),
		maxPayload: r.opts.Limits.MaxPayload,
	}
	last := ingress.Handler(ingress.Pass)
	for typ, rt := range r.routes {
		rt.handle = handler(rt)
		if rt.own = rt.compose(&r.opts.Limits); rt.own != nil {
			s.own, last = true, passOwn
			s.maxPayload = max(s.maxPayload, rt.own.maxPayload)
		}
		s.routes[typ] = rt
	}
	s.ingress = wrapped(last, r.top.before)
	for typ, b := range builtin {
		rt := &route{typ: typ, builtin: b, protocol: true, request: b.needsID}
		rt.counters.Init()
		s.routes[typ] = rt
	}
	if r.opts.Renew != nil {
		s.routes[typeRenew] = r.renewRoute()
	}
	if r.histories.Load() != nil {
		s.routes[typeResume] = r.resumeRoute()
	}
	r.frozen.Store(s)
	return s
}

// handler composes the middleware around a route's typed handler.
func handler(rt *route) Handler {
	h := Handler(rt.typed)
	for g := rt.group; g != nil; g = g.parent {
		h = wrapped(h, g.around)
	}
	return h
}

// typed calls the typed handler.
func (rt *route) typed(c *Context) error {
	c.called = true
	err := rt.codec.call(c, c.lent)
	if err != nil {
		c.head = 0 // what has been encoded is no reply, if middleware drops the error
	}
	return err
}

// wrapped is a handler with middleware around it; the first is the outermost.
func wrapped[H any, M ~func(H) H](h H, middleware []M) H {
	for _, wrap := range slices.Backward(middleware) {
		h = wrap(h)
	}
	return h
}

// On registers the handler of an event: a message that is not answered. It is
// a function and not a method because methods have no type parameters; T is
// inferred from the handler.
//
// The payload is decoded into a T by the rules of the second version of encoding/json: names match
// exactly, so a field Room without a tag is "Room" on the wire and never "room"; unknown members
// are ignored, and missing fields are zero. Where T is a struct, it is then checked by its
// `validate` tags (github.com/go-playground/validator). A payload that is not valid is answered
// with INVALID_ARGUMENT and the fields, and does not reach the handler. The message needs no
// payload if T is struct{}, a pointer, a map or a slice, or a struct whose fields are all optional:
// pointers, or with omitempty or omitzero in their json tag, and valid when they are zero.
// docs/messages.md has the rules of JSON.
//
// An error that the handler returns is sent to the client as ERROR, or as
// RPC_ERROR if the event carried a correlation id: one of package errors with
// its code and message, the errors of package context as CANCELLED and
// DEADLINE_EXCEEDED; any other error, and a panic, as INTERNAL with a fixed text; these
// are reported to Options.OnError.
//
// r is the router or a group, whose prefix is put before the type.
//
// On panics if the type is registered already, is reserved or does not have 1 to 128 bytes; if T
// can never be decoded from JSON, such as a channel or a time.Duration; if the `validate` tags of T
// are not valid; if opts has more than one element or names a reply; and once the router has served
// a connection.
func On[T any](r Registrar, typ string, h func(*Context, T) error, opts ...RouteOptions) {
	rt := newRoute(r, typ, opts)
	if h == nil {
		panic(rt.nilHandler())
	}
	shape := rt.decodes(reflect.TypeFor[T]())
	rt.codec = &eventCodec[T]{Shape: shape, handler: h}
	rt.register()
}

// RPC registers the handler of a request: a message with a correlation id that
// gets exactly one answer, the reply or an error. With R struct{} the reply has
// no payload. A reply that does not encode is answered INTERNAL; RPC panics if R can never
// be encoded or its `validate` tags are not valid. The time for the answer is bounded, see Options.RequestTimeout. See
// [On] for the rest.
func RPC[T, R any](r Registrar, typ string, h func(*Context, T) (R, error), opts ...RouteOptions) {
	rt := newRoute(r, typ, opts)
	if h == nil {
		panic(rt.nilHandler())
	}
	shape := rt.decodes(reflect.TypeFor[T]())
	rt.codec = &requestCodec[T, R]{Shape: shape, reply: rt.repliesWith(reflect.TypeFor[R]()), handler: h}
	rt.register()
}

// newRoute makes a route for On or RPC, which call it: see caller.
func newRoute(r Registrar, typ string, opts []RouteOptions) *route {
	g := r.group()
	rt := &route{typ: g.prefix + typ, place: caller(), group: g}
	rt.counters.Init()
	what := strconv.Quote(rt.typ)
	rt.opts = given.Must("router", what, opts)
	rt.opts.check(what)
	rt.opts.inherit(g)
	return rt
}

// decodes makes the route one of messages of a type.
func (rt *route) decodes(t reflect.Type) codec.Shape {
	s := codec.Decoded(t, "the payload", rt.typ, rt.opts.Strict)
	rt.message, rt.optional = t, s.Optional
	return s
}

// caller returns the file and line from which On, RPC, Declare or DeclareQuestion was called. It is called by a
// function that these call.
func caller() string {
	_, file, line, _ := runtime.Caller(3)
	return file + ":" + strconv.Itoa(line)
}

func (rt *route) nilHandler() string {
	return fmt.Sprintf("router: %q is registered with a nil handler; pass a function", rt.typ)
}

// repliesWith makes the route one of a request with replies of a type.
func (rt *route) repliesWith(t reflect.Type) codec.Shape {
	rt.request, rt.reply = true, t
	if rt.opts.Reply == "" {
		rt.opts.Reply = rt.typ + replySuffix
	} else {
		rt.opts.Reply = rt.group.prefix + rt.opts.Reply
		if err := checkType(rt.opts.Reply); err != nil {
			panic(err.Error())
		}
	}
	head := append([]byte(`{"type":`), frame.Quote(rt.opts.Reply)...)
	rt.replyHead = append(head, `,"meta":{"correlationId":`...)
	if rt.opts.Progress != nil {
		codec.MustEncode(reflect.TypeOf(rt.opts.Progress), "the progress", rt.typ)
	}
	return codec.Encoded(t, "the reply", rt.typ)
}

func (rt *route) register() {
	if err := checkType(rt.typ); err != nil {
		panic(err.Error())
	}
	if !rt.request && (rt.opts.Reply != "" || rt.opts.Progress != nil) {
		panic(fmt.Sprintf("router: %q is an event and has no reply or progress; register it with RPC, or leave RouteOptions.Reply and Progress empty", rt.typ))
	}
	r := rt.group.router
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustNotServe(rt.typ)
	if other, ok := r.routes[rt.typ]; ok {
		panic(fmt.Sprintf("router: %q is registered twice, at %s and at %s; remove one registration or rename the type", rt.typ, other.place, rt.place))
	}
	r.routes[rt.typ] = rt
}

// mustNotServe is called with the lock held.
func (r *Router) mustNotServe(typ string) {
	if r.frozen.Load() != nil {
		panic(fmt.Sprintf("router: %q is registered after the router has served a connection; register all types before http.Serve", typ))
	}
}
