package router

import (
	"bytes"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type eventCodec[T any] struct {
	shape
	pool    sync.Pool
	handler func(*Context, T) error
}

func (e *eventCodec[T]) get() any {
	if v := e.pool.Get(); v != nil {
		return v
	}
	return new(T)
}

func (e *eventCodec[T]) put(v any) {
	var zero T
	*v.(*T) = zero
	e.pool.Put(v)
}

func (e *eventCodec[T]) call(c *Context, v any, _ *bytes.Buffer) error {
	return e.handler(c, *v.(*T))
}

// exchange is a request's message with room for its reply, so that handing the
// reply to the encoder makes no copy on the heap.
type exchange[T, R any] struct {
	message T
	reply   R
}

type requestCodec[T, R any] struct {
	shape
	reply   shape
	pool    sync.Pool
	handler func(*Context, T) (R, error)
}

func (q *requestCodec[T, R]) get() any {
	if v := q.pool.Get(); v != nil {
		return v
	}
	return new(exchange[T, R])
}

func (q *requestCodec[T, R]) put(v any) {
	*v.(*exchange[T, R]) = exchange[T, R]{}
	q.pool.Put(v)
}

func (q *requestCodec[T, R]) decode(v any, payload []byte) error {
	return q.shape.decode(&v.(*exchange[T, R]).message, payload)
}

func (q *requestCodec[T, R]) decodeFlat(v any, b []byte) (rest []byte, ok bool) {
	return q.shape.decodeFlat(&v.(*exchange[T, R]).message, b)
}

func (q *requestCodec[T, R]) check(v any) error {
	return q.shape.check(&v.(*exchange[T, R]).message)
}

func (q *requestCodec[T, R]) call(c *Context, v any, out *bytes.Buffer) error {
	x := v.(*exchange[T, R])
	reply, err := q.handler(c, x.message)
	if err != nil || q.reply.empty {
		return err
	}
	x.reply = reply
	if q.reply.validated {
		if err := c.conn.router.validateReply(c.route, &q.reply, &x.reply); err != nil {
			return err
		}
	}
	return q.reply.appendPayload(out, &x.reply)
}

// message returns the pointer to the decoded message in what get lent.
func (e *eventCodec[T]) message(v any) any      { return v }
func (q *requestCodec[T, R]) message(v any) any { return &v.(*exchange[T, R]).message }

func quote(s string) []byte {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		// Invalid UTF-8 in a type of the application's own.
		b, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

var payloadKey = []byte(`,"payload":`)

// appendPayload appends the key and the encoded value.
func appendPayload(out *bytes.Buffer, v any) error {
	out.Write(payloadKey)
	return json.MarshalWrite(out, v)
}
