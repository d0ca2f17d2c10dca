package router

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/wskit/wskit/errors"
)

const (
	// closeTimeout is how long the client has to answer a close frame.
	closeTimeout = 5 * time.Second
	// closeGrace is how long events that came before the client's close frame may take.
	closeGrace = time.Second
	// maxCloseReason is what fits into a control frame besides the code.
	maxCloseReason = 123
)

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
	payload := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+maxCloseReason), uint16(code)), reason...)
	c.closing.Store(true)
	if !c.stream.Out.Close(payload) {
		return
	}
	c.note(CloseInfo{Code: code, Reason: reason, ByServer: true})
	// From now on the reader waits for the client's close frame, but not for
	// ever.
	c.stream.SetReadDeadline(time.Now().Add(closeTimeout))
	c.endInTime()
}

// endInTime is for a connection that is closing: middleware that has a frame may keep
// the reader from seeing that.
func (c *Conn) endInTime() {
	if !c.turn.FrameInHand() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && c.cutOff == nil {
		c.cutOff = time.AfterFunc(2*closeTimeout, func() {
			c.stream.Abort()
			c.end(nil)
		})
	}
}

// note remembers how the connection ends, and returns it: the first to know is right.
func (c *Conn) note(info CloseInfo) CloseInfo {
	c.noting.Lock()
	defer c.noting.Unlock()
	if c.info.Code == 0 {
		c.info = info
	}
	return c.info
}

// drainEvents is the reader's when the client has closed. Requests cannot be answered any
// more, but events that came before are heard: a client may say its last word and
// close, and whether somebody listens should not depend on how fast he is.
func (c *Conn) drainEvents() {
	c.closing.Store(true)
	c.stream.Close() // the client waits for that
	if !c.turn.HasEvents() {
		return
	}
	for _, k := range c.turn.Open() {
		if k.route.request {
			k.cancel(context.Canceled)
		}
	}
	timer := time.AfterFunc(closeGrace, func() { c.end(nil) })
	defer timer.Stop()
	c.turn.AwaitEvents()
}

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
	if !c.ended.CompareAndSwap(false, true) {
		return false
	}
	c.closing.Store(true)
	c.note(CloseInfo{Code: closeAbnormal, Err: err})
	// The socket is closed when what is queued has left; nobody waits for that.
	c.stream.Close()

	c.mu.Lock()
	c.over = true
	if c.cutOff != nil {
		c.cutOff.Stop()
	}
	if c.ctx != nil {
		close(c.ctx.done)
	}
	c.mu.Unlock()
	for _, k := range c.turn.Stop() {
		k.cancel(context.Canceled)
	}
	c.router.wheel.remove(c)
	c.leaveAll()
	if c.admission != nil {
		c.admission.Release()
	}
	return true
}

// afterEnd reports the end of a connection that has been taken apart.
func (c *Conn) afterEnd() {
	c.mu.Lock()
	hooked := c.hooked
	c.mu.Unlock()
	if hooked {
		c.onClose(c.note(CloseInfo{}))
	}
	c.router.remove(c)
}

// closeAbnormal stands for a connection that ended without a close frame (RFC
// 6455, 7.1.5). It is never sent.
const closeAbnormal errors.CloseCode = 1006

func (c *Conn) onClose(info CloseInfo) {
	if c.router.opts.OnClose == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.router.fault(Fault{Conn: c, Err: panicError("OnClose", v), Stack: stack()})
		}
	}()
	c.router.opts.OnClose(c, info)
}
