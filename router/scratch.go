package router

import (
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/internal/inbound"
)

// incoming is a frame on its way to its handler.
type incoming struct {
	bytes    []byte // the beginning, where it is too large
	size     int
	tooLarge bool
	env      envelope.Envelope
	complete bool   // env holds all of it
	bad      error  // why it is malformed
	route    *route // nil: none is registered, or the frame is not fit for it
	lent     any    // the message, of the route's codec; nil: it is not decoded yet
}

// typ is the registered type.
func (f *incoming) typ() string {
	if f.route == nil {
		return ""
	}
	return f.route.typ
}

// scratch is what a goroutine needs to handle messages. It is borrowed for as
// long as there are any.
type scratch struct {
	peeker   envelope.Peeker
	in       ingress.Context
	identity *ingress.Identity // of which in has a copy
	call     *Context          // for the next message that is handled inline; nil: none has been made
	latest   *route            // that was looked up, of this connection's router
	counts   batchCounters

	overloaded errors.Error // of the message that was refused last
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (c *Conn) borrow() *scratch {
	s := scratches.Get().(*scratch)
	s.counts.Stripe = c.stripe
	s.in = ingress.Context{ConnID: c.peer.ID, IP: c.ip, State: inbound.State{Ctx: lazyContext{c}, Frame: &s.peeker, Limits: c.limits.Reports()}}
	return s
}

// identify takes over the connection's identity, which a renewal may have replaced.
func (s *scratch) identify(id *ingress.Identity) {
	if id != s.identity {
		s.identity, s.in.Identity = id, *id
	}
}

func (s *scratch) free() {
	s.in, s.identity, s.latest = ingress.Context{}, nil, nil // pins no connection
	s.counts.at = 0
	scratches.Put(s)
}

// lazyContext is the connection's context for middleware, most of which never
// asks for it.
type lazyContext struct{ c *Conn }

func (l lazyContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (l lazyContext) Done() <-chan struct{} { return l.c.Context().Done() }

func (l lazyContext) Value(key any) any { return l.c.value(key) }

// BeforeHold sends what the batch has queued so far: it must not wait, too.
func (l lazyContext) BeforeHold() {
	l.c.stream.Out.Flush()
	l.c.peer.FlushBatch()
}

func (l lazyContext) Err() error {
	if !l.c.ended() {
		return nil
	}
	return l.c.Context().Err()
}
