package router

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/metrics"
)

// Handler handles a message that has been decoded and validated. [On] describes what is sent
// for its error.
type Handler func(*Context) error

// Middleware wraps the handling of decoded messages, see [Router.UseHandler].
// [Context.Message] is the message. Middleware rejects a message by returning an error. For a
// request, returning nil without a call of next is a fault, because there would be no reply.
type Middleware func(next Handler) Handler

// RouteOptions configure a route, or the routes of a group. The zero value has the defaults.
type RouteOptions struct {
	// Reply is the type of a request's reply. Default: the request's type with
	// ".reply" at its end.
	Reply string
	// Concurrent handles each message of the route at once, in a goroutine of its own,
	// independent of other messages of the connection. At most Limits.MaxInFlight requests,
	// and as many events, are handled at once. Default: one message of a connection after the
	// other, in order of arrival.
	Concurrent bool
	// Timeout replaces the router's RequestTimeout for requests. For events it sets a
	// deadline, after which the context is cancelled and nothing is sent; by default events
	// have none. Negative: none.
	//
	// Default: Options.RequestTimeout for requests, no deadline for events.
	Timeout time.Duration
	// Exempt frames are not charged by the middleware of the router and of groups, see
	// ingress.Context.Exempt. That of Group.With charges them, and bans apply. In the options of a
	// group it concerns the middleware outside of the group.
	//
	// Default: false: all frames are charged.
	Exempt bool
	// Silent drops frames of this type that middleware of Use or With rejects because
	// of a limit, without an answer, for input such as the positions of a cursor, of which 200
	// refusals a second help no client. They are counted in Stats.Unanswered, and
	// ratelimit.Bans do not count them. Frames with a correlation id are answered, so it has no
	// effect on requests; a frame that is too large is answered as well. Default: what
	// Limits.OnExceeded says.
	Silent bool
	// Priority is from -3 to 3. While the process cannot keep up, messages of a lower priority are refused
	// before those of a higher one; see Options.Overload. Default: 0.
	Priority int
	// MaxPayload is the size in bytes of the largest frame of this type. It may be larger than
	// Limits.MaxPayload: the memory of a connection depends on the largest of all routes.
	// Default: Limits.MaxPayload.
	MaxPayload int
	// Strict refuses payloads with unknown members, with the rule "unknown". Default: unknown
	// members are ignored. See also Options.Strict.
	Strict bool
	// Progress is a value of the type that is passed to Context.Progress, such as Percent{}.
	// Another type is then an error. Default: any type.
	Progress any
	// Doc describes the route in one line, for Router.Routes.
	//
	// Default: none.
	Doc string
}

// check panics if an option is not valid. what names the route or group.
func (o *RouteOptions) check(what string) {
	if !validPriority(o.Priority) {
		panic(fmt.Sprintf("router: Priority of %s is %d; it is from %d to %d", what, o.Priority, -maxPriority, maxPriority))
	}
	if o.MaxPayload < 0 {
		panic(fmt.Sprintf("router: MaxPayload of %s is %d; it is in bytes and must be positive (0 for that of the router)", what, o.MaxPayload))
	}
}

// replySuffix follows the type of a request in the default type of its reply.
const replySuffix = ".reply"

// route is a registered type. Nothing in it is generic: the typed handler is
// behind the codec.
type route struct {
	typ     string
	place   string // of the registration, in the source
	group   *Group
	request bool
	opts    RouteOptions
	message reflect.Type
	reply   reflect.Type // nil for an event
	// optional says that a frame needs no payload.
	optional bool
	codec    routeCodec
	handle   Handler // with its middleware around it
	own      *own    // nil for nearly all
	// replyHead is the reply up to the correlation id.
	replyHead []byte
	counters  metrics.Type
	// protocol says that the type is the protocol's own.
	protocol bool
	// paced says that its concurrent handler begins when the fairness queue gives it a turn.
	paced bool
	// overran says that the log has that a handler of the route went on after its time.
	overran atomic.Bool
	// builtin is set for those of the protocol's own types that the reader handles, and nothing
	// else is.
	builtin *builtinType
}

// Types that are the protocol's own.
const (
	typeProgress     = "$ws:rpc-progress"
	typeResume       = "$ws:resume"
	typeResumed      = "$ws:resumed"
	typeAbort        = "$ws:abort"
	typeAnswer       = "$ws:answer"
	typeRenew        = "$ws:renew"
	typeRenewed      = "$ws:renewed"
	typeExpiring     = "$ws:expiring"
	typeHeartbeat    = "__heartbeat"
	typeHeartbeatAck = "__heartbeat_ack"
)

func checkType(typ string) error {
	switch {
	case typ == "":
		return fmt.Errorf("router: a message type is empty; give it a name like \"chat.send\"")
	case len(typ) > envelope.MaxTypeLength:
		return fmt.Errorf("router: the message type %q is longer than %d bytes", typ[:32]+"…", envelope.MaxTypeLength)
	case frame.Reserved(typ):
		return fmt.Errorf("router: the message type %q is reserved for the protocol; names that begin with \"__\" or \"$ws:\", ERROR and RPC_ERROR cannot be used", typ)
	}
	return nil
}

// routeCodec is a typed handler seen from the untyped side. It lends out values, so
// that decoding allocates only what the payload itself needs.
type routeCodec interface {
	// get lends a *T for one message; put takes it back when nothing uses it.
	get() any
	put(v any)
	// Decode fills v from a payload and validates it.
	Decode(v any, payload []byte) error
	// DecodeFlat is Decode for a payload at the beginning of b, without Check. It returns what
	// follows the payload. With false the payload has to be decoded otherwise, into another value.
	DecodeFlat(v any, b []byte) (rest []byte, ok bool)
	// Check validates v.
	Check(v any) error
	// call runs the typed handler and, for a request, encodes the reply.
	call(c *Context, v any) error
}
