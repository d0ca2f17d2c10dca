package router

import (
	"context"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/turn"
)

// handle has a decoded message handled: on the spot where nothing of the connection is
// being handled, later where something is, or concurrently where the route says so. See
// package turn.
func (c *Conn) handle(s *scratch, f *incoming) (reading bool) {
	k := s.call
	if f.route.opts.Concurrent || c.turn.Busy() {
		k = new(Context)
	}
	k.reset(c, f.route, &f.env, c.stream.ReadAt())
	k.lent = f.lent
	switch c.turn.Begin(&k.task) {
	case turn.Queued:
		return true
	case turn.Concurrent:
		go c.handleConcurrently(k)
		return true
	}
	c.watch()
	// A drain may have begun after dispatch looked, found nothing to wait for, and closed
	// the connection.
	if c.life.State() != life.Open {
		k.finish(c.router.drainError())
	} else {
		k.run()
	}
	if c.turn.Return() {
		c.retire(s, k)
		c.drained()
		return true
	}
	// The watchdog has detached the handler, and another goroutine reads by now.
	s.call = new(Context)
	c.finished(k)
	c.work()
	return false
}

func (c *Conn) handleConcurrently(k *Context) {
	k.runInTime()
	c.stream.Out.Flush()
	c.stream.Out.HoldBack() // keeps its place in flight meanwhile
	c.finished(k)
}

// retire is for a message that was handled on the spot.
func (c *Conn) retire(s *scratch, k *Context) {
	if !k.release() {
		c.turn.Untrack(&k.task)
		s.call = new(Context)
	}
}

// finished closes any other message, after its handler has returned.
func (c *Conn) finished(k *Context) {
	c.turn.Finish(&k.task)
	k.release()
	c.router.handlers.add(-1)
	c.drained()
}

// work handles what waits for its turn. It is the worker's.
func (c *Conn) work() {
	for {
		k := c.turn.Next()
		if k == nil {
			// What comes while this is sent makes the next batch.
			c.stream.Out.Flush()
			c.flushDeferred()
			if c.turn.Free() {
				c.drained()
				return
			}
			continue
		}
		c.watch()
		k.runInTime()
		c.finished(k)
		c.stream.Out.HoldBack()
	}
}

// runInTime is run for a message that has waited: it may have been aborted, its time may
// be over, or its connection may have ended.
func (c *Context) runInTime() {
	if err := c.Err(); err != nil {
		c.finish(err)
		return
	}
	c.run()
}

// run calls the handler and answers.
func (c *Context) run() {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			v = "runtime.Goexit called by a handler"
			defer func() {
				c.conn.Close(errors.CloseInternal, "internal error")
				go c.conn.resume(c)
			}()
		}
		c.finish(c.conn.panicked(c.route.typ, v))
	}()
	err := c.route.handle(c)
	returned = true
	c.finish(err)
}

// resume takes over the role of a goroutine that a handler has ended.
func (c *Conn) resume(k *Context) {
	switch {
	case k.task.Concurrent:
		c.finished(k)
	case c.turn.Return():
		c.turn.Untrack(&k.task)
		c.read()
	default:
		c.finished(k)
		c.work()
	}
}

// finish gives a message its terminal answer, unless it has had one.
func (c *Context) finish(err error) {
	conn := c.conn
	if !c.route.request {
		if err != nil && !conn.ended() {
			conn.refuse(c.route.typ, c.id, err)
		}
		return
	}
	if !c.claim() {
		if err != nil && !conn.ended() {
			conn.late(c.route.typ, err)
		}
		return
	}
	switch {
	case err != nil:
		conn.refuse(c.route.typ, c.id, err)
	case !c.called:
		conn.refuse(c.route.typ, c.id, errSwallowed)
	default:
		c.out.WriteByte('}')
		conn.answer(c.out.Bytes())
	}
}

// late is for the error of a request that has been answered meanwhile.
func (c *Conn) late(typ string, err error) {
	if l := rejection(err); l != nil {
		c.rejected(typ, l)
	} else if errors.CodeOf(err) == errors.Internal {
		c.router.fault(Fault{Conn: c, Type: typ, Err: err})
	}
}

// claim reports whether the caller is the one to give the terminal answer.
// Progress holds the lock too, so none can follow the answer.
func (c *Context) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.answered
	c.answered = true
	return first
}

// expire is called when the message's time is over.
func (c *Context) expire() { c.giveUp(context.DeadlineExceeded, errors.From(context.DeadlineExceeded)) }

// giveUp cancels the handler's context and answers in its place.
func (c *Context) giveUp(cause error, answer *errors.Error) {
	// Whoever sees the context cancelled may take it that the answer is sent.
	if c.route.request && c.claim() {
		c.conn.refuse(c.route.typ, c.id, answer)
		c.conn.stream.Out.Flush()
	}
	c.cancel(cause)
	if c.conn.turn.Abort(&c.task) {
		c.conn.finished(c)
	}
}
