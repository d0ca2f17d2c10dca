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

// inFlightRetry is the wait that a client with too many open requests gets. The time of the next
// answer is not known.
const inFlightRetry = 100 * time.Millisecond

// LimitInfo describes a frame that a limit has rejected: the limit, the connection and the
// message.
type LimitInfo struct {
	errors.LimitExceeded
	// Conn is the connection that exceeded the limit.
	Conn *Conn
	// Type is the message's registered type; empty if it has none.
	Type string
	// IP is the client's address as Options.ClientIP found it.
	IP netip.Addr
	// Identity is the identity of the connection.
	Identity ingress.Identity
}

// rejection returns the rejection that an error contains, or nil.
func rejection(err error) *errors.LimitExceeded {
	if l, ok := err.(*errors.LimitExceeded); ok { // as it comes from middleware: in a flood, quickly
		return l
	}
	l, _ := errors.AsType[*errors.LimitExceeded](err)
	return l
}

// exceeded handles a rejection according to its close code, or else to Limits.OnExceeded.
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

// rejected counts and reports a rejection, and closes the connection if it has a close code.
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

// rejection appends the payload of a rejection. It must be fast in a flood, so it consists of
// text that needs no quoting.
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
	default: // not known: 0 would mean at once
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

// maxRejectionsQueued bounds the rejections that are queued for a slow OnLimitExceeded hook.
const maxRejectionsQueued = 1 << 16

// limitHook calls OnLimitExceeded in order, in a goroutine that runs while rejections are
// queued.
type limitHook struct {
	r *Router

	mu      sync.Mutex
	queue   []LimitInfo
	telling bool
	missed  bool // logged

	// For the goroutine: the rejections that it has taken from the queue, and its position.
	// The two slices are swapped.
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

// more reports whether there are rejections, and takes them from the queue.
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
