package router

import (
	"context"
	"slices"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/frame"
)

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.checkReuse()
	if c.arm() {
		c.conn.turn.Track(&c.task)
		if c.conn.ended() {
			c.cancel(context.Canceled)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context. As it has to, it returns an error if and only if Done is
// closed. A context that has not been asked for Done has no timer: then Err finds out
// whether the time is over, and does what the timer would.
func (c *Context) Err() error {
	c.checkReuse()
	if err := c.cause(); err != nil {
		return err
	}
	if c.conn.ended() {
		c.cancel(context.Canceled)
	} else if at, ok := c.Deadline(); ok && !time.Now().Before(at) {
		c.expire()
	}
	return c.cause()
}

// arm makes sure that the context is cancelled when its time is over. It reports false if
// that has been seen to. A context that is handled inline and never asked for Done is not
// armed: it is over sooner than it would matter.
func (c *Context) arm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked || c.err != nil {
		return false
	}
	c.tracked = true
	if at, ok := c.Deadline(); ok {
		c.timer = time.AfterFunc(time.Until(at), c.expire)
	}
	return true
}

// opened is called when the message becomes open, with the connection's turn locked.
func (c *Context) opened() {
	c.conn.router.handlers.Add(1)
	c.arm()
	if c.conn.ended() {
		c.cancel(context.Canceled)
	}
}

// expire is called when the message's time is over.
func (c *Context) expire() {
	c.giveUp(context.DeadlineExceeded, errors.From(context.DeadlineExceeded))
	if !c.route.overran.Load() {
		time.AfterFunc(overrunTime, c.reportOverrun)
	}
}

// overrunTime is how long a handler may go on after its time is over, until the log says that it ignores its context.
const overrunTime = time.Second

// reportOverrun logs, once for each type, that a handler ignores its context: it keeps its connection's place in
// flight.
func (c *Context) reportOverrun() {
	if slices.Contains(c.conn.turn.Open(), c) && c.route.overran.CompareAndSwap(false, true) {
		c.conn.router.opts.Logger.Warn("wskit: a handler goes on after its time is over; pass its Context to what it waits for",
			"type", c.route.typ, "timeout", c.timeout)
	}
}

// giveUp cancels the handler's context and answers in its place.
func (c *Context) giveUp(cause error, answer *errors.Error) {
	// When the context is seen to be cancelled, the answer has been sent.
	if c.route.request && c.claim(answer.Code) {
		c.conn.refuse(c.route.typ, c.id, answer)
		c.conn.stream.Out.Flush()
	}
	c.cancel(cause)
	if c.conn.turn.Abort(&c.task) {
		if !c.route.request {
			c.outcome = answer.Code
		}
		c.conn.finished(c)
	}
}

// claim reports whether the caller is the one to give the terminal answer, and records its
// code. Progress holds the lock too, so none can follow the answer.
func (c *Context) claim(outcome errors.Code) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return false
	}
	c.answered, c.outcome = true, outcome
	return true
}

var errAborted = errors.Cancelled.New("aborted by the client")

// finish gives a message its terminal answer, unless it has had one.
func (c *Context) finish(err error) {
	conn := c.conn
	if err == nil && c.route.request {
		if c.head == 0 {
			c.beginReply() // one without a payload: middleware has dropped an error
		}
		c.insertMeta()
	}
	if c.execution != nil {
		c.endExecution(err)
	}
	if !c.route.request {
		if c.outcome = outcomeOf(err); err != nil && !conn.ended() {
			conn.refuse(c.route.typ, c.id, err)
		}
		return
	}
	if err == nil && !c.called {
		err = errSwallowed
	}
	if !c.claim(outcomeOf(err)) {
		if err != nil && !conn.ended() {
			conn.late(c.route.typ, err)
		}
		return
	}
	if err != nil {
		conn.refuse(c.route.typ, c.id, err)
		return
	}
	c.out.WriteByte('}')
	conn.answer(c.out.Bytes())
}

// late is for the error of a request that has been answered before its handler returned.
func (c *Conn) late(typ string, err error) {
	if l := rejection(err); l != nil {
		c.rejected(typ, l)
	} else if errors.CodeOf(err) == errors.Internal {
		c.router.fault(Fault{Conn: c, Type: typ, Err: err})
	}
}

// finished closes any other message, after its handler has returned.
func (c *Conn) finished(k *Context) {
	k.countFinished()
	c.turn.Finish(&k.task)
	k.release()
	c.router.handlers.Add(-1)
	c.drained()
}

// retire is for a message that was handled inline.
func (c *Conn) retire(s *scratch, k *Context) {
	if !k.release() {
		c.turn.Untrack(&k.task)
		s.call = nil
	}
}

// freeReply gives the room for the reply back.
func (c *Context) freeReply() {
	if c.out != nil {
		c.out.Free()
		c.out = nil
	}
}

// release makes the Context ready for another message, unless a goroutine has got
// hold of its Done channel: then it is cancelled, as every context is when its
// function returns, and left to the collector.
func (c *Context) release() (reusable bool) {
	c.route.codec.put(c.lent)
	c.lent = nil
	inTest := c.conn.router.watched.Load() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked || c.done != nil || c.err != nil {
		c.freeReply()
		c.cancelLocked(context.Canceled)
		if inTest {
			c.after.Store(returned)
		}
		return false
	}
	if inTest {
		c.cancelLocked(context.Canceled)
		c.after.Store(reused)
		return false
	}
	if c.out != nil && c.out.Cap() > frame.Kept {
		c.freeReply()
	}
	return true
}
