package router

import (
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/wire"
)

// appendEvent appends the frame of an event.
func appendEvent(b *frame.Buffer, typ string, payload any, meta Meta) error {
	if err := checkType(typ); err != nil {
		return err
	}
	b.WriteByte('{')
	if len(meta) > 0 { // comes first: see appendable
		members, err := meta.encode()
		if err != nil {
			return err
		}
		b.WriteString(ownMeta)
		b.Write(members)
		b.WriteString(`},`)
	}
	b.WriteString(`"type":`)
	b.Text(typ)
	if _, empty := payload.(struct{}); payload != nil && !empty {
		if err := codec.AppendPayload(&b.Buffer, payload); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// enqueue queues a frame that answers none of the client's, without flushing it.
func (c *Conn) enqueue(b *frame.Buffer) error {
	return c.queue(b.Bytes(), (*wire.Outbox).Append)
}

// sendNow is enqueue, and flushes.
func (c *Conn) sendNow(b *frame.Buffer) error {
	if err := c.enqueue(b); err != nil {
		return err
	}
	c.stream.Out.Flush()
	return nil
}

// answer queues a frame that answers one of the client's, without flushing it. It
// fails only when the client is gone, or being closed.
func (c *Conn) answer(b []byte) { _ = c.queue(b, (*wire.Outbox).Answer) }

func (c *Conn) queue(b []byte, put func(*wire.Outbox, []byte) error) error {
	if c.traced.Load() {
		c.trace(true, b[wire.HeaderRoom:])
	}
	if c.deflate && len(b)-wire.HeaderRoom >= wire.DeflateThreshold {
		d := frame.New()
		defer d.Free()
		if err := wire.Deflate(&d.Buffer, b[wire.HeaderRoom:]); err != nil {
			return err
		}
		return closedError(put(&c.stream.Out, wire.PutHeader(d.Bytes(), true)))
	}
	return closedError(put(&c.stream.Out, wire.PutHeader(b, false)))
}

// ErrClosed is the error of sending on a connection, and of subscribing it, after it
// has been closed, or while it is being closed because its client reads too slowly.
var ErrClosed = errors.Unavailable.New("connection closed")

func closedError(err error) error {
	if err != nil {
		return ErrClosed
	}
	return nil
}
