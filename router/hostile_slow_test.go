package router_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

type numbered struct {
	N    int    `json:"n"`
	Fill string `json:"fill,omitempty"`
}

// number returns the N of an event made of a numbered, or -1.
func number(event, typ string) int {
	rest, ok := strings.CutPrefix(event, typ+` {"n":`)
	if !ok {
		return -1
	}
	n, err := strconv.Atoi(rest[:strings.IndexAny(rest, ",}")])
	if err != nil {
		return -1
	}
	return n
}

// subscribing adds the request "join", which subscribes to a topic.
func subscribing(r *router.Router) {
	router.RPC(r, "join", func(c *router.Context, m said) (said, error) { return m, c.Subscribe(m.Text) })
}

func join1(topic string) []byte {
	return textFrame(fmt.Sprintf(`{"type":"join","meta":{"correlationId":"j"},"payload":{"text":%q}}`, topic))
}

// A subscriber that never reads is cut off with 4008. Until then it costs a
// bounded number of bytes, and the others get every message, while they read in
// step with the publisher: nothing waits for the slow one.
func testSlowConsumerIsCutOffAndDelaysNoOther(t *testing.T, serve transport) {
	const maxQueued = 128 << 10
	var slow atomic.Pointer[router.Conn]
	infos := make(chan router.CloseInfo, 10)
	s := serve(t, router.Options{
		Limits: router.Limits{MaxQueued: maxQueued},
		OnOpen: func(c *router.Conn) error { slow.CompareAndSwap(nil, c); return nil },
		OnClose: func(c *router.Conn, i router.CloseInfo) {
			if c == slow.Load() {
				infos <- i
			}
		},
	}, subscribing)
	lazy := s.dial()
	_ = lazy.nc.SetReadBuffer(32 << 10)
	lazy.write(join1("news"))
	eventually(t, "the slow client to be subscribed", func() bool { return s.r.LocalSubscribers("news") == 1 })
	eager := s.dial()
	eager.write(join1("news"))
	eager.expect("reply j news")

	fill := strings.Repeat("x", 4<<10)
	for n := 0; ; n++ {
		if n > 50_000 {
			t.Fatal("a client that never reads is still not cut off")
		}
		if err := s.r.Publish(t.Context(), "news", "news", numbered{n, fill}); err != nil {
			t.Fatal(err)
		}
		if got := number(eager.next(), "news"); got != n {
			t.Fatalf("the reading client got %d, want %d", got, n)
		}
		if q := slow.Load().Queued(); q > maxQueued+1<<10 {
			t.Fatalf("%d bytes are queued, want at most %d", q, maxQueued)
		}
		if s.r.Stats().SlowConsumers > 0 {
			break
		}
	}
	if st := s.r.Stats(); st.SlowConsumers != 1 || st.FramesDropped == 0 {
		t.Errorf("got %+v; want one slow consumer and the frames dropped with it", st)
	}
	// What the client finds when it wakes up: an unbroken sequence, then the
	// close frame, or just the end.
	last := -1
	lazy.expect("reply j news")
	for {
		f := lazy.next()
		if n := number(f, "news"); n >= 0 {
			if n != last+1 {
				t.Fatalf("the slow client got %d after %d", n, last)
			}
			last = n
			continue
		}
		if f != "close 4008" && f != "end" && !strings.HasPrefix(f, "error: within") {
			t.Errorf("after %d messages the slow client got %.100q, want its end", last+1, f)
		}
		break
	}
	lazy.hangUp()
	if i := <-infos; i.Code != errors.CloseSlowConsumer || !i.ByServer {
		t.Errorf("OnClose got %+v, want 4008 by the server", i)
	}
	eager.bye()
	s.recovered()
}

// A client that asks and never reads its answers costs a bounded number of
// bytes, delays no other client, and is cut off in the end.
func testRepliesToAClientThatNeverReads(t *testing.T, serve transport) {
	const maxQueued, reply, inFlight = 256 << 10, 8 << 10, 16
	conns := make(chan *router.Conn, 10)
	s := serve(t, router.Options{
		Limits:   router.Limits{MaxQueued: maxQueued, MaxInFlight: inFlight},
		Liveness: router.Liveness{WriteTimeout: 300 * time.Millisecond},
		OnOpen:   func(c *router.Conn) error { conns <- c; return nil },
	}, func(r *router.Router) {
		router.RPC(r, "big", func(*router.Context, struct{}) (said, error) { return said{strings.Repeat("x", reply)}, nil })
	})
	p := s.dial()
	conn := <-conns // before another may be faster
	other := s.dial()
	_ = p.nc.SetReadBuffer(64 << 10)
	// Not without end: a kernel that drops what its client does not read drops
	// the acknowledgements that come with it, and then nothing moves at all.
	ask := textFrame(`{"type":"big","meta":{"correlationId":"1"}}`)
	go func() { _ = p.tryWrite([]byte(strings.Repeat(string(ask), 1000))) }()
	n := 0
	eventually(t, "a client that never reads to be cut off", func() bool {
		if q, most := conn.Queued(), maxQueued+(inFlight+2)*reply; q > most {
			t.Fatalf("%d bytes are queued, want %d at most", q, most)
		}
		other.write(echo(fmt.Sprint(n), "x"))
		other.expect(fmt.Sprintf("reply %d x", n))
		n++
		return conn.Context().Err() != nil
	})
	p.hangUp()
	other.bye()
	s.recovered()
	if slow := s.r.Stats().SlowConsumers; slow != 1 {
		t.Errorf("%d slow consumers, want 1", slow)
	}
}

// The answers to messages that wait for their turn are bounded, too, though the
// reader that could be held back has long read the requests.
func TestAnswersOfWaitingRequestsStayBounded(t *testing.T) {
	t.Parallel()
	const maxQueued, reply, waiting = 64 << 10, 32 << 10, 60
	var most atomic.Int64
	conns, release := make(chan *router.Conn, 2), make(chan struct{})
	s := serveSocket(t, router.Options{
		Limits: router.Limits{MaxQueued: maxQueued},
		OnOpen: func(c *router.Conn) error { conns <- c; return nil },
	}, func(r *router.Router) {
		router.RPC(r, "late", func(*router.Context, struct{}) (struct{}, error) {
			<-release
			return struct{}{}, nil
		})
		router.RPC(r, "big", func(c *router.Context, _ struct{}) (said, error) {
			most.Store(max(most.Load(), int64(c.Conn().Queued())))
			return said{strings.Repeat("x", reply)}, nil
		})
	})
	p := s.dial()
	_ = p.nc.SetReadBuffer(64 << 10)
	big := textFrame(`{"type":"big","meta":{"correlationId":"1"}}`)
	all := join(textFrame(`{"type":"late","meta":{"correlationId":"0"}}`), bytes.Repeat(big, waiting))
	read := s.r.Stats().BytesRead
	p.write(all)
	eventually(t, "all to be read", func() bool { return s.r.Stats().BytesRead == read+int64(len(all)) })
	close(release)
	conn := <-conns
	eventually(t, "the queue to fill", func() bool { return conn.Queued() >= maxQueued/2 })
	p.expect("reply 0 ")
	for range waiting {
		if f := p.next(); !strings.HasPrefix(f, "reply 1 ") {
			break
		}
	}
	if q := most.Load(); q > maxQueued+2*reply {
		t.Errorf("%d bytes were queued for a client that had not read yet; MaxQueued is %d", q, maxQueued)
	}
	p.hangUp()
	s.recovered()
}

// A client that neither reads nor goes away cannot keep its connection for
// longer than the write timeout.
func testWriteTimeout(t *testing.T, serve transport) {
	s := serve(t, router.Options{Liveness: router.Liveness{WriteTimeout: 200 * time.Millisecond}}, subscribing)
	p := s.dial()
	_ = p.nc.SetReadBuffer(32 << 10)
	p.write(join1("news"))
	p.expect("reply j news")
	fill := strings.Repeat("x", 4<<10)
	for n := range 200 { // less than MaxQueued, more than the kernel takes
		_ = s.r.Publish(t.Context(), "news", "news", numbered{n, fill})
	}
	eventually(t, "the client that stalls to be cut off", func() bool { return s.r.Stats().Connections == 0 })
	s.recovered()
}

// A client that resumes after a pause longer than the write timeout has been
// written to without any wait since; a deadline of an earlier write must not
// fail a later one, so there is none when the client has read all.
func testReaderThatResumes(t *testing.T, serve transport) {
	s := serve(t, router.Options{}, subscribing)
	p := s.dial()
	_ = p.nc.SetReadBuffer(32 << 10)
	p.write(join1("news"))
	p.expect("reply j news")
	fill := strings.Repeat("x", 4<<10)
	for n := range 60 { // so much that a goroutine has to wait for the client
		_ = s.r.Publish(t.Context(), "news", "news", numbered{n, fill})
	}
	for i := range 60 {
		if got := number(p.next(), "news"); got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	if s.deadlines.Load() == 0 {
		t.Error("nothing has waited for the client")
	}
	eventually(t, "the deadline to be taken away", func() bool { return !s.limited.Load() })
	p.write(echo("1", "still here"))
	p.expect("reply 1 still here")
	p.bye()
	s.recovered()
}

// What happens to a full queue is the publisher's choice. A client that comes
// back gets what its policy promises, whole frames and in order. A policy that only a later version knows, whose
// process publishes over the same broker, drops the newest.
func TestOverflowPolicies(t *testing.T) {
	t.Parallel()
	const total = 3000
	for _, c := range []struct {
		name     string
		overflow router.Overflow
		newest   bool // the last message arrives; else the first does, and the last does not
	}{
		{"drop oldest", router.OverflowDropOldest, true},
		{"drop newest", router.OverflowDropNewest, false},
		{"latest only", router.OverflowLatestOnly, true},
		{"of a later version", 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conns := make(chan *router.Conn, 2)
			broker := new(stage)
			s := serveSocket(t, router.Options{
				Backend: adapters.Backend{Broker: broker},
				Limits:  router.Limits{MaxQueued: 64 << 10},
				OnOpen:  func(c *router.Conn) error { conns <- c; return nil },
			}, subscribing)
			p := s.dial()
			_ = p.nc.SetReadBuffer(32 << 10)
			p.write(join1("news"))
			p.expect("reply j news")
			fill := strings.Repeat("x", 1<<10)
			for n := range total {
				text := fmt.Sprintf(`{"type":"news","payload":{"n":%d,"fill":%q}}`, n, fill)
				broker.deliver(pubsub.Message{Topic: "news", Frame: []byte(text), Overflow: uint8(c.overflow)})
			}
			// A reply does not fit a full queue; it is asked for when there is room.
			conn := <-conns
			go func() {
				eventually(t, "the queue to be empty", func() bool { return conn.Queued() == 0 || conn.Context().Err() != nil })
				_ = p.tryWrite(echo("1", "end"))
			}()
			var got []int
			for {
				f := p.next()
				if f == "reply 1 end" {
					break
				}
				n := number(f, "news")
				if n < 0 || len(got) > 0 && n <= got[len(got)-1] {
					t.Fatalf("after %v: got %.100q", got, f)
				}
				got = append(got, n)
			}
			if len(got) == 0 || len(got) == total {
				t.Fatalf("%d messages of %d came; the queue was never full", len(got), total)
			}
			if first, last := got[0], got[len(got)-1]; c.newest != (last == total-1) || !c.newest && first != 0 {
				t.Errorf("the messages from %d to %d came of %d", first, last, total)
			}
			if st := s.r.Stats(); st.FramesDropped != int64(total-len(got)) || st.SlowConsumers != 0 {
				t.Errorf("got %+v; want %d frames dropped and no slow consumer", st, total-len(got))
			}
			p.bye()
			s.recovered()
		})
	}
}

// A client that reads one byte at a time gets everything.
func TestReadingByteByByte(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	p := s.dial()
	_ = p.nc.SetReadBuffer(1)
	p.br.Reset(oneByte{p})
	const n = 10
	for i := range n {
		p.write(echo(fmt.Sprint(i), strings.Repeat("y", 1000)))
	}
	for i := range n {
		p.expect(fmt.Sprintf("reply %d %s", i, strings.Repeat("y", 1000)))
	}
	p.bye()
	s.recovered()
}

type oneByte struct{ p *peer }

func (o oneByte) Read(b []byte) (int, error) { return o.p.nc.Read(b[:1]) }

// Clients that go away, or half of them, at every moment there is.
func testDisappearing(t *testing.T, serve transport) {
	cancelled := make(chan error, 1)
	register := func(r *router.Router) {
		subscribing(r)
		router.RPC(r, "wait", func(c *router.Context, _ struct{}) (struct{}, error) {
			<-c.Done()
			cancelled <- c.Err()
			return struct{}{}, c.Err()
		})
	}
	wait := textFrame(`{"type":"wait","meta":{"correlationId":"w"}}`)
	long := textFrame(strings.Repeat("x", 50_000))
	leave := map[string]func(*peer){
		"FIN": (*peer).hangUp,
		"RST": (*peer).reset,
		"half-close": func(p *peer) {
			_ = p.nc.CloseWrite()
			if f := p.rest(); f[len(f)-1] != "end" {
				p.t.Errorf("a client that has half closed got %.100q, want the end", f)
			}
		},
	}
	s := serve(t, router.Options{Limits: router.Limits{MaxPayload: 1 << 10}}, register)
	for _, c := range []struct {
		name    string
		send    []byte
		handler bool // one is running
	}{
		{name: "after the handshake"},
		{name: "after a message", send: echo("1", "a")},
		{name: "after many messages", send: []byte(strings.Repeat(string(echo("1", "a")), 300))},
		{name: "as a subscriber", send: join1("news")},
		{name: "after the first byte", send: echo("1", "a")[:1]},
		{name: "within a header", send: echo("1", "a")[:5]},
		{name: "within a 64-bit length", send: long[:7]},
		{name: "within a frame", send: echo("1", "a")[:20]},
		{name: "before the last byte", send: echo("1", "a")[:len(echo("1", "a"))-1]},
		{name: "within a large frame", send: long[:9000]},
		{name: "within the rest of an oversized frame", send: long[:40_000]},
		{name: "between fragments", send: frame(opText, whole[:20])},
		{name: "within a fragment", send: join(frame(opText, whole[:20]), frame(fin|opCont, whole[20:])[:9])},
		{name: "within a ping", send: ping("hello")[:8]},
		{name: "within a close frame", send: closing(1000, "bye")[:7]},
		{name: "within a ping between fragments", send: join(frame(opText, "{"), ping("hello")[:8])},
		{name: "within a handler", send: wait, handler: true},
		{name: "within a handler, with messages waiting", send: join(wait, echo("1", "a"), echo("2", "b")), handler: true},
	} {
		for name, leave := range leave {
			t.Run(c.name+", "+name, func(t *testing.T) {
				for len(cancelled) > 0 {
					<-cancelled
				}
				p := s.dial()
				p.t = t
				p.write(c.send)
				leave(p)
				if c.handler {
					if err := poll.Receive(t, cancelled, "the handler's context to end"); err != context.Canceled {
						t.Errorf("the handler's context ended with %v, want %v", err, context.Canceled)
					}
				}
				eventually(t, "the connection to be forgotten", func() bool {
					return s.r.Stats().Connections == 0 && s.r.Stats().Topics == 0
				})
			})
		}
	}
	s.recovered()
}

// Requests sent before the socket is half closed are still answered, unless a handler
// takes its time, as any may where the machine is busy.
func testHalfClosedClientGetsItsAnswers(t *testing.T, serve transport) {
	s := serve(t, router.Options{}, nil)
	var got []string
	for range 20 {
		p := s.dial()
		p.write(join(echo("1", "a"), echo("2", "b")))
		_ = p.nc.CloseWrite()
		if got = p.rest(); len(got) == 3 {
			break
		}
	}
	if want := []string{"reply 1 a", "reply 2 b", "end"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.recovered()
}

// A client that sends nothing is pinged and then closed, wherever in a message it stopped.
func TestSilence(t *testing.T) {
	t.Parallel()
	const interval = 500 * time.Millisecond
	for _, c := range []struct {
		name string
		sent []byte
		want []string
	}{
		{"says nothing", nil, nil},
		{"stops within a frame", echo("1", "a")[:9], nil},
		{"stops between fragments", frame(opText, "{"), nil},
		{"stops within an oversized frame", join(rawFrame{b0: fin | opBinary, declared: 1 << 40}.bytes(), make([]byte, 100<<10)),
			[]string{"ERROR RESOURCE_EXHAUSTED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			overPipes(t, func(t *testing.T, serve transport) {
				s := serve(t, router.Options{Liveness: router.Liveness{PingInterval: interval, PongTimeout: interval}}, nil)
				p := s.dial()
				go func() { _ = p.tryWrite(c.sent) }()
				p.expect(slices.Concat(c.want, []string{"ping ", "close 4000", "end"})...)
				p.hangUp()
				s.settled()
			})
		})
	}
}

// A client that sends nothing but pings is alive but idle.
func TestNothingButPings(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, serve transport) {
		const timeout = time.Second
		s := serve(t, router.Options{Liveness: router.Liveness{IdleTimeout: timeout}}, nil)
		p := s.dial()
		start := time.Now()
		go func() {
			for p.tryWrite(ping("p")) == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}()
		f := p.next()
		for f == "pong p" {
			f = p.next()
		}
		if f != "close 1000" {
			t.Errorf("a client that only pings got %q, want the end of an idle connection", f)
		}
		if took := time.Since(start); took < timeout || took > 2*timeout {
			t.Errorf("it was closed after %v", took)
		}
		p.hangUp()
		s.settled()
	})
}

// A server that closes does not wait for a client that does not answer, nor
// for one that keeps talking.
func TestCloseIsNotAnswered(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, serve transport) {
		s := serve(t, router.Options{}, func(r *router.Router) {
			router.On(r, "bye", func(c *router.Context, _ struct{}) error {
				c.Conn().Close(4001, "server")
				return nil
			})
		})
		silent, talking := s.dial(), s.dial()
		for _, p := range []*peer{silent, talking} {
			p.write(textFrame(`{"type":"bye"}`))
			p.expect("close 4001")
		}
		start := time.Now()
		go func() {
			for talking.tryWrite(echo("1", "a")) == nil {
				time.Sleep(time.Millisecond)
			}
		}()
		silent.expect("end")
		talking.expect("end")
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the sockets were closed after %v, want 5 s", took)
		}
		s.recovered()
	})
}

// A client that does not read, while its handler sends it progress and hands its context
// on: a wait for a lock here stops the whole router.
func testProgressToAClientThatDoesNotRead(t *testing.T, serve transport) {
	large := strings.Repeat("x", 4000)
	returned := make(chan struct{}, 1)
	s := serve(t, router.Options{Limits: router.Limits{MaxQueued: 64 << 10}}, func(r *router.Router) {
		router.RPC(r, "progress", func(c *router.Context, _ struct{}) (int, error) {
			for c.Progress(large) == nil && c.Err() == nil {
			}
			returned <- struct{}{}
			return 1, nil
		})
		r.UseHandler(func(next router.Handler) router.Handler {
			return func(c *router.Context) error {
				var looking sync.WaitGroup
				defer looking.Wait()
				over := make(chan struct{})
				defer close(over)
				looking.Go(func() {
					for {
						select {
						case <-over:
							return
						case <-c.Done():
							return
						default: // look again
							runtime.Gosched()
						}
					}
				})
				return next(c)
			}
		})
	})
	for range 30 {
		p := s.dial()
		p.write(textFrame(`{"type":"progress","meta":{"correlationId":"1"}}`))
		poll.Receive(t, returned, "the handler to return from Progress")
		p.hangUp()
	}
	s.recovered()
}

// A client that goes after it has sent more messages than may wait: the reader has one in
// hand and sees neither its close frame nor the end of the stream.
func testAClientThatEndsBehindAFullQueueIsDetected(t *testing.T, serve transport) {
	for _, tc := range []struct {
		frame      string
		concurrent bool
	}{{`{"type":"hang"}`, false}, {`{"type":"hang"}`, true}, {`{"type":"ask","meta":{"correlationId":"1"}}`, false}} {
		s := serve(t, router.Options{
			Limits:   router.Limits{MaxInFlight: 4},
			Liveness: router.Liveness{PingInterval: 100 * time.Millisecond, PongTimeout: 100 * time.Millisecond},
		}, func(r *router.Router) {
			router.On(r, "hang", func(c *router.Context, _ struct{}) error { <-c.Done(); return nil }, router.RouteOptions{Concurrent: tc.concurrent})
			router.RPC(r, "ask", func(c *router.Context, _ struct{}) (int, error) { <-c.Done(); return 0, nil })
		})
		for _, last := range [][]byte{nil, closing(1000, "")} {
			p := s.dial()
			p.write(join(bytes.Repeat(textFrame(tc.frame), 6), last))
			_ = p.nc.Close()
			eventually(t, "the connection to be forgotten", func() bool { return s.r.Stats().Connections == 0 })
		}
		s.settled()
	}
}
