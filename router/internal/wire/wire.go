// Package wire is a connection below the router: it reads frames and assembles
// messages, and queues and writes what is to be sent.
//
// Reading, all bytes take one way through one state machine, [Stream.Next], so that the
// same bytes have the same answer whether they come at once or one by one, over TCP or
// TLS. Writing, frames queue in an [Outbox] and leave together when the reader runs out
// of input; the outbox counts its bytes and has the rule what to do with a client that does not read.
// An idle connection holds no buffer.
package wire

import (
	"encoding/binary"
	"math/bits"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opCont   = 0x0
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA

	finBit  = 0x80
	rsv1Bit = 0x40
	rsvBits = 0x70
	opBits  = 0x0F
	maskBit = 0x80
)

const (
	// HeaderRoom is the most a server's frame header takes: two bytes and a
	// 64-bit length. A server does not mask.
	HeaderRoom = 10

	maxClientHeader = 14 // two bytes, a 64-bit length, a mask
	maxControl      = 125
)

// PutHeader writes the header of a data frame into the HeaderRoom bytes before
// the payload, which starts at buf[HeaderRoom], and returns the whole frame.
func PutHeader(buf []byte, deflated bool) []byte {
	b0 := byte(finBit | opText)
	if deflated {
		b0 |= rsv1Bit
	}
	n := len(buf) - HeaderRoom
	switch {
	case n <= 125:
		buf[8], buf[9] = b0, byte(n)
		return buf[8:]
	case n <= 0xFFFF:
		buf[6], buf[7] = b0, 126
		binary.BigEndian.PutUint16(buf[8:], uint16(n))
		return buf[6:]
	default:
		buf[0], buf[1] = b0, 127
		binary.BigEndian.PutUint64(buf[2:], uint64(n))
		return buf
	}
}

// Payload returns the payload of a frame that PutHeader has made, or nil if that is compressed.
func Payload(frame []byte) []byte {
	switch {
	case frame[0]&rsv1Bit != 0:
		return nil
	case frame[1] == 127:
		return frame[10:]
	case frame[1] == 126:
		return frame[4:]
	}
	return frame[2:]
}

// controlFrame appends a control frame; the payload is at most 125 bytes.
func controlFrame(dst []byte, opcode byte, payload []byte) []byte {
	dst = append(dst, finBit|opcode, byte(len(payload)))
	return append(dst, payload...)
}

// header is a client's frame header.
type header struct {
	b0     byte
	masked bool
	bad    bool   // see badLength
	length uint64 // of the payload
	size   int    // of the header itself
	mask   uint32 // little endian
}

// parseHeader reads a frame header and reports whether b holds all of it.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < 2 {
		return h, false
	}
	h.b0, h.masked, h.size = b[0], b[1]&maskBit != 0, 2
	switch l := b[1] &^ maskBit; l {
	case 126:
		h.size += 2
		if len(b) < h.size {
			return h, false
		}
		h.length, h.bad = uint64(binary.BigEndian.Uint16(b[2:])), badLength(l, b[2:])
	case 127:
		h.size += 8
		if len(b) < h.size {
			return h, false
		}
		h.length, h.bad = binary.BigEndian.Uint64(b[2:]), badLength(l, b[2:])
	default:
		h.length = uint64(l)
	}
	if h.masked {
		h.size += 4
		if len(b) < h.size {
			return h, false
		}
		h.mask = binary.LittleEndian.Uint32(b[h.size-4:])
	}
	return h, true
}

// badLength reports whether a length is not in its shortest form, or out of range. b is what has
// come behind the length byte.
func badLength(length byte, b []byte) bool {
	switch {
	case length == 126 && len(b) >= 2:
		return binary.BigEndian.Uint16(b) <= 125
	case length == 127 && len(b) >= 6:
		return b[0]&0x80 != 0 || [6]byte(b) == [6]byte{}
	case length == 127 && len(b) >= 1:
		return b[0]&0x80 != 0
	}
	return false
}

// unmask applies the mask to b, eight bytes at a time. It reports whether b is ASCII.
func unmask(b []byte, mask uint32) (ascii bool) {
	const high = 0x8080808080808080
	m := uint64(mask)<<32 | uint64(mask)
	seen := uint64(0)
	for len(b) >= 32 {
		w0 := binary.LittleEndian.Uint64(b) ^ m
		w1 := binary.LittleEndian.Uint64(b[8:]) ^ m
		w2 := binary.LittleEndian.Uint64(b[16:]) ^ m
		w3 := binary.LittleEndian.Uint64(b[24:]) ^ m
		binary.LittleEndian.PutUint64(b, w0)
		binary.LittleEndian.PutUint64(b[8:], w1)
		binary.LittleEndian.PutUint64(b[16:], w2)
		binary.LittleEndian.PutUint64(b[24:], w3)
		seen |= w0 | w1 | w2 | w3
		b = b[32:]
	}
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b) ^ m
		binary.LittleEndian.PutUint64(b, w)
		seen |= w
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(mask)
		seen |= uint64(b[i])
		mask = bits.RotateLeft32(mask, -8)
	}
	return seen&high == 0
}

// turned is the mask for what comes after n bytes.
func turned(mask uint32, n int) uint32 { return bits.RotateLeft32(mask, -8*(n%4)) }
