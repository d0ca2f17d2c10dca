package router

import (
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/frame"
)

// Send sends an event to the client. payload is encoded as JSON; nil and struct{}
// are sent as no payload at all. Send does not wait for the client. An error
// means that the event has not been queued: the type is not a type name or is
// reserved, the payload does not encode, or the connection is closed
// ([ErrClosed]), perhaps by this very event, which did not fit into the queue of
// a slow client. Without an error it has been queued, which does not mean that
// it has arrived.
// At most one SendOptions may be given.
func (c *Conn) Send(typ string, payload any, opts ...SendOptions) error {
	if err := c.enqueueEvent(typ, payload, opts); err != nil {
		return err
	}
	c.stream.Out.Flush()
	return nil
}

// Send sends an event to this connection. See [Conn.Send]. It may leave together
// with what follows, within milliseconds.
func (c *Context) Send(typ string, payload any, opts ...SendOptions) error {
	c.checkReturned()
	if err := c.conn.enqueueEvent(typ, payload, opts); err != nil {
		return err
	}
	c.conn.flushUnlessBatched()
	return nil
}

// Progress sends the client of a request an interim result, such as a percentage. It may be called any
// number of times before the handler returns; the client gets what it was called
// with before it gets the answer. For an event, and after the request has been
// answered (aborted, timed out), it does nothing. It fails as [Conn.Send] does.
func (c *Context) Progress(data any) error {
	c.checkReturned()
	if !c.route.request || c.hasAnswer() {
		return nil
	}
	if of := c.route.opts.Progress; of != nil && reflect.TypeOf(data) != reflect.TypeOf(of) {
		return c.conn.router.refuseToSend(errors.Internal.Errorf("router: the progress of %q is declared with %T at %s, but was sent with %T", c.route.typ, of, c.route.place, data))
	}
	b := frame.New()
	defer b.Free()
	b.WriteString(`{"type":"` + typeProgress + `","meta":{"correlationId":`)
	b.Write(c.id)
	b.WriteString(`},"data":`)
	from := b.Len()
	if err := json.MarshalWrite(&b.Buffer, data); err != nil {
		return err
	}
	encoded := b.Bytes()[from:]
	b.Write(codec.PayloadKey)
	b.Write(encoded)
	b.WriteByte('}')
	// The lock orders it before an answer by another goroutine.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return nil
	}
	if err := c.conn.enqueue(b); err != nil {
		return err
	}
	c.conn.flushUnlessBatched()
	return nil
}

func (c *Context) hasAnswer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// Queued is how many bytes wait for the client to read them; see
// Limits.MaxQueued.
func (c *Conn) Queued() int { return c.stream.Out.Queued() }

// enqueueEvent encodes an event and queues it.
func (c *Conn) enqueueEvent(typ string, payload any, opts []SendOptions) error {
	o, err := given.Options("router", "the call", opts)
	if err != nil {
		return err
	}
	if err := c.router.checkEvent(typ, payload); err != nil {
		return err
	}
	b := frame.New()
	defer b.Free()
	if err := appendEvent(b, typ, payload, o.Meta); err != nil {
		return err
	}
	return c.enqueue(b)
}

// flushUnlessBatched sends what is queued, unless it leaves at the end of a batch.
// The order matters: what is queued before the turn is looked at is flushed by
// the goroutine that ends the batch.
func (c *Conn) flushUnlessBatched() {
	if !c.turn.Batching() {
		c.stream.Out.Flush()
	}
}
