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

// bufferSize is how much one read takes from the socket at most, and about the size
// of the largest frame that is handled where it lies.
const bufferSize = 8 << 10

// idleRead is how many bytes are read into the Stream itself while a connection
// without a descriptor of its own is idle, so that it, too, holds no buffer.
const idleRead = 32

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Stream is a connection seen as messages: it reads frames and assembles messages from
// them, and answers what the protocol answers by itself. Its reading half belongs to one
// goroutine at a time; its [Outbox] to all.
type Stream struct {
	Out  Outbox
	conn net.Conn

	// raw is nil for a connection without a file descriptor to read from: TLS,
	// or a pipe of a test.
	raw     syscall.RawConn
	onRead  func(fd uintptr) bool
	readErr error

	in       *[bufferSize]byte // borrowed while bytes are buffered
	from, to int               // the buffered bytes: in[from:to]
	small    [idleRead]byte

	frames

	readAt time.Time
	epoch  time.Time
	heard  atomic.Int64
	held   atomic.Bool // the reader waits in HoldBack
	asking uint8       // see AwaitReadable
	// unfinished is when, after the epoch, the reader began to wait for the rest of a
	// frame or message; 0: it does not.
	unfinished atomic.Int64
}

// NewStream takes over a hijacked connection. early holds what was read from it
// already; it is copied. Times are counted from epoch.
func NewStream(nc net.Conn, early []byte, epoch time.Time) *Stream {
	s := &Stream{conn: nc, epoch: epoch}
	s.Out.init(s)
	switch nc := nc.(type) {
	case *tls.Conn:
		s.conn = newSecure(nc)
	case syscall.Conn:
		s.initRaw(nc)
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

// ReadAt is when the buffered bytes came.
func (s *Stream) ReadAt() time.Time { return s.readAt }

// Heard is when, after the epoch, the peer last sent anything. Any goroutine may
// ask.
func (s *Stream) Heard() time.Duration { return time.Duration(s.heard.Load()) }

// Await blocks until a byte is buffered. What is queued to be written is
// sent first, and the buffer is given back for as long as it waits.
func (s *Stream) Await() error {
	if s.from < s.to {
		return nil
	}
	s.giveBack()
	s.flush()
	return s.fill()
}

// AwaitReadable blocks until Await would not block, or nearly. A connection with a descriptor that it had to wait for
// has buffered nothing then, and borrows nothing.
func (s *Stream) AwaitReadable() error {
	s.asking = asksFirst
	err := s.Await()
	s.asking = reads
	return err
}

// What readReady does.
const (
	reads     = iota
	asksFirst // reads what is there, or waits and then only asks
	asks      // returns without reading
)

// More blocks until more bytes are buffered than now, for a message that is
// not complete. Like Await, it sends what is queued first.
func (s *Stream) More() error {
	if s.unfinished.Load() == 0 {
		// Not since readAt: the reader may have been kept from reading since then.
		s.unfinished.Store(max(1, int64(time.Since(s.epoch))))
	}
	s.flush()
	return s.fill()
}

// Unfinished is when, after the epoch, the reader began to wait for the rest of a
// frame or message that it still waits for; 0: it does not. Any goroutine may ask.
func (s *Stream) Unfinished() time.Duration { return time.Duration(s.unfinished.Load()) }

func (s *Stream) flush() {
	s.answerPing()
	s.Out.Flush()
	if s.Out.owner != nil {
		s.Out.owner.BeforeWait()
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

// fill reads at least one byte behind those that are buffered, or into the message that is
// being assembled.
func (s *Stream) fill() error {
	if s.from > 0 {
		s.to = copy(s.in[:], s.in[s.from:s.to])
		s.from = 0
	}
	if s.raw != nil {
		return s.fillRaw()
	}
	// No buffer is held while an idle connection is waited for.
	idle := s.in == nil && s.part == nil
	into := s.small[:]
	if !idle {
		into = s.room()
	}
	n, err := s.conn.Read(into)
	if n == 0 {
		return orEOF(err)
	}
	if idle {
		copy(s.room(), s.small[:n])
	}
	s.took(n)
	s.touch()
	return nil
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// Close closes the connection as soon as what is queued has been sent. It does not wait;
// [Stream.Abort] bounds how long that takes.
func (s *Stream) Close() { s.Out.hangUp() }

// Abort closes the connection at once. What is queued is lost.
func (s *Stream) Abort() {
	s.Out.fail()
}

// Release gives back what reading has borrowed. Call it when nothing reads any
// more.
func (s *Stream) Release() {
	s.from = s.to
	s.giveBack()
	s.frames.release()
}

// socket is the connection below TLS. Closing that closes without the alert of TLS,
// which may block for seconds when the peer does not read.
func (s *Stream) socket() net.Conn {
	if t, ok := s.conn.(*secure); ok {
		return t.NetConn()
	}
	return s.conn
}

func (s *Stream) closeSocket() { _ = s.socket().Close() }

// discardUnsent makes closing the socket reset the connection, so that the kernel
// keeps nothing that has not been sent.
func (s *Stream) discardUnsent() {
	if c, ok := s.socket().(interface{ SetLinger(int) error }); ok {
		_ = c.SetLinger(0)
	}
}

// Buffer bounds what the kernel holds for the connection, in each direction, to about
// n bytes. Call it before anything is written.
func (s *Stream) Buffer(n int) {
	if c, ok := s.socket().(interface{ SetReadBuffer(int) error }); ok {
		_ = c.SetReadBuffer(n)
	}
	s.Out.buffer, s.Out.unbounded = n, n
}

// Socket reports whether the connection is one of the operating system's, encrypted
// or not, and not a pipe within the process.
func (s *Stream) Socket() bool {
	_, ok := s.socket().(syscall.Conn)
	return ok
}

// isTimeout reports whether a read ended because its deadline passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
