package router

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/flat"
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

func (e *eventCodec[T]) call(c *Context, v any) error {
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

func (q *requestCodec[T, R]) call(c *Context, v any) error {
	x := v.(*exchange[T, R])
	reply, err := q.handler(c, x.message)
	if err != nil {
		return err
	}
	c.beginReply()
	if q.reply.empty {
		return nil
	}
	x.reply = reply
	if q.reply.validated {
		if err := c.conn.router.validateReply(c.route, &q.reply, &x.reply); err != nil {
			return err
		}
	}
	return q.reply.appendPayload(&c.out.Buffer, &x.reply)
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

// appendPayload appends the key and the encoded value, of any type.
func appendPayload(out *bytes.Buffer, v any) error {
	if appendFlat(out, flatOf(reflect.TypeOf(v)), reflect.ValueOf(v)) {
		return nil
	}
	out.Write(payloadKey)
	return json.MarshalWrite(out, v)
}

// appendFlat appends the key and a struct, unless s is nil or package json has to encode it.
func appendFlat(out *bytes.Buffer, s *flat.Struct, v reflect.Value) bool {
	if s == nil {
		return false
	}
	b, ok := s.Append(append(out.AvailableBuffer(), payloadKey...), v)
	if ok {
		out.Write(b)
	}
	return ok
}

// flats holds the types of payloads that were sent, and a *flat.Struct for each, nil if it is none. A program has
// few of these types.
var flats sync.Map

func flatOf(t reflect.Type) *flat.Struct {
	if t == nil {
		return nil
	}
	s, ok := flats.Load(t)
	if !ok {
		s, _ = flats.LoadOrStore(t, flat.Of(t))
	}
	return s.(*flat.Struct)
}
