package router

import (
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
	mustBeValid(code)
	c.beginClose(code, reason)
	c.stream.Out.Flush()
}

func mustBeValid(code errors.CloseCode) {
	if !code.Valid() {
		panic("router: close code is not one that may be sent; use 1000 or a code from 4000 to 4999")
	}
}

// beginClose queues the close frame.
func (c *Conn) beginClose(code errors.CloseCode, reason string) {
	reason = truncated(reason, maxCloseReason)
	if !c.to(life.Closing) {
		return
	}
	c.enterPhase(life.AwaitAnswer)
	payload := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+maxCloseReason), uint16(code)), reason...)
	if c.stream.Out.Close(payload) {
		c.note(CloseInfo{Code: code, Reason: reason, ByServer: true})
	}
}

// truncated returns the beginning of a text, of at most n bytes, and not within a character.
func truncated(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
