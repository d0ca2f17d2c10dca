package wire

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bufferSize is how much one read takes from the socket at most, and the largest
// frame that is handled without the library.
const bufferSize = 8 << 10

// idleRead is how many bytes are read into the Stream itself while a connection
// without a descriptor of its own is idle, so that it, too, holds no buffer.
const idleRead = 32

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Stream is a net.Conn between the socket and the WebSocket library. Its reading
// half belongs to one goroutine at a time; its [Outbox] to all.
type Stream struct {
	net.Conn
	Out Outbox

	// raw is nil for a connection without a file descriptor to read from: TLS,
	// or a pipe of a test.
	raw     syscall.RawConn
	onRead  func(fd uintptr) bool
	readErr error

	in       *[bufferSize]byte // borrowed while bytes are in hand
	from, to int               // the bytes in hand: in[from:to]
	small    [idleRead]byte

	// grant is how many bytes of the current frame the library may still read.
	// Granting it one frame at a time keeps it from reading ahead, so that the
	// next frame can be ours again.
	grant uint64

	pong   []byte // the latest ping's payload, to be answered with the next flush
	pinged bool

	readAt time.Time
	epoch  time.Time
	heard  atomic.Int64
	held   atomic.Bool // the reader waits in HoldBack
}

// NewStream takes over a hijacked connection. early holds what was read from it
// already; it is copied. Times are counted from epoch.
func NewStream(nc net.Conn, early []byte, epoch time.Time) *Stream {
	s := &Stream{Conn: nc, epoch: epoch}
	s.Out.init(s)
	if sc, ok := nc.(syscall.Conn); ok {
		s.initRaw(sc)
	}
	if len(early) > 0 {
		// A client that sends more than this before it was answered has not
		// waited for the handshake; net/http holds 4 KiB at the most.
		s.in = buffers.Get().(*[bufferSize]byte)
		s.to = copy(s.in[:], early)
	}
	s.touch()
	return s
}

func (s *Stream) touch() {
	s.readAt = time.Now()
	s.heard.Store(int64(s.readAt.Sub(s.epoch)))
}

// ReadAt is when the bytes in hand came.
func (s *Stream) ReadAt() time.Time { return s.readAt }

// Heard is when, after the epoch, the peer last sent anything. Any goroutine may
// ask.
func (s *Stream) Heard() time.Duration { return time.Duration(s.heard.Load()) }

// Await blocks until there is a byte in hand. What is queued to be written is
// sent first, and the buffer is given back for as long as it waits.
func (s *Stream) Await() error {
	if s.from < s.to {
		return nil
	}
	s.giveBack()
	s.flush()
	return s.fill()
}

// More blocks until there are more bytes in hand than now, for a frame that is
// not complete. Like Await, it sends what is queued first.
func (s *Stream) More() error {
	s.flush()
	return s.fill()
}

func (s *Stream) flush() {
	s.answerPing()
	s.Out.Flush()
	if s.Out.owner != nil {
		s.Out.owner.BeforeWait()
	}
}

func (s *Stream) answerPing() {
	if s.pinged {
		s.pinged = false
		s.Out.Control(opPong, s.pong)
	}
}

// batchBytes is how much is queued in the course of a batch before it is sent.
const batchBytes = 64 << 10

// Crowded reports whether [Stream.HoldBack] has anything to do.
func (s *Stream) Crowded() bool {
	queued := s.Out.Queued()
	return queued >= batchBytes || queued >= s.Out.limit/2
}

// HoldBack is to be called between the messages of a batch when much is queued. It
// sends that, and blocks while the client has more answers coming than half of what
// may be queued for it: the client is not read on, and feels the back-pressure of
// TCP, instead of being disconnected as too slow.
func (s *Stream) HoldBack() {
	s.flush()
	s.held.Store(true)
	s.Out.waitBelow(max(1, s.Out.limit/2))
	s.held.Store(false)
}

// progressed is called when bytes have been written that had to wait for room.
// While the client is held back, this is what can be known of it: that it reads.
func (s *Stream) progressed() {
	if s.held.Load() {
		s.heard.Store(int64(time.Since(s.epoch)))
	}
}

func (s *Stream) giveBack() {
	if s.in != nil && s.from == s.to {
		buffers.Put(s.in)
		s.in = nil
		s.from, s.to = 0, 0
	}
}

// fill reads at least one byte behind those in hand.
func (s *Stream) fill() error {
	if s.from > 0 {
		s.to = copy(s.in[:], s.in[s.from:s.to])
		s.from = 0
	}
	if s.raw != nil {
		return s.fillRaw()
	}
	if s.in == nil {
		n, err := s.Conn.Read(s.small[:])
		if n == 0 {
			return orEOF(err)
		}
		s.in = buffers.Get().(*[bufferSize]byte)
		s.to = copy(s.in[:], s.small[:n])
	} else {
		n, err := s.Conn.Read(s.in[s.to:])
		if n == 0 {
			return orEOF(err)
		}
		s.to += n
	}
	s.touch()
	return nil
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// Found is what [Stream.Next] sees at the head of the bytes in hand.
type Found uint8

const (
	Nothing Found = iota // no bytes: Await
	Partial              // a frame that is not complete: More
	Message              // a whole message
	Other                // a frame that is the library's to read
)

// Next takes the next frame from the bytes in hand. A message's payload is
// unmasked in place and valid until the next call of any reading method. Pings
// and pongs are dealt with on the way.
func (s *Stream) Next() (payload []byte, found Found) {
	for s.from < s.to {
		h, ok := parseHeader(s.in[s.from:s.to])
		if !ok {
			return nil, Partial
		}
		if !h.masked || h.length > bufferSize-maxClientHeader {
			return nil, Other
		}
		switch h.b0 {
		case finBit | opText, finBit | opBinary:
		case finBit | opPing, finBit | opPong:
			if h.length > maxControl {
				return nil, Other
			}
		default:
			return nil, Other
		}
		start := s.from + h.size
		end := start + int(h.length)
		if end > s.to {
			return nil, Partial
		}
		s.from = end
		payload = s.in[start:end:end]
		unmask(payload, h.mask)
		switch h.b0 {
		case finBit | opText, finBit | opBinary:
			// How long the message will take is not known. A pong is not to wait.
			s.answerPing()
			return payload, Message
		case finBit | opPing:
			// One pong answers all the pings in hand (RFC 6455, 5.5.3), so a
			// flood of pings is not answered with a flood.
			s.pong, s.pinged = append(s.pong[:0], payload...), true
		}
	}
	return nil, Nothing
}

// Read is for the library. It never returns bytes beyond the frame that the
// library is reading.
func (s *Stream) Read(p []byte) (int, error) {
	if s.grant == 0 {
		h, ok := parseHeader(s.inHand())
		for !ok {
			if err := s.More(); err != nil {
				return 0, err
			}
			h, ok = parseHeader(s.inHand())
		}
		s.grant = uint64(h.size)
		if h.length <= 1<<63-1 { // else the library refuses it by its header
			s.grant += h.length
		}
	}
	if uint64(len(p)) > s.grant {
		p = p[:s.grant]
	}
	if s.from == s.to {
		if len(p) >= bufferSize {
			s.flush()
			n, err := s.Conn.Read(p)
			if n > 0 {
				s.grant -= uint64(n)
				s.touch()
			}
			return n, err
		}
		if err := s.More(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.in[s.from:s.to])
	s.from += n
	s.grant -= uint64(n)
	return n, nil
}

func (s *Stream) inHand() []byte {
	if s.in == nil {
		return nil
	}
	return s.in[s.from:s.to]
}

// Write is for the library, which writes control frames, each in one call. They
// leave with the next flush.
func (s *Stream) Write(p []byte) (int, error) {
	s.answerPing() // it came before what the library answers
	s.Out.append(p)
	return len(p), nil
}

// Close is for the library as well as ours: the connection is closed as soon as
// what is queued has been sent, or could not be sent in lingerTime.
func (s *Stream) Close() error {
	s.Out.hangUp()
	return nil
}

// Abort closes the connection at once. What is queued is lost.
func (s *Stream) Abort() {
	s.Out.fail()
}

// Release gives back what reading has borrowed. Call it when nothing reads any
// more.
func (s *Stream) Release() {
	s.from = s.to
	s.giveBack()
	s.pong = nil
}

// closeSocket closes without the alert of TLS, which may block for seconds when
// the peer does not read.
func (s *Stream) closeSocket() {
	if t, ok := s.Conn.(*tls.Conn); ok {
		_ = t.NetConn().Close()
		return
	}
	_ = s.Conn.Close()
}

// Socket reports whether the connection is one of the operating system's, encrypted
// or not, and not a pipe within the process.
func (s *Stream) Socket() bool {
	nc := s.Conn
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	_, ok := nc.(syscall.Conn)
	return ok
}

// IsTimeout reports whether a read ended because its deadline passed.
func IsTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
