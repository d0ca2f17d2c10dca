package router

import (
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/metrics"
	"github.com/wskit/wskit/router/internal/turn"
)

// handle has a decoded message handled: inline where nothing of the connection is
// being handled, later where something is, or concurrently where the route says so. See
// package turn.
func (c *Conn) handle(s *scratch, f *incoming) (reading bool) {
	if s.call == nil {
		s.call = new(Context)
	}
	k := s.call
	if f.route.opts.Concurrent || c.turn.Busy() {
		k = new(Context)
	}
	k.reset(c, f.route, &f.env, c.stream.ReadAt())
	k.Identity, k.lent = s.identity, f.lent
	if v := s.in.State.Values; v != nil {
		k.values = v.Of
	}
	if len(s.in.State.Guards) > 0 {
		k.guardBy(s)
	}
	if own := s.peeker.Own(); len(own) > 0 {
		k.own = append(k.own, own...)
		k.task.Size += int32(len(own))
	}
	if c.idempotent(f) {
		k.execution = c.newExecution(f)
	}
	waits := k != s.call
	if waits {
		k.arm() // its time goes on while there is no room for it
	}
	switch c.turn.Begin(&k.task) {
	case turn.Queued:
		return true
	case turn.Concurrent:
		if f.route.paced {
			c.router.fair.PutOff(k)
		} else {
			go c.handleConcurrently(k)
		}
		return true
	case turn.Refused:
		l := inFlight(c.router.opts.Limits.MaxInFlight)
		k.finish(&l)
		c.router.count(k.route, &l)
		k.release()
		return true
	}
	c.watch()
	k.began = s.counts.begin(c)
	// A drain may have begun after dispatch looked, found nothing to wait for, and closed
	// the connection.
	switch {
	case c.life.State() != life.Open:
		err := c.router.drainError()
		c.refused(RefusedDraining, f.route.typ, err)
		k.finish(err)
	case waits: // for room, until nothing was in front of it
		c.turn.Track(&k.task)
		k.runInTime()
	default:
		k.run()
	}
	if c.turn.Return() {
		s.counts.handled(c, k)
		c.retire(s, k)
		c.drained()
		return true
	}
	// The watchdog has detached the handler, and another goroutine reads by now.
	s.call = nil
	s.counts.Move(&c.router.stats.waited)
	c.finished(k)
	c.work()
	return false
}

func (c *Conn) handleConcurrently(k *Context) {
	k.runInTime()
	c.stream.Out.Flush()
	c.stream.Out.HoldBack() // keeps its place in flight until then
	c.finished(k)
}

// work handles what waits for its turn. It is the worker's.
func (c *Conn) work() {
	for {
		k := c.turn.Next()
		if k == nil {
			// What comes while this is sent makes the next batch.
			c.stream.Out.Flush()
			c.peer.FlushBatch()
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
	c.began = c.conn.router.now()
	c.run()
}

// run calls the handler and answers.
func (c *Context) run() {
	returned := false
	defer func() {
		c.conn.router.shedder.handled(c.route)
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
	if c.execution != nil && !c.beginExecution() {
		returned = true
		return
	}
	err := c.callHandler()
	returned = true
	c.finish(err)
}

// resume takes over the role of a goroutine that a handler has ended.
func (c *Conn) resume(k *Context) {
	switch {
	case k.task.Concurrent:
		c.finished(k)
	case c.turn.Return():
		k.countFinished()
		c.turn.Untrack(&k.task)
		c.read()
	default:
		c.finished(k)
		c.work()
	}
}

// reset prepares the Context for a message. The id is copied: it points into a
// buffer that is read into again.
func (c *Context) reset(conn *Conn, rt *route, env *envelope.Envelope, receivedAt time.Time) {
	c.Identity = conn.identity.Load()
	c.conn, c.route, c.receivedAt = conn, rt, receivedAt
	c.task = turn.Task[Context]{
		Message: c, Size: int32(len(env.Payload) + len(env.CorrelationID)),
		Request: rt.request, Concurrent: rt.opts.Concurrent,
	}
	c.id = nil
	if env.CorrelationID != nil {
		c.id = append(c.idBuf[:0], env.CorrelationID...)
	}
	c.timeout = timeoutOf(rt, env.TimeoutMs, conn.router.opts.RequestTimeout)
	c.answered, c.called, c.execution, c.values = false, false, nil, nil
	c.began, c.outcome = 0, metrics.OK
	c.own = c.own[:0]
	c.guards = nil
	c.rights = conn.router.rights.Mark()
	if c.replyMeta.Load() != nil {
		c.replyMeta.Store(nil)
	}
	c.head = 0
}

// beginReply puts what comes before the payload of the reply into out. It is called when the handler has returned,
// because many handlers may wait at once, and few encode.
func (c *Context) beginReply() {
	if c.out == nil {
		c.out = frame.New()
	} else {
		c.out.Clear()
	}
	c.out.Write(c.route.replyHead)
	c.out.Write(c.id)
	c.out.WriteByte('}')
	c.head = c.out.Len()
}

func timeoutOf(rt *route, clientMs int64, byDefault time.Duration) time.Duration {
	var t time.Duration
	if rt.request {
		t = byDefault
	}
	if rt.opts.Timeout != 0 {
		t = rt.opts.Timeout
	}
	t = max(t, 0)
	const maxMs = int64(24 * time.Hour / time.Millisecond)
	if clientMs > 0 && rt.request {
		if asked := time.Duration(min(clientMs, maxMs)) * time.Millisecond; t == 0 || asked < t {
			t = asked
		}
	}
	return t
}
