package router

import (
	"fmt"
	"strings"
	"time"

	"github.com/wskit/wskit/internal/envelope"
)

// Handler handles a message that has been decoded and validated. [On] describes what is sent
// for its error.
type Handler func(*Context) error

// Middleware wraps the handling of decoded messages, see [Router.Use] and [RouteOptions].
// [Context.Message] is the message. Middleware rejects a message by returning an error. For a
// request, returning nil without a call of next is a fault, because there would be no reply.
type Middleware func(next Handler) Handler

// RouteOptions configure a route. The zero value has the defaults.
type RouteOptions struct {
	// Reply is the type of a request's reply. Default: the request's type with
	// ".reply" at its end.
	Reply string
	// Concurrent handles each message of the route at once, in a goroutine of its own,
	// independent of other messages of the connection. At most Limits.MaxInFlight requests,
	// and as many events, are handled at once. Default: in order of arrival.
	Concurrent bool
	// Timeout replaces the router's RequestTimeout for requests. For events it sets a
	// deadline, after which the context is cancelled and nothing is sent; by default events
	// have none. Negative: none.
	Timeout time.Duration
	// Use wraps the route's handler, inside of the middleware of Router.Use. The first is the
	// outermost.
	Use []Middleware
}

// replySuffix follows the type of a request in the default type of its reply.
const replySuffix = ".reply"

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
