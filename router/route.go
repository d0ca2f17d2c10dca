package router

import (
	"bytes"
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

// codec is a typed handler seen from the untyped side. It lends out values, so
// that decoding allocates only what the payload itself needs.
type codec interface {
	// get lends a *T for one message; put takes it back when nothing uses it.
	get() any
	put(v any)
	// decode fills v from a payload and validates it.
	decode(v any, payload []byte) error
	// call runs the typed handler and, for a request, appends the reply's
	// payload to out, with the key before it unless the reply has none.
	call(c *Context, v any, out *bytes.Buffer) error
}
