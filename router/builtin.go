package router

import (
	"bytes"
	"context"
	"time"

	"github.com/wskit/wskit/internal/envelope"
)

// builtin are the types the protocol defines for clients to send. They pass the
// middleware like any other message, so that they are not free of charge.
var builtin = []*route{
	{typ: typeHeartbeat, builtin: (*Conn).heartbeat},
	{typ: typeAbort, builtin: (*Conn).abort},
	{typ: typeAnswer, builtin: (*Conn).takeAnswer},
}

// heartbeat answers a client that cannot send pings, as pages cannot.
func (c *Conn) heartbeat(envelope.Envelope, []byte) {
	b := newOutgoing()
	defer b.free()
	b.WriteString(`{"type":"` + typeHeartbeatAck + `","meta":{"ts":`)
	b.int(time.Now().UnixMilli())
	b.WriteString("}}")
	c.answer(b.Bytes())
}

// abort takes a request back. One that is not open, because it has been answered
// meanwhile or never was, has or had its answer: there is nothing to say.
func (c *Conn) abort(env envelope.Envelope, _ []byte) {
	if env.CorrelationID == nil {
		c.refused(RefusedEnvelope, typeAbort, errNoID)
		c.refuse(typeAbort, nil, errNoID)
		return
	}
	for _, k := range c.turn.Open() {
		// Ids are compared as they were sent, so a client has to write an id in one way.
		if k.route.request && bytes.Equal(k.id, env.CorrelationID) {
			k.giveUp(context.Canceled, errAborted)
		}
	}
}
