package router

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/router/internal/frame"
)

// refuse answers a message that has failed. It does not flush.
func (c *Conn) refuse(typ string, id []byte, err error) {
	c.answerFailed(frame.Failed{Type: typ, ID: id}, err)
}

func (c *Conn) answerFailed(m frame.Failed, err error) {
	if l := rejection(err); l != nil {
		c.exceeded(m, l)
		return
	}
	e := errors.From(err)
	if e.Code == errors.Internal {
		c.router.fault(Fault{Conn: c, Type: m.Type, Err: err})
	}
	b := frame.New()
	defer b.Free()
	b.Failure(m)
	c.appendFailure(b, m.Type, e)
	c.answer(b.Bytes())
}

// appendFailure appends the payload of an error from its code on, and the end of the frame.
func (c *Conn) appendFailure(b *frame.Buffer, typ string, e *errors.Error) {
	b.WriteString(`"code":`)
	b.Text(string(e.Code))
	b.WriteString(`,"message":`)
	b.Text(e.Message)
	b.WriteString(`,"retryable":`)
	b.WriteString(strconv.FormatBool(e.Retryable()))
	if e.Retryable() && e.RetryAfter > 0 {
		b.WriteString(`,"retryAfterMs":`)
		b.Int(ceil.Div(e.RetryAfter, time.Millisecond))
	}
	c.appendDetails(b, typ, e.Details)
	b.WriteString("}}")
}

// appendDetails leaves details that do not encode out: an answer without them is
// better than none.
func (c *Conn) appendDetails(b *frame.Buffer, typ string, details any) {
	if details == nil {
		return
	}
	mark := b.Len()
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = c.panicked(typ, v)
			}
		}()
		b.WriteString(`,"details":`)
		return json.MarshalWrite(&b.Buffer, details)
	}()
	if err != nil {
		b.Truncate(mark)
		c.router.fault(Fault{Conn: c, Type: typ, Err: err})
	}
}
