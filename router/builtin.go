package router

import (
	"bytes"
	"context"
	"reflect"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/limitfeed"
)

// builtin are the types of the protocol that the reader handles itself, also while the router shuts down or is
// overloaded.
var builtin = map[string]*builtinType{
	typeHeartbeat:  {handle: (*Conn).heartbeat},
	typeAbort:      {handle: (*Conn).abort, needsID: true},
	typeAnswer:     {handle: (*Conn).takeAnswer, counts: true},
	limitfeed.Type: {handle: (*Conn).followLimits, needsID: true},
}

// builtinType is a type of the protocol. An error that handle returns is answered, counted and reported like that of
// any message that does not reach a handler; the kind is what OnRefused gets with it.
type builtinType struct {
	handle  builtinHandler
	needsID bool // it is refused without a correlation id
	counts  bool // handle has frames counted itself, except for those that it refuses
}

// protocolRequest is the route of a request that the protocol defines. It is handled concurrently with other
// messages. Middleware after decoding is for the application's types: it does not see, for instance,
// the token of a renewal.
func protocolRequest[Q, A any](r *Router, typ, reply string, timeout time.Duration, handler func(*Context, Q) (A, error)) *route {
	rt := &route{
		typ: typ, group: &r.top, protocol: true, request: true,
		opts:      RouteOptions{Concurrent: true, Timeout: timeout},
		reply:     reflect.TypeFor[A](),
		replyHead: []byte(`{"type":"` + reply + `","meta":{"correlationId":`),
	}
	rt.counters.Init()
	rt.codec = &requestCodec[Q, A]{
		Shape: rt.decodes(reflect.TypeFor[Q]()), reply: codec.Encoded(rt.reply, "the reply", typ), handler: handler,
	}
	rt.handle = rt.typed
	return rt
}

// errOneAtATime refuses a request of which a connection may have one at a time.
func errOneAtATime() error {
	return &errors.LimitExceeded{Kind: errors.LimitInFlight, Observed: 2, Limit: 1, RetryAfter: inFlightRetry}
}

// builtinHandler gets the frame in parts, so that the reader has the whole on its stack.
type builtinHandler func(c *Conn, s *scratch, env envelope.Envelope, frame []byte) (RefusedKind, error)

// heartbeat answers a client that cannot send pings, as pages cannot.
func (c *Conn) heartbeat(*scratch, envelope.Envelope, []byte) (RefusedKind, error) {
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeHeartbeatAck + `","meta":{"ts":`)
	b.Int(time.Now().UnixMilli())
	b.WriteString("}}")
	c.answer(b.Bytes())
	return "", nil
}

// abort takes a request back. One that is not open, because it has been answered or never was, has or had its answer:
// nothing is sent.
func (c *Conn) abort(_ *scratch, env envelope.Envelope, _ []byte) (RefusedKind, error) {
	for _, k := range c.turn.Open() {
		// Ids are compared as they were sent, so a client has to write an id in one way.
		if k.route.request && bytes.Equal(k.id, env.CorrelationID) {
			k.giveUp(context.Canceled, errAborted)
		}
	}
	return "", nil
}
