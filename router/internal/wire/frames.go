package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"
)

// Found is what [Stream.Next] has found.
type Found uint8

const (
	Nothing  Found = iota // nothing is buffered: Await
	Partial               // a message or frame is not complete: More
	Message               // a whole message
	TooLarge              // the beginning of a message larger than allowed; the rest is skipped
	Ended                 // nothing more is to be read: Err says why
)

// Codes of RFC 6455, section 7.4.1, that reading may end with.
const (
	closeProtocol    = 1002
	closeNoStatus    = 1005
	closeInvalidData = 1007
	closePolicy      = 1008
)

// Closed is the error of a connection that has been closed in good order, or has been
// failed because its client broke the protocol.
type Closed struct {
	// Code and Reason are those of the client's close frame, or of that which was
	// sent because of a violation.
	Code   uint16
	Reason string
	// Violation says that the client broke the protocol.
	Violation bool
}

func (c *Closed) Error() string {
	if c.Violation {
		return fmt.Sprintf("wire: closed with %d: %s", c.Code, c.Reason)
	}
	return fmt.Sprintf("wire: the client closed with %d %q", c.Code, c.Reason)
}

const (
	// inPlace is the longest frame that is handled where it lies.
	inPlace = bufferSize - maxClientHeader
	// headSize is how much of a compressed message that is too large is inflated.
	headSize = 1 << 10
	// maxIdleFrames is how many frames that bring no message further may come within
	// idleWindow: control frames, and fragments without a payload.
	maxIdleFrames = 1000
	idleWindow    = 10 * time.Second
)

// frames is the state of the reader of frames.
type frames struct {
	limit   int32 // of a message in bytes
	deflate bool  // messages may be compressed
	pinged  bool
	text    utf8Check // of the message that is not complete
	checked int16     // of an incomplete buffered frame: how much of its payload is unmasked

	idle      int32         // frames that have brought no message further, since idleSince
	idleSince time.Duration // after the epoch
	part      *part         // the message that is being assembled
	lent      *buffer       // of the message that Next has returned
	ping      *ping         // the latest, to be answered with the next flush if pinged
	ended     *Closed
}

// ping is the payload of a ping.
type ping struct {
	b [maxControl]byte
	n int
}

// part is a message that is being assembled: fragments, or a frame that is not
// buffered as a whole.
type part struct {
	opcode   byte
	deflated bool
	over     bool // larger than allowed, and known to the caller: what comes is dropped
	fin      bool // the frame is the last
	within   bool // the frame's payload is not complete
	left     uint64
	mask     uint32
	masked   int // bytes at the end of buf that are still masked
	buf      *buffer
}

var (
	parts     = sync.Pool{New: func() any { return new(part) }}
	inflaters = sync.Pool{New: func() any { return new(inflater) }}
)

// Limit sets the size of the largest message in bytes, and whether messages may be
// compressed. It is called before anything is read.
func (s *Stream) Limit(message int, deflate bool) {
	s.limit, s.deflate = int32(min(message, math.MaxInt32/2)), deflate
}

// Err is why reading has ended, after Next has found that.
func (s *Stream) Err() error { return s.ended }

// Next takes the next message from the buffered bytes. It is valid until the next call
// of any reading method. Control frames are dealt with on the way. When the client
// closes, or breaks the protocol, the close frame that answers is queued.
func (s *Stream) Next() (payload []byte, found Found) {
	if s.lent != nil {
		s.lent.free()
		s.lent = nil
	}
	for s.ended == nil {
		if s.part != nil && s.part.within {
			if payload, found = s.assemble(); found != Nothing {
				return payload, found
			}
			continue
		}
		if s.from == s.to {
			if s.part != nil {
				return nil, Partial
			}
			s.finished()
			return nil, Nothing
		}
		h, ok := parseHeader(s.in[s.from:s.to])
		if !ok {
			if why := s.violation(s.in[s.from:s.to]); why != "" {
				return s.fail(closeProtocol, why)
			}
			return nil, Partial
		}
		// Nearly all messages are one frame that is buffered.
		if (h.b0 == finBit|opText || h.b0 == finBit|opBinary) && h.masked && !h.bad && h.length <= inPlace && s.part == nil {
			start := s.from + h.size
			end := start + int(h.length)
			if end > s.to {
				return s.begun(h)
			}
			payload = s.in[start:end:end]
			s.from = end
			if s.checked != 0 {
				return s.completed(h, payload)
			}
			if !unmask(payload, h.mask) && h.b0 == finBit|opText && !utf8.Valid(payload) {
				return s.fail(closeInvalidData, "text is not UTF-8")
			}
			return s.message(payload)
		}
		if payload, found = s.frame(h); found != Nothing {
			return payload, found
		}
	}
	return nil, Ended
}

// InHand reports whether a byte is buffered.
func (s *Stream) InHand() bool { return s.from < s.to }

// Controls handles the buffered control frames before anything else, with less of a stack than [Stream.Next]. It is
// for a reader without a buffered message. It returns why reading has ended, or nil.
func (s *Stream) Controls() error {
	for s.InHand() {
		h, ok := parseHeader(s.in[s.from:s.to])
		if !ok || h.b0&opBits < opClose {
			return nil
		}
		switch _, found := s.frame(h); found {
		case Ended:
			return s.ended
		case Partial:
			return nil
		}
	}
	return nil
}

// message returns a message that is complete.
func (s *Stream) message(payload []byte) ([]byte, Found) {
	// How long the message will take is not known. A pong is not to wait.
	s.answerPing()
	s.finished()
	s.idle = 0
	if len(payload) > int(s.limit) {
		return payload[:s.limit], TooLarge
	}
	return payload, Message
}

// finished is called when nothing is waited for any more.
func (s *Stream) finished() {
	if s.unfinished.Load() != 0 {
		s.unfinished.Store(0)
	}
}

func (s *Stream) answerPing() {
	if s.pinged {
		s.pinged = false
		s.Out.Control(opPong, s.ping.b[:s.ping.n])
	}
}

// begun looks at what has come of a frame that is not complete: text that is not
// UTF-8 is not waited for.
func (s *Stream) begun(h header) ([]byte, Found) {
	if fresh := s.in[min(s.from+h.size+int(s.checked), s.to):s.to]; len(fresh) > 0 {
		unmask(fresh, turned(h.mask, int(s.checked)))
		s.checked += int16(len(fresh))
		if h.b0&opBits == opText && !s.text.add(fresh) {
			return s.fail(closeInvalidData, "text is not UTF-8")
		}
	}
	return nil, Partial
}

// completed is for a frame that was begun.
func (s *Stream) completed(h header, payload []byte) ([]byte, Found) {
	fresh := payload[s.checked:]
	unmask(fresh, turned(h.mask, int(s.checked)))
	s.checked = 0
	if h.b0&opBits == opText && !(s.text.add(fresh) && s.text.complete()) {
		return s.fail(closeInvalidData, "text is not UTF-8")
	}
	return s.message(payload)
}

// frame reads a frame of any kind from its header on.
func (s *Stream) frame(h header) ([]byte, Found) {
	if why := s.violation(s.in[s.from:s.to]); why != "" {
		return s.fail(closeProtocol, why)
	}
	op, fin := h.b0&opBits, h.b0&finBit != 0
	if op >= opClose {
		return s.control(h, op)
	}
	deflated := h.b0&rsv1Bit != 0
	if !fin && h.length == 0 && !s.mayIdle() {
		return s.fail(closePolicy, "too many frames without a message")
	}
	s.from += h.size
	// One that is too large takes the way that it takes when it comes in pieces.
	if deflated && fin && h.length <= uint64(min(s.to-s.from, s.compressedLimit())) {
		payload := s.in[s.from : s.from+int(h.length)]
		s.from += int(h.length)
		unmask(payload, h.mask)
		return s.inflated(payload, op)
	}
	p := s.part
	if p == nil {
		p = parts.Get().(*part)
		*p = part{opcode: op, deflated: deflated, buf: newBuffer(0)}
		s.part = p
	}
	p.fin, p.within, p.left, p.mask = fin, true, h.length, h.mask
	return nil, Nothing
}

// violation returns what is wrong with the header of a frame, of which b has at least the first
// byte; empty for nothing. What comes later is not waited for.
func (s *Stream) violation(b []byte) string {
	op, fin := b[0]&opBits, b[0]&finBit != 0
	data := op == opText || op == opBinary
	switch {
	case b[0]&rsvBits != 0 && !(s.deflate && data && b[0]&rsvBits == rsv1Bit):
		return "reserved bit set"
	case op > opPong || op > opBinary && op < opClose:
		return "opcode not defined"
	case op >= opClose && !fin:
		return "fragmented control frame"
	case op == opCont && s.part == nil:
		return "continuation of nothing"
	case data && s.part != nil:
		return "message within a message"
	case len(b) == 1:
		return ""
	case b[1]&maskBit == 0:
		return "frame is not masked"
	case op >= opClose && b[1]&^maskBit > maxControl:
		return "control frame longer than 125 bytes"
	case badLength(b[1]&^maskBit, b[2:]):
		return "length is not in its shortest form"
	}
	return ""
}

// control deals with a control frame.
func (s *Stream) control(h header, op byte) ([]byte, Found) {
	end := s.from + h.size + int(h.length)
	if end > s.to {
		return nil, Partial
	}
	payload := s.in[s.from+h.size : end]
	s.from = end
	unmask(payload, h.mask)
	if op == opClose {
		return s.closed(payload)
	}
	if op == opPing {
		// One pong answers all buffered pings (RFC 6455, 5.5.3), so a
		// flood of pings is not answered with a flood.
		if s.ping == nil {
			s.ping = new(ping)
		}
		s.ping.n, s.pinged = copy(s.ping.b[:], payload), true
	}
	if !s.mayIdle() {
		return s.fail(closePolicy, "too many frames without a message")
	}
	return nil, Nothing
}

// mayIdle counts a frame that brings no message further.
func (s *Stream) mayIdle() bool {
	if s.idle++; s.idle == 1 || s.idle > maxIdleFrames && s.Heard()-s.idleSince > idleWindow {
		s.idle, s.idleSince = 1, s.Heard()
	}
	return s.idle <= maxIdleFrames
}

// closed answers the client's close frame.
func (s *Stream) closed(payload []byte) ([]byte, Found) {
	code := uint16(closeNoStatus)
	var reason []byte
	switch {
	case len(payload) == 1:
		return s.fail(closeProtocol, "close frame with half a code")
	case len(payload) > 1:
		code, reason = binary.BigEndian.Uint16(payload), payload[2:]
		if !validCode(code) {
			return s.fail(closeProtocol, "close code that may not be sent")
		}
		if !utf8.Valid(reason) {
			return s.fail(closeInvalidData, "close reason is not UTF-8")
		}
	}
	s.answerPing()
	s.Out.Close(payload)
	s.ended = &Closed{Code: code, Reason: string(reason)}
	return nil, Ended
}

// validCode reports whether a close frame may have a code: those of RFC 6455, section
// 7.4, and those that the IANA has registered since.
func validCode(code uint16) bool {
	switch code {
	case 1004, 1005, 1006:
		return false
	}
	return code >= 1000 && code <= 1014 || code >= 3000 && code <= 4999
}

// fail ends reading because the client has broken the protocol, and says so to it.
func (s *Stream) fail(code uint16, why string) ([]byte, Found) {
	s.answerPing()
	s.Out.Close(append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+maxControl), code), why...))
	s.ended = &Closed{Code: code, Reason: why, Violation: true}
	return nil, Ended
}

// room is where the next bytes are to be read to: the buffer, or the message that is
// being assembled, if much of it is still to come.
func (s *Stream) room() []byte {
	if p := s.direct(); p != nil {
		b := p.buf
		b.grow(len(b.b)+1, s.partLimit(p))
		free := b.b[len(b.b):min(cap(b.b), s.partLimit(p)+1)]
		return free[:min(uint64(len(free)), p.left)]
	}
	if s.in == nil {
		s.in = buffers.Get().(*[bufferSize]byte)
	}
	return s.in[s.to:]
}

// took is called when n bytes have been read to room.
func (s *Stream) took(n int) {
	s.Out.traffic.read(n)
	if p := s.direct(); p != nil {
		p.buf.b = p.buf.b[:len(p.buf.b)+n]
		p.masked += n
		p.left -= uint64(n)
		return
	}
	s.to += n
}

// direct returns the message that is to be read to.
func (s *Stream) direct() *part {
	if p := s.part; p != nil && p.within && !p.over && p.masked == 0 && s.from == s.to && p.left >= bufferSize/2 {
		return p
	}
	return nil
}

// partLimit is how many bytes of a message are kept.
func (s *Stream) partLimit(p *part) int {
	if p.deflated {
		return s.compressedLimit()
	}
	return int(s.limit)
}

// compressedLimit is how many bytes of a compressed message are kept: DEFLATE makes
// nothing longer by more than five bytes for every 64 KiB, or for every flush.
func (s *Stream) compressedLimit() int { return int(s.limit) + int(s.limit)/8 + 64 }

// assemble adds what has come of a frame to its message.
func (s *Stream) assemble() ([]byte, Found) {
	p := s.part
	var fresh []byte
	direct := p.masked > 0
	if direct {
		fresh = p.buf.b[len(p.buf.b)-p.masked:]
		p.masked = 0
	} else if s.from < s.to {
		fresh = s.in[s.from:s.to]
		fresh = fresh[:min(uint64(len(fresh)), p.left)]
		if !p.over {
			// No more than shows that the message is too large: what comes behind
			// that is looked at after it, whether or not it is here already.
			fresh = fresh[:min(len(fresh), s.partLimit(p)+1-len(p.buf.b))]
		}
		s.from += len(fresh)
		p.left -= uint64(len(fresh))
	}
	unmask(fresh, p.mask)
	p.mask = turned(p.mask, len(fresh))
	if p.opcode == opText && !p.deflated && !s.text.add(fresh) {
		return s.fail(closeInvalidData, "text is not UTF-8")
	}
	if !p.over {
		limit := s.partLimit(p)
		fits := len(p.buf.b) <= limit
		if !direct {
			fits = p.buf.add(fresh, limit)
		}
		if !fits {
			return s.overflowed(p)
		}
	}
	if p.left > 0 {
		return nil, Partial
	}
	p.within = false
	if !p.fin {
		return nil, Nothing
	}
	return s.assembled(p)
}

// overflowed returns the beginning of a message that is too large.
func (s *Stream) overflowed(p *part) ([]byte, Found) {
	p.over = true
	s.lent, p.buf = p.buf, nil
	if p.deflated {
		in := s.lent
		s.lent = newBuffer(headSize)
		f := inflaters.Get().(*inflater)
		_ = f.inflate(s.lent, in.b[:s.partLimit(p)], headSize) // whatever it is, it is too large
		inflaters.Put(f)
		in.free()
	}
	payload, _ := s.message(s.lent.b)
	return payload, TooLarge
}

// assembled returns a message whose last byte has come.
func (s *Stream) assembled(p *part) ([]byte, Found) {
	s.part = nil
	buf, over, deflated, op := p.buf, p.over, p.deflated, p.opcode
	parts.Put(p)
	if op == opText && !deflated && !s.text.complete() {
		s.lent = buf
		return s.fail(closeInvalidData, "text is not UTF-8")
	}
	if over {
		return nil, Nothing
	}
	if deflated {
		defer buf.free()
		return s.inflated(buf.b, op)
	}
	s.lent = buf
	return s.message(buf.b)
}

// inflated returns a message that came compressed.
func (s *Stream) inflated(compressed []byte, op byte) ([]byte, Found) {
	s.lent = newBuffer(2 * len(compressed))
	f := inflaters.Get().(*inflater)
	err := f.inflate(s.lent, compressed, int(s.limit))
	inflaters.Put(f)
	if err == errDeflate {
		return s.fail(closeInvalidData, "compressed data is not valid")
	}
	if op == opText {
		valid := s.text.add(s.lent.b)
		if !valid || err == nil && !s.text.complete() {
			return s.fail(closeInvalidData, "text is not UTF-8")
		}
		s.text = utf8Check{}
	}
	payload, found := s.message(s.lent.b)
	if err == errTooLarge {
		found = TooLarge
	}
	return payload, found
}

// release gives back what is borrowed when nothing is read any more.
func (f *frames) release() {
	if f.lent != nil {
		f.lent.free()
		f.lent = nil
	}
	if f.part != nil {
		if f.part.buf != nil {
			f.part.buf.free()
		}
		parts.Put(f.part)
		f.part = nil
	}
	f.ping = nil
}

// utf8Check checks text that comes in pieces. It fails with the first byte that makes
// the text invalid, whatever follows.
type utf8Check struct {
	tail [utf8.UTFMax - 1]byte // the beginning of a character
	n    uint8
}

func (c *utf8Check) add(b []byte) bool {
	for c.n > 0 && len(b) > 0 {
		var char [utf8.UTFMax]byte
		n := copy(char[:], c.tail[:c.n])
		char[n] = b[0]
		n++
		b = b[1:]
		if !utf8.FullRune(char[:n]) {
			c.n = uint8(copy(c.tail[:], char[:n]))
			continue
		}
		if r, size := utf8.DecodeRune(char[:n]); r == utf8.RuneError && size == 1 {
			return false
		}
		c.n = 0
	}
	if utf8.Valid(b) {
		return true
	}
	// The last character may be incomplete.
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return false
			}
			c.n = uint8(copy(c.tail[:], end))
			return utf8.Valid(b[:len(b)-n])
		}
	}
	return false
}

// complete reports whether no character is incomplete, and is ready for other text.
func (c *utf8Check) complete() bool {
	n := c.n
	c.n = 0
	return n == 0
}
