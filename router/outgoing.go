package router

import (
	"bytes"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/wire"
)

// outgoing is a frame being built: room for its header, then the JSON.
type outgoing struct{ bytes.Buffer }

var headerRoom [wire.HeaderRoom]byte

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing {
	b := outgoings.Get().(*outgoing)
	b.clear()
	return b
}

// clear leaves only room for the header.
func (b *outgoing) clear() {
	b.Reset()
	b.Write(headerRoom[:])
}

// keptBuffer is the largest buffer that is kept for another use.
const keptBuffer = 64 << 10

func (b *outgoing) free() {
	if b.Cap() <= keptBuffer {
		outgoings.Put(b)
	}
}

func (b *outgoing) event(typ string, payload any, meta Meta) error {
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
	b.string(typ)
	if _, empty := payload.(struct{}); payload != nil && !empty {
		if err := appendPayload(&b.Buffer, payload); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// string appends a JSON string.
func (b *outgoing) string(s string) {
	if !utf8.ValidString(s) {
		b.Write(quote(s))
		return
	}
	q, _ := jsontext.AppendQuote(b.AvailableBuffer(), s)
	b.Write(q)
}

func (b *outgoing) int(n int64) { b.Write(strconv.AppendInt(b.AvailableBuffer(), n, 10)) }

// failureHead appends a frame of RPC_ERROR or ERROR up to the code in its payload.
func (b *outgoing) failureHead(m failed) {
	if m.id != nil {
		b.Grow(64 + len(m.id))
		p := append(b.AvailableBuffer(), `{"type":"`+typeRPCError+`","meta":{"correlationId":`...)
		p = append(append(p, m.id...), `},"payload":{`...)
		b.Write(p)
		return
	}
	b.WriteString(`{"type":"` + typeError + `","payload":{`)
	if m.typ == "" && m.sent == nil {
		return
	}
	b.WriteString(`"type":`)
	if m.typ != "" {
		b.string(m.typ)
	} else {
		q, _ := jsontext.AppendQuote(b.AvailableBuffer(), m.sent) // has been read as a string
		b.Write(q)
	}
	b.WriteByte(',')
}

// enqueue queues a frame that answers none of the client's, without flushing it.
func (c *Conn) enqueue(b *outgoing) error {
	return c.queue(b.Bytes(), (*wire.Outbox).Append)
}

// sendNow is enqueue, and flushes.
func (c *Conn) sendNow(b *outgoing) error {
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
		d := newOutgoing()
		defer d.free()
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
