package router

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/internal/closereason"
	"github.com/wskit/wskit/router/internal/frame"
)

// rejection returns the rejection that an error contains, or nil.
func rejection(err error) *errors.LimitExceeded {
	if l, ok := err.(*errors.LimitExceeded); ok { // as it comes from middleware: in a flood, quickly
		return l
	}
	l, _ := errors.AsType[*errors.LimitExceeded](err)
	return l
}

// exceeded handles a rejection according to its close code, or else to Limits.OnExceeded.
func (c *Conn) exceeded(m frame.Failed, l *errors.LimitExceeded) {
	if c.rejected(m.Type, l) {
		return
	}
	r := c.router
	on := r.opts.Limits.OnExceeded
	if m.ID == nil && (l.Silent || on == OnExceededSilent) {
		r.stats.unanswered.Add(1)
		return
	}
	switch on {
	case OnExceededClose:
		code := r.opts.Limits.CloseCode
		switch {
		case code != 0:
		case l.Kind == errors.LimitPayload:
			code = errors.ClosePayloadTooLarge
		default:
			code = errors.CloseTryAgainLater
		}
		c.beginClose(code, retryReason(l))
	case OnExceededSend, OnExceededSilent:
		b := frame.New()
		defer b.Free()
		b.Failure(m)
		appendRejection(b, l)
		c.answer(b.Bytes())
	}
}

// rejected counts and reports a rejection, and closes the connection if it has a close code.
func (c *Conn) rejected(typ string, l *errors.LimitExceeded) (closed bool) {
	r := c.router
	r.stats.rejected.Add(1)
	r.stats.rejections.Add(l)
	if len(r.hooks.Load().exceeds) > 0 {
		r.limits.Add(LimitInfo{LimitExceeded: *l, Conn: c, Type: typ, IP: c.ip, Identity: *c.identity.Load()})
	}
	if !l.Close.Valid() {
		return false
	}
	c.beginClose(l.Close, retryReason(l))
	return true
}

// appendRejection appends the payload of a rejection. It must be fast in a flood, so it consists of
// text that needs no quoting.
func appendRejection(b *frame.Buffer, l *errors.LimitExceeded) {
	b.Grow(256)
	p := b.AvailableBuffer()
	p = append(p, `"code":"`...)
	p = append(p, l.Code()...)
	p = append(p, `","message":"`...)
	p = append(p, l.Message()...)
	switch {
	case l.Never:
		p = append(p, `","retryable":false,"retryAfterMs":null`...)
	case l.RetryAfter > 0:
		p = append(p, `","retryable":true,"retryAfterMs":`...)
		p = strconv.AppendInt(p, ceil.Div(l.RetryAfter, time.Millisecond), 10)
	default: // not known: 0 would mean at once
		p = append(p, `","retryable":true`...)
	}
	p = append(p, `,"details":{"kind":`...)
	p, _ = jsontext.AppendQuote(p, string(l.Kind)) // middleware may have kinds of its own
	p = append(p, `,"observed":`...)
	p = strconv.AppendInt(p, l.Observed, 10)
	p = append(p, `,"limit":`...)
	p = strconv.AppendInt(p, l.Limit, 10)
	if l.Kind != errors.LimitPayload {
		p = append(p, `,"remaining":`...)
		p = strconv.AppendInt(p, l.Remaining, 10)
	}
	p = append(p, "}}}"...)
	b.Write(p)
}

// retryReason is the reason of a close for a limit.
func retryReason(l *errors.LimitExceeded) string {
	if l.Never {
		return closereason.Of(closereason.Never, "")
	}
	return closereason.Of(l.RetryAfter, "")
}

func (r *Router) callOnLimitExceeded(info LimitInfo) {
	callAll(r.hooks.Load().exceeds, func(hook func(LimitInfo)) {
		defer r.containPanic("OnLimitExceeded", info.Conn, info.Type)
		hook(info)
	})
}
