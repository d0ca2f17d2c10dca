package router

import (
	"sync"

	"github.com/wskit/wskit/router/internal/codec"
)

type eventCodec[T any] struct {
	codec.Shape
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
	codec.Shape
	reply   codec.Shape
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

func (q *requestCodec[T, R]) Decode(v any, payload []byte) error {
	return q.Shape.Decode(&v.(*exchange[T, R]).message, payload)
}

func (q *requestCodec[T, R]) DecodeFlat(v any, b []byte) (rest []byte, ok bool) {
	return q.Shape.DecodeFlat(&v.(*exchange[T, R]).message, b)
}

func (q *requestCodec[T, R]) Check(v any) error {
	return q.Shape.Check(&v.(*exchange[T, R]).message)
}

func (q *requestCodec[T, R]) call(c *Context, v any) error {
	x := v.(*exchange[T, R])
	reply, err := q.handler(c, x.message)
	if err != nil {
		return err
	}
	c.beginReply()
	if q.reply.Empty {
		return nil
	}
	x.reply = reply
	if q.reply.Validated {
		if err := c.conn.router.validateReply(c.route, &q.reply, &x.reply); err != nil {
			return err
		}
	}
	return q.reply.AppendPayload(&c.out.Buffer, &x.reply)
}

// message returns the pointer to the decoded message in what get lent.
func (e *eventCodec[T]) message(v any) any      { return v }
func (q *requestCodec[T, R]) message(v any) any { return &v.(*exchange[T, R]).message }
