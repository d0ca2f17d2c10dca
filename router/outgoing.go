package router

import (
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/hub"
)

// appendEvent appends the frame of an event.
func appendEvent(b *frame.Buffer, typ string, payload any, meta Meta) error {
	if err := checkType(typ); err != nil {
		return err
	}
	b.WriteByte('{')
	if len(meta) > 0 { // comes first, see hub.MetaOpen
		members, err := meta.encode()
		if err != nil {
			return err
		}
		b.WriteString(hub.MetaOpen)
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
	return c.peer.Queue(b)
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
func (c *Conn) answer(b []byte) { _ = c.peer.Answer(b) }

// ErrClosed is the error of sending on a connection, and of subscribing it, after it
// has been closed, or while it is being closed because its client reads too slowly.
var ErrClosed = hub.ErrClosed
