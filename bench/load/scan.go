package load

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// excerptSize is how much of a payload is kept when it arrives in pieces: enough to
// tell one message type from another, and all of a control frame.
const excerptSize = 256

// frame is one server frame. payload is complete when the frame arrived in one read,
// and otherwise its first excerptSize bytes; it is valid until the next read.
type frame struct {
	opcode   byte
	size     uint64
	payload  []byte
	deflated bool
}

// frameScanner finds the frames in a connection's byte stream, across reads.
type frameScanner struct {
	deflate bool // messages may be compressed

	header    [10]byte
	headerLen int // header bytes collected so far

	inPayload bool
	opcode    byte
	deflated  bool
	size      uint64
	left      uint64 // payload bytes still to come

	excerpt    [excerptSize]byte
	excerptLen int
}

var (
	errMasked     = errors.New("load: the server masked a frame")
	errReserved   = errors.New("load: the server set a reserved bit, though no extension was agreed")
	errFragmented = errors.New("load: the server fragmented a message; the load generator counts whole ones")
)

// next takes the next whole frame out of in. When ok is false all of in was consumed
// and the frame continues with the next read.
func (s *frameScanner) next(in []byte) (f frame, rest []byte, ok bool, err error) {
	if !s.inPayload {
		if in, err = s.readHeader(in); err != nil || !s.inPayload {
			return frame{}, nil, false, err
		}
		if uint64(len(in)) >= s.size { // the usual case: no copy
			s.inPayload = false
			return frame{s.opcode, s.size, in[:s.size], s.deflated}, in[s.size:], true, nil
		}
	}
	piece := in[:min(uint64(len(in)), s.left)]
	s.excerptLen += copy(s.excerpt[s.excerptLen:], piece)
	s.left -= uint64(len(piece))
	if s.left > 0 {
		return frame{}, nil, false, nil
	}
	s.inPayload = false
	return frame{s.opcode, s.size, s.excerpt[:s.excerptLen], s.deflated}, in[len(piece):], true, nil
}

// readHeader consumes header bytes and sets inPayload once the header is whole.
func (s *frameScanner) readHeader(in []byte) (rest []byte, err error) {
	for s.headerLen < s.headerSize() {
		if len(in) == 0 {
			return nil, nil
		}
		n := copy(s.header[s.headerLen:s.headerSize()], in)
		s.headerLen += n
		in = in[n:]
	}
	s.headerLen = 0

	first, second := s.header[0], s.header[1]
	switch {
	case second&0x80 != 0:
		return nil, errMasked
	case first&0x70 != 0 && !(s.deflate && first&0x70 == compressedBit):
		return nil, errReserved
	case first&0x80 == 0 || first&0x0f == opContinuation:
		return nil, errFragmented
	}
	switch n := second & 0x7f; n {
	case 126:
		s.size = uint64(binary.BigEndian.Uint16(s.header[2:]))
	case 127:
		s.size = binary.BigEndian.Uint64(s.header[2:])
		if s.size>>63 != 0 {
			return nil, fmt.Errorf("load: the server sent a frame of %d bytes", s.size)
		}
	default:
		s.size = uint64(n)
	}
	s.opcode = first & 0x0f
	s.deflated = first&compressedBit != 0
	s.left = s.size
	s.excerptLen = 0
	s.inPayload = true
	return in, nil
}

// headerSize is as much of the header's size as its collected bytes tell.
func (s *frameScanner) headerSize() int {
	if s.headerLen < 2 {
		return 2
	}
	switch s.header[1] & 0x7f {
	case 126:
		return 4
	case 127:
		return 10
	default:
		return 2
	}
}
