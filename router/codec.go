package router

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

func newEventRoute[T any](typ string, h func(*Context, T) error, opts RouteOptions) *route {
	shape := shapeOf[T](typ)
	return &route{typ: typ, opts: opts, codec: &eventCodec[T]{shape: shape, handler: h}}
}

func newRequestRoute[T, R any](typ string, h func(*Context, T) (R, error), opts RouteOptions) *route {
	reply := opts.Reply
	if reply == "" {
		reply = typ + replySuffix
	}
	head := append([]byte(`{"type":`), quote(reply)...)
	head = append(head, `,"meta":{"correlationId":`...)
	return &route{typ: typ, request: true, opts: opts, replyHead: head, codec: &requestCodec[T, R]{
		shape: shapeOf[T](typ), noReply: isEmptyStruct(reflect.TypeFor[R]()), handler: h,
	}}
}

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
	noReply bool
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

func (q *requestCodec[T, R]) call(c *Context, v any, out *bytes.Buffer) error {
	x := v.(*exchange[T, R])
	reply, err := q.handler(c, x.message)
	if err != nil || q.noReply {
		return err
	}
	x.reply = reply
	return appendPayload(out, &x.reply)
}

// message returns the pointer to the decoded message in what get lent.
func (e *eventCodec[T]) message(v any) any      { return v }
func (q *requestCodec[T, R]) message(v any) any { return &v.(*exchange[T, R]).message }

// shape is what has to be known of a message's type to decode it.
type shape struct {
	optional  bool // a frame without a payload will do
	validated bool
	pointer   bool
}

// shapeOf panics if the type's tags make no sense, as the validator would at the
// first message.
func shapeOf[T any](typ string) shape {
	t := reflect.TypeFor[T]()
	s := shape{optional: isEmptyStruct(t)}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		s.optional = true
	}
	for t.Kind() == reflect.Pointer {
		t, s.pointer = t.Elem(), true
	}
	s.validated = t.Kind() == reflect.Struct && hasRules(t, make(map[reflect.Type]bool))
	if s.validated {
		checkRules(typ, t)
	}
	return s
}

func isEmptyStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 0
}

var errNoPayload = errors.InvalidArgument.New("message has no payload")

func (s shape) decode(v any, payload []byte) error {
	if payload == nil || string(payload) == "null" {
		if s.optional {
			return nil
		}
		return errNoPayload
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return decodeError(err)
	}
	if !s.validated {
		return nil
	}
	if s.pointer {
		// v points to the pointers that lead to the struct.
		rv := reflect.ValueOf(v).Elem()
		for rv.Kind() == reflect.Pointer && rv.Elem().Kind() == reflect.Pointer {
			rv = rv.Elem()
		}
		v = rv.Interface()
	}
	if err := validate.Struct(v); err != nil {
		return validationError(err)
	}
	return nil
}

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
