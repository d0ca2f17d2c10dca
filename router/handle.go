package router

import (
	"context"
	"slices"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
)

// handle has a decoded message handled: on the spot where nothing of the
// connection is being handled, later where something is, or beside it where the
// route says so. See loop.go for turns.
func (c *Conn) handle(s *scratch, rt *route, lent any, env envelope.Envelope) (reading bool) {
	k := s.call
	if rt.opts.Concurrent || taken(c.turn.Load()) {
		k = new(Context)
	}
	k.reset(c, rt, env.CorrelationID, env.TimeoutMs, c.stream.ReadAt())
	k.lent = lent
	k.size = len(env.Payload) + len(env.CorrelationID)

	if rt.opts.Concurrent {
		k.beside = !rt.request
		c.begin(k)
		go func() {
			k.runInTime()
			c.stream.Out.Flush()
			c.stream.Out.HoldBack() // keeps its place in flight meanwhile
			c.finished(k)
		}()
		return true
	}
	if k != s.call && c.wait(k) {
		return true
	}

	// A turn that is free stays free until the reader takes it, and the reader
	// is us.
	turn := c.turn.Load()&^turnMask + turnStep
	k.batched = true
	c.running = k
	c.turn.Store(turn | turnInline)
	c.router.watchdog.watch(c)
	// Between the last look and the turn a drain may have begun and found
	// nothing to wait for.
	if c.draining.Load() {
		k.finish(c.router.drainError())
	} else {
		k.run()
	}
	if c.turn.CompareAndSwap(turn|turnInline, turn|turnFree) {
		c.running = nil
		c.retire(s, k)
		if c.draining.Load() {
			c.drained()
		}
		return true
	}

	// The watchdog has detached the handler, and somebody else reads by now.
	s.call = new(Context)
	c.finished(k)
	c.work()
	return false
}

// retire is for a message that was handled on the spot.
func (c *Conn) retire(s *scratch, k *Context) {
	if k.release() {
		return
	}
	c.mu.Lock()
	c.untrack(k)
	c.mu.Unlock()
	s.call = new(Context)
}

// begin opens a message that is handled beside others. While there is no room for it,
// the connection is not read on.
func (c *Conn) begin(k *Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for (k.beside && c.beside >= c.router.opts.Limits.MaxInFlight || c.overPending(k)) && !c.ended.Load() {
		c.awaitRoom()
	}
	if k.beside {
		c.beside++
	}
	c.beginLocked(k)
}

// overPending reports whether a message would be more than may be pending. It is
// called with the lock held.
func (c *Conn) overPending(k *Context) bool {
	return c.pending > 0 && c.pending+k.size > c.router.opts.Limits.MaxPending
}

func (c *Conn) beginLocked(k *Context) {
	if k.route.request {
		c.inFlight.Add(1)
	}
	c.pending += k.size
	c.router.handlers.add(1)
	c.trackLocked(k)
}

// finished closes a message opened by begin, after its handler has returned.
func (c *Conn) finished(k *Context) {
	c.mu.Lock()
	c.untrack(k)
	if k.route.request {
		c.inFlight.Add(-1)
	}
	if k.beside {
		c.beside--
	}
	c.pending -= k.size
	c.signalRoom()
	c.mu.Unlock()
	k.release()
	c.router.handlers.add(-1)
	if c.draining.Load() {
		c.drained()
	}
}

// awaitRoom is the reader's, with the lock held.
func (c *Conn) awaitRoom() {
	if c.room == nil {
		c.room = sync.NewCond(&c.mu)
	}
	c.room.Wait()
}

func (c *Conn) signalRoom() {
	if c.room != nil {
		c.room.Signal()
	}
}

// wait queues a message behind the one that is being handled. It returns false
// if by now nothing is.
func (c *Conn) wait(k *Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy := func() bool { return taken(c.turn.Load()) }
	// The number of requests that wait is bounded as that of requests in flight.
	// Where too many events wait, or too many bytes, the connection is not read on.
	full := func() bool {
		return !k.route.request && len(c.waiting) >= c.router.opts.Limits.MaxInFlight || c.overPending(k)
	}
	for busy() && full() && !c.ended.Load() {
		c.awaitRoom()
	}
	if !busy() {
		return false
	}
	c.waiting = append(c.waiting, k)
	c.beginLocked(k)
	return true
}

// work handles what waits for its turn, and then frees the turn.
func (c *Conn) work() {
	for {
		k := c.next()
		if k == nil {
			// What comes while this is sent makes the next batch.
			c.stream.Out.Flush()
			c.flushDeferred()
			if c.freeTurn() {
				return
			}
			continue
		}
		k.batched = true
		c.turn.Store(c.turn.Load()&^turnMask + turnStep | turnWorking)
		c.router.watchdog.watch(c)
		k.runInTime()
		c.finished(k)
		c.stream.Out.HoldBack()
	}
}

// next takes the first message that waits.
func (c *Conn) next() *Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return nil
	}
	k := c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.signalRoom()
	return k
}

// unqueue takes a message that waits out of the line, if it is still in it.
func (c *Conn) unqueue(k *Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, k)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	c.signalRoom()
	return true
}

// freeTurn gives the turn back to the reader, unless something waits.
func (c *Conn) freeTurn() bool {
	c.mu.Lock()
	if len(c.waiting) > 0 {
		c.mu.Unlock()
		return false
	}
	c.waiting = nil
	c.turn.Store(c.turn.Load()&^turnMask | turnFree)
	c.mu.Unlock()
	if c.draining.Load() {
		c.drained()
	}
	return true
}

// detach is the watchdog's: if the handler that it has seen before is still
// running, nothing waits for it any more. A handler of the reader's loses it the
// reading, too.
func (c *Conn) detach(seen uint64) bool {
	c.mu.Lock()
	if !c.turn.CompareAndSwap(seen, seen|turnDetached) {
		c.mu.Unlock()
		return false
	}
	if seen&turnMask == turnInline {
		// The handler may return any time now, but finished waits for the lock.
		c.beginLocked(c.running)
		go c.read()
	}
	c.mu.Unlock()
	c.stream.Out.Flush()
	go c.flushDeferred()
	return true
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

// resume plays the role on of a goroutine that a handler has ended.
func (c *Conn) resume(k *Context) {
	if !k.batched {
		c.finished(k)
		return
	}
	if turn := c.turn.Load(); turn&turnMask == turnInline && c.turn.CompareAndSwap(turn, turn&^turnMask|turnFree) {
		c.mu.Lock()
		c.untrack(k)
		c.mu.Unlock()
		c.read()
		return
	}
	c.finished(k)
	c.work()
}

// finish gives a message its terminal answer, unless it has had one.
func (c *Context) finish(err error) {
	conn := c.conn
	if !c.route.request {
		if err != nil && !conn.ended.Load() {
			conn.refuse(c.route.typ, c.id, err)
		}
		return
	}
	if !c.claim() {
		if err != nil && !conn.ended.Load() {
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
	return c.answered.CompareAndSwap(false, true)
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
	if c.conn.unqueue(c) {
		c.conn.finished(c)
	}
}
