package router

import (
	"fmt"
	"strings"
	"time"

	"github.com/wskit/wskit/internal/envelope"
)

// Handler handles a message that has been decoded and validated. What its error
// becomes is said at [On].
type Handler func(*Context) error

// Middleware wraps the handling of decoded messages, see [Router.Use]
// and [RouteOptions]. [Context.Message] is the message. Middleware answers in the
// handler's place by returning an error; to return nil without having called next
// is a fault in a request, which would have no reply.
type Middleware func(next Handler) Handler

// RouteOptions are what a route may have of its own.
type RouteOptions struct {
	// Reply is the type of a request's reply. Default: the request's type with
	// ".reply" at its end.
	Reply string
	// Concurrent lets each of the route's messages be handled at once, in a
	// goroutine of its own, whatever other messages of the same connection are
	// being handled or wait. Default: in order of arrival. Of requests and of
	// events, Limits.MaxInFlight each may be handled at once.
	Concurrent bool
	// Timeout replaces the router's RequestTimeout for requests, and gives
	// events a deadline, which by default they have not: when it is over, an
	// event's context is cancelled and nothing is sent. Negative: none.
	Timeout time.Duration
	// Use wraps the route's handler, inside of what Router.Use wraps.
	// The first is the outermost.
	Use []Middleware
}

// replySuffix makes a reply's type of a request's where a route names none.
const replySuffix = ".reply"

// On registers the handler of an event: a message that is not answered. It is
// a function and not a method because methods have no type parameters; T is
// inferred from the handler.
//
// The payload is decoded into a T by the rules of the second version of
// encoding/json: names match exactly, so a field Room without a tag is "Room" on
// the wire and never "room"; members that are not known are ignored, and fields
// that do not come are zero. Where T is a struct, it is then checked by its
// `validate` tags (github.com/go-playground/validator). A payload that does not
// fit is answered INVALID_ARGUMENT with the fields at fault and never reaches
// the handler. With T struct{} the message needs no payload.
//
// An error that the handler returns is sent to the client as ERROR, or as
// RPC_ERROR if the event carried a correlation id: one of package errors with
// its code and message, the errors of package context as CANCELLED and
// DEADLINE_EXCEEDED; any other, and a panic, as INTERNAL with a fixed text, while
// Options.OnError hears of it.
//
// On panics if the type is registered already, is reserved or has not 1 to 128
// bytes; if the `validate` tags of T make no sense; if opts has more than one
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

// route is a registered type. Nothing in it is generic: the typed handler is
// behind the codec.
type route struct {
	typ     string
	request bool
	opts    RouteOptions
	codec   codec
	handle  Handler // with its middleware around it
	// replyHead is the reply up to the correlation id.
	replyHead []byte
	// builtin is set for the protocol's own types, and nothing else is.
	builtin func(*Conn, envelope.Envelope)
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

// Types that are the protocol's own.
const (
	typeError        = "ERROR"
	typeRPCError     = "RPC_ERROR"
	typeProgress     = "$ws:rpc-progress"
	typeAbort        = "$ws:abort"
	typeHeartbeat    = "__heartbeat"
	typeHeartbeatAck = "__heartbeat_ack"
)

// reserved reports whether a type belongs to the protocol.
func reserved[S ~string | ~[]byte](typ S) bool {
	s := string(typ)
	return strings.HasPrefix(s, "__") || strings.HasPrefix(s, "$ws:") || s == typeError || s == typeRPCError
}

func checkType(typ string) error {
	switch {
	case typ == "":
		return fmt.Errorf("router: a message type is empty; give it a name like \"chat.send\"")
	case len(typ) > envelope.MaxTypeLength:
		return fmt.Errorf("router: the message type %q is longer than %d bytes", typ[:32]+"…", envelope.MaxTypeLength)
	case reserved(typ):
		return fmt.Errorf("router: the message type %q is reserved for the protocol; names that begin with \"__\" or \"$ws:\", ERROR and RPC_ERROR cannot be used", typ)
	}
	return nil
}
