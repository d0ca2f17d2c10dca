package router

import (
	"context"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/ceil"
)

// inFlightRetry is the wait advised to a client with too many open requests.
// When one of them will be answered nobody knows.
const inFlightRetry = 100 * time.Millisecond

// LimitInfo tells of a frame that a limit has rejected: which limit and by how
// much, who sent it, and what.
type LimitInfo struct {
	errors.LimitExceeded
	// Conn is the connection that ran into the limit.
	Conn *Conn
	// Type is the message's registered type; empty if it has none.
	Type string
	// IP is the client's address as Options.ClientIP found it.
	IP netip.Addr
	// Identity is who is behind the connection.
	Identity ingress.Identity
}

// rejection is the rejection by a limit in an error, or nil.
func rejection(err error) *errors.LimitExceeded {
	if l, ok := err.(*errors.LimitExceeded); ok { // as it comes from middleware: in a flood, quickly
		return l
	}
	l, _ := errors.AsType[*errors.LimitExceeded](err)
	return l
}

// exceeded does with a rejection what it says itself, or else Limits.OnExceeded.
func (c *Conn) exceeded(typ string, id []byte, l *errors.LimitExceeded) {
	if c.rejected(typ, l) {
		return
	}
	r := c.router
	switch r.opts.Limits.OnExceeded {
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
	case OnExceededSend:
		b := newOutgoing()
		defer b.free()
		b.failureHead(id)
		b.rejection(l)
		c.answer(b.Bytes())
	}
}

// rejected counts and tells of a rejection, and closes the connection if it says so.
func (c *Conn) rejected(typ string, l *errors.LimitExceeded) (closed bool) {
	r := c.router
	r.stats.rejected.Add(1)
	if r.opts.OnLimitExceeded != nil {
		r.limits.tell(LimitInfo{LimitExceeded: *l, Conn: c, Type: typ, IP: c.ip, Identity: c.identity})
	}
	if !l.Close.Valid() {
		return false
	}
	c.beginClose(l.Close, retryReason(l))
	return true
}

// rejection appends the payload of a rejection. A flood is answered with it, so it is
// put together from text that needs no quoting.
func (b *outgoing) rejection(l *errors.LimitExceeded) {
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
	default: // not known: 0 would have the client come back at once, again and again
		p = append(p, `","retryable":true`...)
	}
	p = append(p, `,"details":{"kind":`...)
	p, _ = jsontext.AppendQuote(p, string(l.Kind)) // middleware may have kinds of its own
	p = append(p, `,"observed":`...)
	p = strconv.AppendInt(p, l.Observed, 10)
	p = append(p, `,"limit":`...)
	p = strconv.AppendInt(p, l.Limit, 10)
	p = append(p, "}}}"...)
	b.Write(p)
}

// retryReason is the reason of a close for a limit.
func retryReason(l *errors.LimitExceeded) string {
	switch {
	case l.Never:
		return `{"retryAfterMs":null}`
	case l.RetryAfter > 0:
		return retryAfterReason(l.RetryAfter)
	default:
		return "" // not known
	}
}

func retryAfterReason(d time.Duration) string {
	return `{"retryAfterMs":` + strconv.FormatInt(ceil.Div(d, time.Millisecond), 10) + `}`
}

// maxRejectionsQueued bounds what a slow OnLimitExceeded hook can pile up.
const maxRejectionsQueued = 1 << 16

// limitHook calls OnLimitExceeded in order, in a goroutine that lives while there
// is something to tell.
type limitHook struct {
	r *Router

	mu      sync.Mutex
	queue   []LimitInfo
	telling bool
	missed  bool // logged

	// Of the goroutine that tells: what it has taken from the queue, with which it
	// takes turns, and how far it is.
	batch []LimitInfo
	at    int
}

func (h *limitHook) init(r *Router) { h.r = r }

func (h *limitHook) tell(info LimitInfo) {
	if h.add(info) {
		h.r.opts.Logger.Warn("wskit: OnLimitExceeded is too slow, some rejections are only counted", "queued", maxRejectionsQueued)
	}
}

// add queues a rejection for the hook. It reports whether there is no room for it, for the
// first time since the queue was empty.
func (h *limitHook) add(info LimitInfo) (missed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= maxRejectionsQueued {
		h.r.stats.missed.Add(1)
		missed = !h.missed
		h.missed = true
		return missed
	}
	h.queue = append(h.queue, info)
	if !h.telling {
		h.telling = true
		go h.run()
	}
	return false
}

func (h *limitHook) run() {
	through := false
	defer func() {
		if !through { // the hook has called runtime.Goexit
			go h.run()
		}
	}()
	for h.more() {
		info := h.batch[h.at]
		h.batch[h.at] = LimitInfo{}
		h.at++
		h.call(info)
	}
	through = true
}

// more reports whether there is something to tell, and takes it from the queue.
func (h *limitHook) more() bool {
	if h.at < len(h.batch) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batch, h.queue, h.at = h.queue, h.batch[:0], 0
	if len(h.batch) > 0 {
		return true
	}
	h.missed, h.telling = false, false
	if cap(h.queue) > 1<<10 {
		h.queue = nil
	}
	return false
}

func (h *limitHook) call(info LimitInfo) {
	defer func() {
		if v := recover(); v != nil {
			h.r.fault(Fault{Conn: info.Conn, Type: info.Type, Err: panicError("OnLimitExceeded", v), Stack: stack()})
		}
	}()
	h.r.opts.OnLimitExceeded(context.WithoutCancel(h.r.ctx), info)
}
