package router

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/router/internal/dedupe"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/rights"
	"github.com/wskit/wskit/router/internal/turn"
)

// Context is a message being handled. It is a context.Context that is cancelled
// when the connection ends, when the client aborts the request and when its time
// is over, so it can be passed to a database or an HTTP client.
//
// The connection's next messages wait for a handler that ignores the cancellation, although its
// client already has an answer. Messages that wait when the connection ends are dropped. When the
// client closes the connection with a close frame, its requests are cancelled at once, and the events
// that it sent before are still handled, for at most a second.
//
// A Context may be used until the handler returns. Then it is used again for another message, perhaps
// of another client. Work that goes on after that takes [Context.Detach] and the
// [Conn], which may be kept; package routertest fails a test in which it takes the Context. Until
// the handler returns, the Context may be used by several goroutines.
type Context struct {
	// Identity is that of the connection when the message came: what Authenticate returned, or
	// Renew since. It stays the same while the message is handled, and must not be changed. An
	// ingress.Key stores values with it.
	Identity *ingress.Identity

	conn       *Conn
	route      *route
	lent       any           // the message, of the route's codec
	id         []byte        // correlation id, as JSON; nil: none
	receivedAt time.Time     // also where the timeout counts from
	timeout    time.Duration // 0: none
	out        *frame.Buffer // the reply: see beginReply; nil: no room has been taken
	head       int           // how much of out comes before the payload; 0: there is no reply
	idBuf      [48]byte
	task       turn.Task[Context]
	execution  *dedupe.Execution         // of a message with an idempotency key
	values     context.Context           // that were set for the message, or nil
	guards     []inbound.Guard           // of the handler; nil: none
	own        envelope.Members          // of the message's meta
	replyMeta  atomic.Pointer[replyMeta] // of the reply; nil: none
	after      atomic.Uint32             // see checkReturned
	rights     *rights.Mark              // when the message came

	called bool // the typed handler has been called

	began   time.Duration // when it began to be handled, after the epoch; 0: it has not
	outcome errors.Code   // see claim

	mu       sync.Mutex // see locks.go
	answered bool       // the one terminal answer has been given
	tracked  bool       // the conn's turn finds it
	done     chan struct{}
	err      error
	timer    *time.Timer
}

// Type is the message's type.
func (c *Context) Type() string { return c.route.typ }

// Message is the decoded message: a pointer to the type that the handler takes.
// It is for middleware, which may change what it points to but not keep it; a
// handler gets the message as its argument.
func (c *Context) Message() any {
	if m, ok := c.route.codec.(interface{ message(any) any }); ok {
		return m.message(c.lent)
	}
	return nil
}

// Conn is the connection the message came from. It may be kept.
func (c *Context) Conn() *Conn {
	c.checkReturned()
	return c.conn
}

// IP is the client's address.
func (c *Context) IP() netip.Addr { return c.Conn().ip }

// ReceivedAt is when the message came, by the server's clock. Its deadline counts
// from there.
func (c *Context) ReceivedAt() time.Time { return c.receivedAt }

// CorrelationID is the id that the client gave the message, or empty.
func (c *Context) CorrelationID() string {
	if c.id == nil {
		return ""
	}
	var s string
	_ = json.Unmarshal(c.id, &s) // it has been read as a string
	return s
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	if c.timeout <= 0 {
		return time.Time{}, false
	}
	return c.receivedAt.Add(c.timeout), true
}

var _ context.Context = (*Context)(nil)

func (c *Context) cancel(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelLocked(err)
}

func (c *Context) cancelLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// cause is why the context is cancelled, or nil.
func (c *Context) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
