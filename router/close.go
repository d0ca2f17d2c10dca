package router

import (
	"context"
	"encoding/binary"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/life"
)

// maxCloseReason is what fits into a control frame besides the code.
const maxCloseReason = 123

// Close closes the connection with a close code and a reason of at most 123
// bytes; a longer one is cut. What is queued is sent first. Messages that are
// being handled go on, but cannot send any more; messages that still come in are
// ignored. Close does not wait. Only the first call does anything.
//
// It panics if the code may not be sent, see errors.CloseCode.Valid.
func (c *Conn) Close(code errors.CloseCode, reason string) {
	if !code.Valid() {
		panic("router: close code is not one that may be sent; use 1000 or a code from 4000 to 4999")
	}
	c.beginClose(code, reason)
	c.stream.Out.Flush()
}

// beginClose queues the close frame.
func (c *Conn) beginClose(code errors.CloseCode, reason string) {
	if len(reason) > maxCloseReason {
		cut := maxCloseReason
		for cut > 0 && reason[cut]&0xC0 == 0x80 { // not within a character
			cut--
		}
		reason = reason[:cut]
	}
	if !c.life.To(life.Closing) {
		return
	}
	c.router.wheel.enter(c, life.AwaitAnswer)
	payload := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+maxCloseReason), uint16(code)), reason...)
	if c.stream.Out.Close(payload) {
		c.note(CloseInfo{Code: code, Reason: reason, ByServer: true})
	}
}

// note records how the connection ends, and returns it: what is noted first holds.
func (c *Conn) note(info CloseInfo) CloseInfo {
	c.info.CompareAndSwap(nil, &info)
	return *c.info.Load()
}

// drainEvents is called by the reader when the client has closed. Requests cannot be
// answered any more, but events that came before are handled: a fast close must not lose
// events that were sent before it.
func (c *Conn) drainEvents() {
	c.life.To(life.Closing)
	c.stream.Close() // the client waits for that
	if !c.turn.HasEvents() {
		return
	}
	for _, k := range c.turn.Open() {
		if k.route.request {
			k.cancel(context.Canceled)
		}
	}
	c.router.wheel.enter(c, life.AwaitEvents)
	c.turn.AwaitEvents()
}

func (c *Conn) ended() bool { return c.life.State() == life.Ended }

// end takes the connection apart, once, and calls OnClose. err is what ended the
// reading.
func (c *Conn) end(err error) {
	if c.takeApart(err) {
		c.afterEnd()
	}
}

// takeApart is end without OnClose, which may wait for anything; this waits for nothing.
// It returns false for a connection that has been taken apart before.
func (c *Conn) takeApart(err error) bool {
	c.note(CloseInfo{Code: closeAbnormal, Err: err})
	if !c.endContext() {
		return false
	}
	// The socket is closed when what is queued has left.
	c.stream.Close()
	for _, k := range c.turn.Stop() {
		k.cancel(context.Canceled)
	}
	if c.stream.Out.Gone() {
		c.router.wheel.enter(c, life.Over)
	} else {
		c.router.wheel.enter(c, life.Flush)
	}
	c.leaveAll()
	if c.admission != nil {
		c.admission.Release()
	}
	return true
}

// endContext moves the connection to its last state, and cancels its context.
func (c *Conn) endContext() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.life.To(life.Ended) {
		return false
	}
	if c.ctx != nil {
		close(c.ctx.done)
	}
	return true
}

// afterEnd reports the end of a connection that has been taken apart.
func (c *Conn) afterEnd() {
	if c.life.Announced() {
		c.onClose()
	}
	c.router.remove(c)
}

// closeAbnormal stands for a connection that ended without a close frame (RFC
// 6455, 7.1.5). It is never sent.
const closeAbnormal errors.CloseCode = 1006

func (c *Conn) onClose() {
	if c.router.opts.OnClose == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.router.fault(Fault{Conn: c, Err: panicError("OnClose", v), Stack: stack()})
		}
	}()
	c.router.opts.OnClose(c, *c.info.Load())
}
