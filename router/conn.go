package router

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/turn"
	"github.com/wskit/wskit/router/internal/wire"
)

// Conn is a connection. It may be kept for as long as the connection lasts and
// longer, and used from any goroutine; once the connection has ended, its methods
// fail or do nothing.
type Conn struct {
	// Identity is what Authenticate returned. It must not be changed. An ingress.Key
	// stores values with it.
	Identity *ingress.Identity

	router    *Router
	serving   *serving
	stream    *wire.Stream
	id        string
	ip        netip.Addr
	identity  ingress.Identity
	opened    time.Duration // after the router's epoch
	deflate   bool
	admission ingress.Admission // of Options.Gate, or nil

	turn    turn.Turn[Context]
	hotAt   time.Duration
	message atomic.Int64 // when the last message came, after the epoch

	life     life.Life
	info     atomic.Pointer[CloseInfo] // how it ends, see note
	deferred atomic.Pointer[deferredFlush]

	mu     sync.Mutex
	topics []*member
	ctx    *connContext

	list  connLink // of all connections
	timer timerLink
}

func (r *Router) newConn(id string, ip netip.Addr, identity ingress.Identity, stream *wire.Stream) *Conn {
	c := &Conn{
		router: r, serving: r.freeze(), stream: stream,
		id: id, ip: ip, identity: identity,
		opened: r.now(),
	}
	c.identity.Own()
	c.Identity = &c.identity
	c.timer.init(c)
	c.turn.Init(&r.turns)
	c.message.Store(int64(c.opened))
	stream.Out.Configure(r.opts.Limits.MaxQueued, r.opts.Liveness.WriteTimeout, owner{c})
	return c
}

// CloseInfo says how a connection ended.
type CloseInfo struct {
	// Code is the close code: the one the client sent, or the one it was sent,
	// whichever came first. 1006: the connection ended without one.
	Code errors.CloseCode
	// Reason is the text with the code.
	Reason string
	// ByServer says that this side began the closing.
	ByServer bool
	// Err is the error that ended the connection, where it was no close frame.
	Err error
}

// ID identifies the connection. It is unguessable, and new for each one.
func (c *Conn) ID() string { return c.id }

// IP is the client's address as Options.ClientIP found it.
func (c *Conn) IP() netip.Addr { return c.ip }

// Send sends an event to the client. payload is encoded as JSON; nil and struct{}
// are sent as no payload at all. Send does not wait for the client. An error
// means that the event has not been queued: the type is not a type name or is
// reserved, the payload does not encode, or the connection is closed
// ([ErrClosed]), perhaps by this very event, which did not fit into the queue of
// a slow client. Without an error it has been queued, which does not mean that
// it has arrived.
func (c *Conn) Send(typ string, payload any) error {
	if err := c.enqueueEvent(typ, payload); err != nil {
		return err
	}
	c.stream.Out.Flush()
	return nil
}

// Queued is how many bytes wait for the client to read them; see
// Limits.MaxQueued.
func (c *Conn) Queued() int { return c.stream.Out.Queued() }

// Subscribe makes the connection a member of a topic. See [Context.Subscribe].
// ctx is for the call alone; the membership lasts.
func (c *Conn) Subscribe(ctx context.Context, topic string) error { return c.subscribe(ctx, topic) }

// Join makes the connection a member of a topic that is seen by others. See
// [Context.Join]. ctx is for the call alone; the membership lasts.
func (c *Conn) Join(ctx context.Context, topic string, known any) error {
	return c.join(ctx, topic, known)
}

// Context is cancelled when the connection has ended, before OnClose is called.
// It carries no values and no deadline.
func (c *Conn) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx = &connContext{done: make(chan struct{})}
		if c.ended() {
			close(c.ctx.done)
		}
	}
	return c.ctx
}

// connContext is the context of a connection. Most connections never need it, so
// it is made when it is asked for.
type connContext struct{ done chan struct{} }

func (c *connContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *connContext) Done() <-chan struct{}       { return c.done }
func (c *connContext) Value(any) any               { return nil }

func (c *connContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// lazyContext is the connection's context for middleware, most of which never
// asks for it.
type lazyContext struct{ c *Conn }

func (l lazyContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l lazyContext) Done() <-chan struct{}       { return l.c.Context().Done() }
func (l lazyContext) Value(any) any               { return nil }

// BeforeHold sends what the batch has queued so far: it must not wait, too.
func (l lazyContext) BeforeHold() {
	l.c.stream.Out.Flush()
	l.c.flushDeferred()
}

func (l lazyContext) Err() error {
	if !l.c.ended() {
		return nil
	}
	l.c.mu.Lock() // until Done is closed
	defer l.c.mu.Unlock()
	return context.Canceled
}

// owner is what the connection's stream knows of it.
type owner struct{ *Conn }

func (o owner) SlowConsumer() {
	o.router.stats.slow.Add(1)
	if o.life.To(life.Closing) {
		o.note(CloseInfo{Code: errors.CloseSlowConsumer, Reason: "slow consumer", ByServer: true})
	}
	o.router.wheel.enter(o.Conn, life.AwaitSlow)
}

func (o owner) FramesDropped(n int) { o.router.stats.dropped.Add(int64(n)) }

func (o owner) BeforeWait() { o.flushDeferred() }

var _ wire.Owner = owner{}
