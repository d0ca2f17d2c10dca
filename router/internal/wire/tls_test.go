package wire

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/race"
)

// observed is a socket below TLS. It counts the writes, and those of goroutines that
// drain, and records the last deadline.
type observed struct {
	*net.TCPConn

	mu       sync.Mutex
	writes   int
	drained  int
	deadline time.Time
	discard  bool          // what is written
	block    chan struct{} // not nil: writes wait until it is closed
}

func (o *observed) Write(b []byte) (int, error) {
	if o.discard {
		return len(b), nil
	}
	o.mu.Lock()
	o.writes++
	if drains() {
		o.drained++
	}
	block := o.block
	o.mu.Unlock()
	if block != nil {
		<-block
		return 0, net.ErrClosed
	}
	return o.TCPConn.Write(b)
}

func (o *observed) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.block != nil {
		close(o.block)
		o.block = nil
	}
	return o.TCPConn.Close()
}

func (o *observed) SetWriteDeadline(t time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deadline = t
	return o.TCPConn.SetWriteDeadline(t)
}

// drains reports whether the calling goroutine is that of [Outbox.drain].
func drains() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "(*Outbox).drain") {
			return true
		}
		if !more {
			return false
		}
	}
}

// counted returns the writes and the drained ones since the last call.
func (o *observed) counted() (writes, drained int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	writes, drained = o.writes, o.drained
	o.writes, o.drained = 0, 0
	return writes, drained
}

// tlsPair is a pair under TLS.
func tlsPair(t *testing.T) (*Stream, net.Conn, *counts) {
	t.Helper()
	s, client, owner, _ := observedPair(t)
	return s, client, owner
}

func observedPair(t *testing.T) (*Stream, net.Conn, *counts, *observed) {
	t.Helper()
	below, nc := sockets(t)
	socket := &observed{TCPConn: below}
	server, client := encrypted(t, socket, nc)
	s, _, owner := streamOver(t, server, nc)
	_ = nc.SetReadDeadline(time.Now().Add(hangGuard))
	socket.counted()
	return s, client, owner, socket
}

// encrypted returns both ends of a connection under TLS, after the handshake.
func encrypted(t *testing.T, below, nc net.Conn) (server, client *tls.Conn) {
	t.Helper()
	hs := httptest.NewTLSServer(nil) // for its certificate
	hs.Close()
	trust := hs.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "127.0.0.1"
	server, client = tls.Server(below, &tls.Config{Certificates: hs.TLS.Certificates}), tls.Client(nc, trust)
	shaken := make(chan error)
	go func() { shaken <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return server, client
}

func onlyWhereSocketsAreAsked(t *testing.T) {
	if !canAsk {
		t.Skip("a socket cannot be asked for room here")
	}
}

// What a socket has room for is written by the goroutine that flushes.
func TestFlushUnderTLSStartsNoGoroutine(t *testing.T) {
	onlyWhereSocketsAreAsked(t)
	s, client, _, socket := observedPair(t)
	got := make([]byte, 100)
	for range 2000 {
		_ = s.Out.Append(frameOf('x', len(got)))
		s.Out.Flush()
		if _, err := io.ReadFull(client, got); err != nil {
			t.Fatal(err)
		}
	}
	if writes, drained := socket.counted(); writes != 2000 || drained != 0 {
		t.Errorf("%d writes, %d of them by a goroutine of their own; want 2000 and 0", writes, drained)
	}
	if !socket.deadline.IsZero() {
		t.Error("the socket has a deadline, which would fail what TLS writes later")
	}
}

// A connection that is not a socket of the operating system cannot be asked for room.
func TestTLSWithoutASocket(t *testing.T) {
	below, nc := net.Pipe()
	server, client := encrypted(t, below, nc)
	s, _, _ := streamOver(t, server, nc)
	_ = nc.SetReadDeadline(time.Now().Add(hangGuard))
	want := string(frameOf('x', 20_000)) + "end"
	_ = s.Out.Append([]byte(want[:20_000]))
	s.Out.Flush()
	_ = s.Out.Append([]byte(want[20_000:]))
	s.Close()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v; want what was sent", len(got), err)
	}
}

func TestFlushUnderTLSAllocatesNothing(t *testing.T) {
	onlyWhereSocketsAreAsked(t)
	if race.Enabled {
		t.Skip("the race detector makes pools forget")
	}
	s, _, _, socket := observedPair(t)
	socket.discard = true
	frame := frameOf('x', 100)
	if n := testing.AllocsPerRun(1000, func() {
		_ = s.Out.Append(frame)
		s.Out.Flush()
	}); n != 0 {
		t.Errorf("%v allocations for a frame, want none", n)
	}
}

// The frames of a flush share records. (The first records of a connection are short.)
func TestFramesUnderTLSShareRecords(t *testing.T) {
	onlyWhereSocketsAreAsked(t)
	s, client, _, socket := observedPair(t)
	_ = socket.SetWriteBuffer(256 << 10)
	for range 100 {
		_ = s.Out.Append(frameOf('x', 3000))
		s.Out.Flush()
		if _, err := io.CopyN(io.Discard, client, 3000); err != nil {
			t.Fatal(err)
		}
	}
	socket.counted()
	for range 150 {
		_ = s.Out.Append(frameOf('x', 100))
	}
	s.Out.Flush()
	if writes, _ := socket.counted(); writes != 2 {
		t.Errorf("15,000 bytes left in %d writes, want 2", writes)
	}
}

// Flush does not wait for a client that does not read. The rest leaves when it reads.
func TestFlushUnderTLSDoesNotWait(t *testing.T) {
	s, client, _, socket := observedPair(t)
	const frames, size = 500, 5000
	for range frames {
		_ = s.Out.Append(frameOf('x', size))
		s.Out.Flush()
	}
	if s.Out.Queued() == 0 {
		t.Fatal("the kernel has taken everything: there is nothing to wait for")
	}
	if _, err := io.CopyN(io.Discard, client, frames*size); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the queue to be empty", func() bool { return s.Out.Queued() == 0 })
	eventually(t, "the deadline of the writes to be lifted", func() bool {
		socket.mu.Lock()
		defer socket.mu.Unlock()
		return socket.deadline.IsZero()
	})
}

// A write that waits although the socket had room ends the connection in time. Until then
// it blocks the goroutine that flushes, and no other.
func TestWriteUnderTLSThatWaitsNevertheless(t *testing.T) {
	onlyWhereSocketsAreAsked(t)
	s, _, owner, socket := observedPair(t)
	s.Out.Configure(64<<20, 3*time.Second, owner) // in which a second frame comes
	socket.block = make(chan struct{})
	_ = s.Out.Append([]byte("frame"))
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		s.Out.Flush()
	}()
	eventually(t, "the write", func() bool { socket.mu.Lock(); defer socket.mu.Unlock(); return socket.writes > 0 })
	if q := s.Out.Queued(); q != 5 {
		t.Errorf("%d bytes are queued, want 5", q)
	}
	_ = s.Out.Append([]byte("frame"))
	s.Out.Flush()
	<-flushed
	if slow, dropped := owner.slow.Load(), owner.dropped.Load(); !s.Out.Gone() || slow != 1 || dropped != 2 {
		t.Errorf("gone is %v, %d too slow, %d dropped; want true, 1, 2", s.Out.Gone(), slow, dropped)
	}
}

// The guard aborts neither an idle connection, nor one whose queue is drained, however
// long that takes. An idle connection has no guard.
func TestGuardOfWritesUnderTLS(t *testing.T) {
	onlyWhereSocketsAreAsked(t)
	s, client, _, _ := observedPair(t)
	t.Run("idle", func(t *testing.T) {
		_ = s.Out.Append([]byte("frame"))
		s.Out.Flush()
		for range 5 {
			s.conn.(*secure).check(&s.Out)
		}
		if s.Out.Gone() || s.conn.(*secure).guard != nil {
			t.Errorf("gone is %v, the guard %v; want false and none", s.Out.Gone(), s.conn.(*secure).guard)
		}
	})
	t.Run("draining", func(t *testing.T) {
		const size = 4 << 20
		_ = shared(&s.Out, frameOf('x', size), DropNewest, "")
		s.Out.Flush()
		for range 5 {
			s.conn.(*secure).check(&s.Out)
		}
		if s.Out.Gone() || s.Out.Queued() == 0 {
			t.Errorf("gone is %v with %d bytes queued; want false and some", s.Out.Gone(), s.Out.Queued())
		}
		if _, err := io.CopyN(io.Discard, client, size); err != nil {
			t.Fatal(err)
		}
	})
}
