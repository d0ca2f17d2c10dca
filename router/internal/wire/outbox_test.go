package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

// hangGuard is how long a test waits for a step before it fails.
const hangGuard = 30 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}

type counts struct{ slow, dropped atomic.Int64 }

func (c *counts) SlowConsumer()       { c.slow.Add(1) }
func (c *counts) FramesDropped(n int) { c.dropped.Add(int64(n)) }
func (c *counts) BeforeWait()         {}

// gate is a socket whose writes wait until they are let through. It records
// what was written.
type gate struct {
	net.Conn // of nothing else but Write, Close and SetWriteDeadline
	pass     chan struct{}
	closed   chan struct{}
	once     sync.Once
	arrived  chan struct{} // a write is waiting

	mu     sync.Mutex
	writes [][]byte
}

func newGate() *gate {
	return &gate{pass: make(chan struct{}), closed: make(chan struct{}), arrived: make(chan struct{}, 1)}
}

func (g *gate) Write(b []byte) (int, error) {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	select {
	case <-g.pass:
	case <-g.closed:
		return 0, net.ErrClosed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, bytes.Clone(b))
	return len(b), nil
}

func (g *gate) Close() error                     { g.once.Do(func() { close(g.closed) }); return nil }
func (g *gate) SetWriteDeadline(time.Time) error { return nil }

// open lets all writes through.
func (g *gate) open() { close(g.pass) }

func (g *gate) written() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return string(bytes.Join(g.writes, nil))
}

// gated returns an outbox whose socket takes nothing, with one segment of
// "head" that is being written.
func gated(t *testing.T, limit int) (*Outbox, *gate, *counts) {
	t.Helper()
	g, owner := newGate(), new(counts)
	s := NewStream(g, nil, time.Now())
	s.Out.Configure(limit, hangGuard, owner)
	t.Cleanup(s.Abort)
	o := &s.Out
	if err := o.Append([]byte("head")); err != nil {
		t.Fatal(err)
	}
	o.Flush()
	<-g.arrived
	return o, g, owner
}

// flushed lets all writes through and returns what was written.
func flushed(t *testing.T, o *Outbox, g *gate) string {
	t.Helper()
	g.open()
	o.Flush()
	eventually(t, "the queue to be written", func() bool { return o.Queued() == 0 })
	return g.written()
}

// shared appends a shared frame, to be flushed by the test.
func shared(o *Outbox, frame []byte, overflow Overflow, key string) error {
	_, err := o.AppendShared(frame, overflow, key)
	return err
}

func frameOf(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func TestFramesCoalesceInOrder(t *testing.T) {
	o, g, _ := gated(t, 1<<20)
	want := "head"
	const n = 1000
	for i := range n {
		f := fmt.Sprintf("frame %d;", i)
		want += f
		if err := o.Append([]byte(f)); err != nil {
			t.Fatal(err)
		}
	}
	if o.Queued() != len(want) {
		t.Errorf("%d bytes are queued, want %d", o.Queued(), len(want))
	}
	if got := flushed(t, o, g); got != want {
		t.Errorf("got %.200q…, want %.200q…", got, want)
	}
	if max := len(want)/chunkSize + 3; len(g.writes) > max {
		t.Errorf("%d frames left in %d writes, want at most %d", n, len(g.writes), max)
	}
}

// A message to thousands of connections takes no memory of each but its place in the queue.
func TestAFrameThatOthersShareIsNotCopied(t *testing.T) {
	streams := make([]*Stream, 200)
	for i := range streams {
		streams[i] = NewStream(newGate(), nil, time.Now())
	}
	frame := frameOf('x', 200)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, s := range streams {
		if err := shared(&s.Out, frame, Disconnect, ""); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(len(streams)); each > 200 {
		t.Errorf("%d bytes were allocated for each outbox", each)
	}
}

// Small frames leave in one write, also if others share them: these are not changed.
func TestSharedFramesCoalesce(t *testing.T) {
	o, g, _ := gated(t, 1<<20)
	frame := append(make([]byte, 0, 100), "shared;"...)
	want := "head"
	for range 3 {
		for _, err := range []error{shared(o, frame, Disconnect, ""), o.Append([]byte("own;"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want += "shared;own;"
	}
	if got := flushed(t, o, g); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(g.writes) != 2 {
		t.Errorf("the frames left in %d writes, want one after the head", len(g.writes)-1)
	}
	if behind := frame[len(frame):cap(frame)]; !bytes.Equal(behind, make([]byte, len(behind))) {
		t.Errorf("behind the shared frame now is %q", behind)
	}
}

// Frames of every kind and size keep their order.
func TestOrderOfAllKindsOfFrames(t *testing.T) {
	o, g, _ := gated(t, 8<<20)
	want := []byte("head")
	for i := range 400 {
		f := frameOf(byte(i), 1+i*37%(3*chunkSize))
		want = append(want, f...)
		var err error
		switch i % 5 {
		case 0:
			err = o.Append(f)
		case 1:
			err = shared(o, f, Disconnect, "")
		case 2:
			err = shared(o, f, DropOldest, "")
		case 3:
			err = shared(o, f, DropNewest, "")
		case 4:
			err = shared(o, f, LatestOnly, fmt.Sprint(i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := flushed(t, o, g); got != string(want) {
		t.Error("the frames do not leave in the order in which they were appended")
	}
}

func TestOverflow(t *testing.T) {
	const limit = 64 << 10
	size := 2 << 10
	fill := func(t *testing.T, o *Outbox, overflow Overflow, key func(int) string, n int) {
		t.Helper()
		for i := range n {
			if err := shared(o, frameOf(byte(i), size), overflow, key(i)); err != nil {
				t.Fatal(err)
			}
			if o.Queued() > limit {
				t.Fatalf("%d bytes are queued, want at most %d", o.Queued(), limit)
			}
		}
	}
	noKey := func(int) string { return "" }
	const sent = 100
	const fit = limit/(2<<10) - 1 // besides the head
	// came returns which frames came behind the head.
	came := func(t *testing.T, got string) (ids []int) {
		t.Helper()
		for b := []byte(got[len("head"):]); len(b) > 0; b = b[size:] {
			if len(b) < size || !bytes.Equal(b[:size], frameOf(b[0], size)) {
				t.Fatal("a frame has been torn")
			}
			ids = append(ids, int(b[0]))
		}
		return ids
	}
	upTo := func(from, to int) (ids []int) {
		for i := from; i < to; i++ {
			ids = append(ids, i)
		}
		return ids
	}
	for _, c := range []struct {
		name     string
		overflow Overflow
		key      func(int) string
		want     []int
	}{
		{"drop oldest", DropOldest, noKey, upTo(sent-fit, sent)},
		{"drop newest", DropNewest, noKey, upTo(0, fit)},
		{"latest only, one key", LatestOnly, func(int) string { return "k" }, []int{sent - 1}},
		{"latest only, three keys", LatestOnly, func(i int) string { return fmt.Sprint(i % 3) }, []int{99, 97, 98}},
		{"latest only, many keys", LatestOnly, func(i int) string { return fmt.Sprint(i) }, upTo(sent-fit, sent)},
		{"latest only, no key", LatestOnly, noKey, upTo(sent-fit, sent)},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, g, owner := gated(t, limit)
			fill(t, o, c.overflow, c.key, sent)
			if d := owner.dropped.Load(); d != int64(sent-len(c.want)) {
				t.Errorf("%d frames are counted as dropped, want %d", d, sent-len(c.want))
			}
			if got := came(t, flushed(t, o, g)); !slices.Equal(got, c.want) {
				t.Errorf("the frames %v came, want %v", got, c.want)
			}
			if owner.slow.Load() != 0 {
				t.Error("the client counts as slow")
			}
		})
	}
	t.Run("disconnect", func(t *testing.T) {
		o, g, owner := gated(t, limit)
		fill(t, o, Disconnect, noKey, fit)
		if err := shared(o, frameOf(1, size), Disconnect, ""); err != ErrOverflow {
			t.Errorf("got %v, want ErrOverflow", err)
		}
		if err := o.Append([]byte("more")); err != ErrClosed {
			t.Errorf("after it: got %v, want ErrClosed", err)
		}
		if owner.slow.Load() != 1 || owner.dropped.Load() != fit+1 {
			t.Errorf("got %d slow, %d dropped, want 1 and %d", owner.slow.Load(), owner.dropped.Load(), fit+1)
		}
		g.open()
		eventually(t, "the close frame to leave", func() bool { return o.Queued() == 0 })
		o.stream.Abort() // as the owner does
		<-g.closed
		want := "head\x88\x0f\x0f\xa8slow consumer"
		if got := g.written(); got != want {
			t.Errorf("got %.100q, want %q", got, want)
		}
	})
	t.Run("what may be dropped gives way to what may not", func(t *testing.T) {
		o, g, owner := gated(t, limit)
		fill(t, o, DropOldest, noKey, fit)
		for i := range 5 {
			if err := o.Append(frameOf(byte(200+i), size)); err != nil {
				t.Fatal(err)
			}
		}
		want := append(upTo(5, fit), 200, 201, 202, 203, 204)
		if got := came(t, flushed(t, o, g)); !slices.Equal(got, want) {
			t.Errorf("the frames %v came, want %v", got, want)
		}
		if d := owner.dropped.Load(); d != 5 {
			t.Errorf("%d frames are counted as dropped, want 5", d)
		}
	})
	t.Run("drop newest is not dropped later", func(t *testing.T) {
		o, g, _ := gated(t, limit)
		fill(t, o, DropNewest, noKey, fit)
		fill(t, o, DropOldest, noKey, 3) // finds no room and nothing to drop
		if got := came(t, flushed(t, o, g)); !slices.Equal(got, upTo(0, fit)) {
			t.Errorf("the frames %v came, want %v", got, upTo(0, fit))
		}
	})
}

// Replacing frames by larger ones must not lead around the limit.
func TestLatestOnlyStaysBounded(t *testing.T) {
	const limit = 4 << 10
	o, _, _ := gated(t, limit)
	for i := range 30 {
		_ = shared(o, frameOf(1, 100), LatestOnly, fmt.Sprint(i))
	}
	for i := range 30 {
		_ = shared(o, frameOf(2, 4000), LatestOnly, fmt.Sprint(i))
		if q := o.Queued(); q > limit {
			t.Fatalf("after %d replacements %d bytes are queued, want at most %d", i+1, q, limit)
		}
	}
}

// Small frames share a segment; each of them counts when it is dropped.
func TestDroppedCountsFrames(t *testing.T) {
	const limit = 4 << 10
	t.Run("slow consumer", func(t *testing.T) {
		o, _, owner := gated(t, limit)
		n := int64(0)
		for o.Append(frameOf(1, 100)) == nil {
			n++
		}
		if d := owner.dropped.Load(); d != n+1 {
			t.Errorf("%d frames are counted as dropped, want the %d queued and the one that did not fit", d, n)
		}
	})
	t.Run("connection lost", func(t *testing.T) {
		o, _, owner := gated(t, limit)
		for range 10 {
			_ = o.Append(frameOf(1, 100))
		}
		o.stream.Abort()
		// The head was being written, and may have arrived.
		if d := owner.dropped.Load(); d != 10 && d != 11 {
			t.Errorf("%d frames are counted as dropped, want 10 or 11", d)
		}
	})
}

func TestCloseComesLast(t *testing.T) {
	o, g, _ := gated(t, 1<<20)
	_ = o.Append([]byte("data"))
	if !o.Close([]byte("\x03\xe8bye")) {
		t.Error("the first Close reports that it is not")
	}
	if o.Close([]byte("\x03\xe9")) {
		t.Error("the second Close reports that it is the first")
	}
	if err := o.Append([]byte("late")); err != ErrClosed {
		t.Errorf("Append after Close: %v, want ErrClosed", err)
	}
	for _, overflow := range []Overflow{Disconnect, DropOldest, DropNewest, LatestOnly} {
		if err := shared(o, []byte("late"), overflow, "k"); err != ErrClosed {
			t.Errorf("AppendShared after Close: %v, want ErrClosed", err)
		}
	}
	o.Ping()
	o.Control(opPong, []byte("late"))
	if got, want := flushed(t, o, g), "headdata\x88\x05\x03\xe8bye"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	select {
	case <-g.closed:
		t.Error("Close has closed the socket")
	default:
	}
}

// Closing the stream sends what is queued first.
func TestHangUpFlushes(t *testing.T) {
	for _, writing := range []bool{true, false} {
		g, owner := newGate(), new(counts)
		s := NewStream(g, nil, time.Now())
		s.Out.Configure(1<<20, hangGuard, owner)
		_ = s.Out.Append([]byte("data"))
		if writing {
			s.Out.Flush()
			<-g.arrived
		}
		_ = s.Out.Append([]byte("more"))
		s.Close()
		if err := s.Out.Append([]byte("late")); err != ErrClosed {
			t.Errorf("Append after Close: %v, want ErrClosed", err)
		}
		g.open()
		<-g.closed
		if got := g.written(); got != "datamore" {
			t.Errorf("got %q, want %q", got, "datamore")
		}
		s.Close()
		if !s.Out.Gone() || owner.dropped.Load() != 0 {
			t.Errorf("gone is %v, %d dropped; want true and none", s.Out.Gone(), owner.dropped.Load())
		}
	}
}

func TestHangUpOfAnEmptyOutbox(t *testing.T) {
	g := newGate()
	s := NewStream(g, nil, time.Now())
	s.Close()
	<-g.closed // at once: nothing has to be let through
	s.Abort()
}

func TestAbortDropsTheQueue(t *testing.T) {
	o, g, _ := gated(t, 1<<20)
	_ = o.Append([]byte("data"))
	o.stream.Abort()
	<-g.closed
	if o.Queued() != 0 || !o.Gone() {
		t.Errorf("%d bytes are queued, gone is %v; want none and true", o.Queued(), o.Gone())
	}
	if err := o.Append(nil); err != ErrClosed {
		t.Errorf("Append after Abort: %v, want ErrClosed", err)
	}
	o.Flush()
	o.stream.Close()
}

// A pair makes both ends of a loopback connection; the client's end buffers little.
type pair func(*testing.T) (*Stream, net.Conn, *counts)

// overSockets runs a test without TLS and under it.
func overSockets(t *testing.T, test func(*testing.T, pair)) {
	t.Run("TCP", func(t *testing.T) { test(t, tcpPair) })
	t.Run("TLS", func(t *testing.T) { test(t, tlsPair) })
}

func tcpPair(t *testing.T) (*Stream, net.Conn, *counts) {
	t.Helper()
	server, client := sockets(t)
	return streamOver(t, server, client)
}

// sockets returns both ends of a loopback connection.
func sockets(t *testing.T) (server, client *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	accepted := make(chan net.Conn)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- nc
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, client = (<-accepted).(*net.TCPConn), nc.(*net.TCPConn)
	_ = server.SetWriteBuffer(16 << 10)
	_ = client.SetReadBuffer(128 << 10)
	return server, client
}

func streamOver(t *testing.T, server, client net.Conn) (*Stream, net.Conn, *counts) {
	s, owner := NewStream(server, nil, time.Now()), new(counts)
	s.Out.Configure(64<<20, hangGuard, owner)
	t.Cleanup(func() {
		s.Abort()
		_ = client.Close()
	})
	return s, client, owner
}

// The kernel takes as much of a frame as it has room for. The rest follows,
// and nothing comes in between.
func TestPartialWrites(t *testing.T) { overSockets(t, partialWrites) }

func partialWrites(t *testing.T, connect pair) {
	s, client, _ := connect(t)
	want := []byte{}
	for i := range 150 {
		f := frameOf(byte(i), 1+i*i%30_000)
		want = append(want, f...)
		_ = shared(&s.Out, f, DropOldest, "")
		if i%3 == 0 {
			s.Out.Flush()
		}
	}
	s.Out.Flush()
	got := make([]byte, len(want))
	_ = client.SetReadDeadline(time.Now().Add(hangGuard))
	for n := 0; n < len(got); { // slowly
		m, err := client.Read(got[n:min(len(got), n+1777)])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if !bytes.Equal(got, want) {
		t.Error("what arrives is not what was sent")
	}
	eventually(t, "the queue to be empty", func() bool { return s.Out.Queued() == 0 })
}

// What was half written when the queue overflowed is finished, so that the
// close frame behind it can be read.
func TestOverflowNeverTearsAFrame(t *testing.T) { overSockets(t, overflowNeverTearsAFrame) }

func overflowNeverTearsAFrame(t *testing.T, connect pair) {
	s, client, owner := connect(t)
	s.Out.Configure(256<<10, hangGuard, owner)
	const size = 40_000
	for i := 0; ; i++ {
		f := PutHeader(append(make([]byte, HeaderRoom), frameOf('x', size)...), false)
		err := shared(&s.Out, f, Disconnect, "")
		s.Out.Flush()
		if err == ErrOverflow {
			break
		}
		if err != nil || i > 10_000 {
			t.Fatalf("frame %d: %v, want ErrOverflow in the end", i, err)
		}
	}
	_ = client.SetReadDeadline(time.Now().Add(hangGuard))
	r := bufio.NewReader(client)
	for {
		head, err := r.Peek(4)
		h, ok := parseHeader(head)
		if err != nil || !ok {
			t.Fatalf("% x: no frame: %v", head, err)
		}
		b := make([]byte, h.size+int(h.length))
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		if h.b0 == finBit|opClose {
			if code := binary.BigEndian.Uint16(b[2:]); code != 4008 {
				t.Errorf("closed with %d", code)
			}
			return
		}
		if h.length != size {
			t.Fatalf("a frame of %d bytes", h.length)
		}
	}
}

// A deadline that a goroutine has set for its writes must not fail writes that
// come when it has passed.
func TestWritesAfterADrain(t *testing.T) { overSockets(t, writesAfterADrain) }

func writesAfterADrain(t *testing.T, connect pair) {
	s, client, owner := connect(t)
	const timeout = 3 * time.Second // in which the client reads the most that is written at once
	s.Out.Configure(64<<20, timeout, owner)
	_ = client.SetReadDeadline(time.Now().Add(hangGuard))
	for round := range 2 {
		const n = 1 << 20 // far more than the kernel takes at once
		for range 16 {    // each has the timeout for itself
			_ = shared(&s.Out, frameOf('x', n/16), DropNewest, "")
		}
		s.Out.Flush()
		if _, err := io.CopyN(io.Discard, client, n); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		eventually(t, "the queue to be empty", func() bool { return s.Out.Queued() == 0 })
		if round == 0 {
			time.Sleep(timeout + timeout/4) // the case itself: the deadline passes
		}
		_ = s.Out.Append([]byte("lone"))
		s.Out.Flush()
		lone := make([]byte, 4)
		if _, err := io.ReadFull(client, lone); err != nil || string(lone) != "lone" {
			t.Fatalf("round %d: got %q, %v", round, lone, err)
		}
	}
}

// A client that stalls is disconnected after the timeout, once.
func TestStalledClientIsGivenUp(t *testing.T) { overSockets(t, stalledClientIsGivenUp) }

func stalledClientIsGivenUp(t *testing.T, connect pair) {
	s, _, owner := connect(t)
	s.Out.Configure(64<<20, 100*time.Millisecond, owner)
	const n = 20
	for range n {
		_ = shared(&s.Out, frameOf('x', 1<<20), Disconnect, "")
	}
	s.Out.Flush()
	eventually(t, "the connection to be aborted", s.Out.Gone)
	if d := owner.dropped.Load(); d < 1 || d > n {
		t.Errorf("%d frames are counted as dropped of %d", d, n)
	}
	if s.Out.Queued() != 0 {
		t.Errorf("%d bytes are still queued", s.Out.Queued())
	}
}

// All methods at once, from many goroutines. Each sender's frames arrive whole
// and in its order.
func TestConcurrentSenders(t *testing.T) { overSockets(t, concurrentSenders) }

func concurrentSenders(t *testing.T, connect pair) {
	s, client, _ := connect(t)
	const senders, each = 8, 400
	var all sync.WaitGroup
	for id := range senders {
		all.Go(func() {
			for n := range each {
				f := make([]byte, HeaderRoom+8+n*13%2500)
				binary.BigEndian.PutUint32(f[HeaderRoom:], uint32(id))
				binary.BigEndian.PutUint32(f[HeaderRoom+4:], uint32(n))
				f = PutHeader(f, false)
				var err error
				switch (id + n) % 3 {
				case 0:
					err = s.Out.Append(f)
				case 1:
					err = shared(&s.Out, f, Disconnect, "")
				case 2:
					err = shared(&s.Out, f, DropNewest, "")
				}
				if err != nil {
					t.Error(err)
				}
				if n%5 > 0 {
					s.Out.Flush()
				}
				_ = s.Out.Queued()
			}
			s.Out.Flush()
		})
	}
	go func() {
		all.Wait()
		s.Close()
	}()
	_ = client.SetReadDeadline(time.Now().Add(hangGuard))
	b, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	var next [senders]uint32
	frames := 0
	for ; len(b) > 0; frames++ {
		h, ok := parseHeader(b)
		if !ok || h.b0 != finBit|opText || h.size+int(h.length) > len(b) {
			t.Fatalf("frame %d is torn", frames)
		}
		p := b[h.size:]
		id, n := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
		if n != next[id] {
			t.Fatalf("sender %d: frame %d after %d", id, n, int(next[id])-1)
		}
		next[id]++
		b = p[h.length:]
	}
	if frames != senders*each {
		t.Errorf("%d frames arrived, want %d", frames, senders*each)
	}
}

// Aborting, closing and hanging up while others send and flush.
func TestConcurrentEnd(t *testing.T) { overSockets(t, concurrentEnd) }

func concurrentEnd(t *testing.T, connect pair) {
	for round := range 18 {
		s, client, _ := connect(t)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for s.Out.Append(frameOf('x', 3000)) == nil {
					_ = shared(&s.Out, frameOf('y', 9000), LatestOnly, "k")
					s.Out.Flush()
				}
			})
		}
		all.Go(func() { _, _ = io.CopyN(io.Discard, client, int64(round)*3_000) })
		all.Go(func() {
			_, _ = io.CopyN(io.Discard, client, 20_000)
			switch round % 3 {
			case 0:
				s.Abort()
			case 1:
				s.Out.Close([]byte{3, 232})
				s.Out.Flush()
				_ = client.Close()
				s.Close()
			case 2:
				_ = client.Close()
				s.Close()
			}
		})
		all.Wait()
		eventually(t, "the socket to be closed", s.Out.Gone)
		if q := s.Out.Queued(); q != 0 {
			t.Errorf("%d bytes are queued after the end", q)
		}
	}
}

// Frames that lie behind one another in memory arrive as they are, and each is counted.
func TestRunOfFrames(t *testing.T) { overSockets(t, runOfFrames) }

func runOfFrames(t *testing.T, connect pair) {
	s, client, owner := connect(t)
	s.Out.Configure(256<<10, hangGuard, owner)
	var traffic Traffic
	s.Count(&traffic)
	if room := s.Out.Room(200 << 10); room != 200<<10 {
		t.Errorf("an empty outbox has room for %d bytes", room)
	}
	var want []byte
	frames := 0
	for _, n := range []int{1, 2, 100} { // few small ones are copied together
		var run []byte
		for i := range n {
			run = append(run, PutHeader(append(make([]byte, HeaderRoom), frameOf(byte('a'+i%26), 150)...), false)...)
		}
		if err := s.Out.AppendRun(run, n); err != nil {
			t.Fatal(err)
		}
		want, frames = append(want, run...), frames+n
	}
	if room := s.Out.Room(1); room != 128<<10-len(want) {
		t.Errorf("there is room for %d bytes behind %d", room, len(want))
	}
	s.Out.Flush()
	got := make([]byte, len(want))
	_ = client.SetReadDeadline(time.Now().Add(hangGuard))
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("what arrives is not what was queued")
	}
	eventually(t, "all frames to be counted", func() bool { return traffic.FramesWritten.Load() == int64(frames) })
	s.Out.Close(nil)
	if err := s.Out.AppendRun(want, frames); err != ErrClosed {
		t.Errorf("a run behind the close frame: %v, want ErrClosed", err)
	}
}
