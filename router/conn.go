package router

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/limitfeed"
	"github.com/wskit/wskit/router/internal/pending"
	"github.com/wskit/wskit/router/internal/rights"
	"github.com/wskit/wskit/router/internal/session"
	"github.com/wskit/wskit/router/internal/timerwheel"
	"github.com/wskit/wskit/router/internal/turn"
	"github.com/wskit/wskit/router/internal/watchdog"
	"github.com/wskit/wskit/router/internal/wire"
)

// Conn is a connection. It may be kept for as long as the connection lasts and
// longer, and used from any goroutine; once the connection has ended, its methods
// fail or do nothing.
type Conn struct {
	router    *Router
	serving   *serving
	stream    *wire.Stream
	peer      hub.Peer // its memberships
	ip        netip.Addr
	identity  atomic.Pointer[ingress.Identity] // replaced by a renewal
	renewal   atomic.Int64                     // until when, after the epoch, a renewal may take that is under way; 0: none
	opened    time.Duration                    // after the router's epoch
	stripe    uint8                            // which of a few cache lines it counts on
	hooked    uint16                           // hooks whose OnOpen has succeeded and whose OnClose is due
	resuming  atomic.Bool                      // a $ws:resume is under way
	admission ingress.Admission                // of Options.Gate, or nil
	rights    *rights.Mark                     // when OnOpen was called

	turn    turn.Turn[Context]
	hotAt   time.Duration
	message atomic.Int64 // when the last message came, after the epoch

	life      life.Life
	allowance allowance                 // for messages of the protocol
	info      atomic.Pointer[CloseInfo] // how it ends, see note
	ctx       atomic.Pointer[connContext]
	questions atomic.Pointer[pending.Table[answer]] // nil for nearly all
	limits    *limitfeed.Feed                       // nil for nearly all; for the reader alone

	watched  watchdog.Link[*Conn]
	list     session.Link[Conn]
	timer    timerwheel.Timer[*Conn]
	closing  life.Phases
	liveness liveness
}

// CloseInfo says how a connection ended.
type CloseInfo struct {
	// Code is the close code of the client's close frame or of the server's, whichever was
	// first. 1006: the connection ended without one.
	Code errors.CloseCode
	// Reason is the text with the code.
	Reason string
	// ByServer says that this side began the closing.
	ByServer bool
	// Err is the error that ended the connection; nil if a close frame did.
	Err error
	// Topics are the topics of which the connection was a member when it ended, in no
	// particular order. It has left them by now. The slice must not be changed.
	Topics []string
}

// mayComeBack reports whether the client is expected to open another connection, as after a reload: neither the client
// nor the application has said that it is over.
func (i *CloseInfo) mayComeBack() bool {
	switch {
	case i.Code == errors.CloseNormal:
		return false
	case !i.ByServer:
		return i.Code != closeNoStatus
	case i.Code == errors.CloseNoHeartbeat, i.Code == errors.CloseSlowConsumer, i.Code == errors.CloseUnauthenticated:
		return true
	}
	return i.Code < errors.CloseNoHeartbeat && i.Code != errors.ClosePolicy
}

// ID identifies the connection. It is unguessable, and new for each one.
func (c *Conn) ID() string { return c.peer.ID }

// Identity is what Authenticate returned, or Renew since. It must not be changed. An
// ingress.Key stores values with it.
func (c *Conn) Identity() *ingress.Identity { return c.identity.Load() }

// IP is the client's address as Options.ClientIP found it.
func (c *Conn) IP() netip.Addr { return c.ip }

// Context is cancelled when the connection has ended, before OnClose is called; its cause
// (context.Cause) is [ErrClosed]. It has the values of Options.Handshake.ConnContext, and no deadline.
func (c *Conn) Context() context.Context {
	x := c.ctx.Load()
	if x == nil {
		c.ctx.CompareAndSwap(nil, &connContext{values: context.Background()})
		x = c.ctx.Load()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(x.values)
	}
	if c.ended() {
		x.cancel(ErrClosed)
	}
	return x.ctx
}

// connContext is the context of a connection. Most connections never need it, so
// it is made when it is asked for, or has values.
type connContext struct {
	values context.Context // of Options.Handshake.ConnContext; it does not change

	mu     sync.Mutex
	ctx    context.Context // nil until it is asked for; guarded by mu, as cancel is
	cancel context.CancelCauseFunc
}

// end cancels the context, if there is one. The connection's state is Ended.
func (x *connContext) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel != nil {
		x.cancel(ErrClosed)
	}
}

// value returns a value of the handshake.
func (c *Conn) value(key any) any {
	if x := c.ctx.Load(); x != nil {
		return x.values.Value(key)
	}
	return nil
}

// note records how the connection ends, and returns it: what is noted first holds.
func (c *Conn) note(info CloseInfo) CloseInfo {
	if c.info.Load() == nil {
		own := info // info itself needs no memory
		c.info.CompareAndSwap(nil, &own)
	}
	return *c.info.Load()
}

func (c *Conn) ended() bool { return c.life.State() == life.Ended }

// closeAbnormal stands for a connection that ended without a close frame (RFC
// 6455, 7.1.5). It is never sent.
const closeAbnormal errors.CloseCode = 1006
