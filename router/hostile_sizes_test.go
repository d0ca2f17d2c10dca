package router_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// echoOf is a request of exactly size bytes, and the text in it.
func echoOf(size int) (request, s string) {
	s = strings.Repeat("x", size-len(echoJSON("1", "")))
	return echoJSON("1", s), s
}

// Messages around every size at which the way a frame takes changes.
func testSizes(t *testing.T, serve transport) {
	const maxPayload = 100_000
	s := serve(t, router.Options{Limits: router.Limits{MaxPayload: maxPayload}}, nil)
	var sizes []int
	for _, edge := range []int{
		125, 126, 127, // the forms of the length
		4096,       // what net/http buffers, a chunk of the outbox
		8192,       // the buffer of the stream
		8192 - 14,  // the largest frame that fits it with its header
		8192 - 8,   // with a header of eight bytes
		65535,      // the forms of the length
		maxPayload, // the limit
	} {
		for d := -2; d <= 2; d++ {
			sizes = append(sizes, edge+d)
		}
	}
	p := s.dial()
	for _, size := range sizes {
		request, want := echoOf(size)
		want = "reply 1 " + want
		tooLarge := size > maxPayload
		if tooLarge {
			want = "RPC_ERROR 1 RESOURCE_EXHAUSTED"
		}
		for name, frames := range map[string][]byte{
			"text":      textFrame(request),
			"binary":    frame(fin|opBinary, request),
			"two parts": join(frame(opText, request[:size/2]), frame(fin|opCont, request[size/2:])),
			"last byte": join(frame(opText, request[:size-1]), ping("p"), frame(fin|opCont, request[size-1:])),
		} {
			p.write(frames)
			if got := p.next(); got != want {
				if name == "last byte" && got == "pong p" {
					got = p.next()
				}
				if got != want {
					t.Fatalf("%d bytes as %s: got %.100q, want %.100q", size, name, got, want)
				}
			} else if name == "last byte" {
				p.expect("pong p")
			}
		}
		// The same with neighbours in the same write.
		p.write(join(echo("0", "before"), textFrame(request), echo("2", "after")))
		if tooLarge { // its answer may overtake those of handlers
			p.expectInAnyOrder("reply 0 before", want, "reply 2 after")
		} else {
			p.expect("reply 0 before", want, "reply 2 after")
		}
	}
	p.bye()
	s.recovered()
}

// A size is counted in bytes, not in characters.
func TestSizeCountsBytes(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxPayload: 256}}, nil)
	p := s.dial()
	p.write(textFrame(echoJSON("1", strings.Repeat("€", 80))))
	p.expect("RPC_ERROR 1 RESOURCE_EXHAUSTED")
	p.bye()
	s.recovered()
}

// A frame that says it will be enormous is answered as soon as it is over the
// limit, long before it has come; what does come of it is thrown away.
func TestOversizedIsAnsweredAtOnceAndNeverHeld(t *testing.T) {
	const maxPayload = 64 << 10
	head := echoJSON("7", "")
	for _, c := range []struct {
		name  string
		begin []byte
	}{
		{"one frame of 2^40 bytes", rawFrame{b0: fin | opBinary, payload: head, declared: 1 << 40}.bytes()},
		{"one frame of 2^63-1 bytes", rawFrame{b0: fin | opBinary, payload: head, declared: 1<<63 - 1}.bytes()},
		{"a fragment of 2^40 bytes", join(frame(opBinary, head), rawFrame{b0: fin | opCont, declared: 1 << 40}.bytes())},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveSocket(t, router.Options{Limits: router.Limits{MaxPayload: maxPayload}}, nil)
			p := s.dial()
			junk := make([]byte, 32<<10)
			p.write(c.begin)
			for sent := 0; sent <= maxPayload+len(junk); sent += len(junk) {
				p.write(junk)
			}
			p.expect("RPC_ERROR 7 RESOURCE_EXHAUSTED")

			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const more = 32 << 20
			for sent := 0; sent < more; sent += len(junk) {
				p.write(junk)
			}
			runtime.ReadMemStats(&after)
			// TotalAlloc never shrinks: it counts whatever was held for a moment.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > more/8 {
				t.Errorf("%d bytes were allocated while %d were thrown away", grown, more)
			}
			p.hangUp()
			s.recovered()
		})
	}
}

// The rest of a message that was too large is not taken for another message,
// whatever it looks like, and the connection is good afterwards.
func TestAfterAnOversizedMessage(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxPayload: 1024}}, nil)
	trap := strings.Repeat(string(echo("trap", "x")), 5000) // looks like frames, and is no text
	for _, send := range [][]byte{
		frame(fin|opBinary, trap),
		join(frame(opBinary, trap[:5000]), frame(opCont, trap[5000:]), frame(opCont, ""), frame(fin|opCont, trap)),
		join(frame(opBinary, trap), ping("p"), frame(fin|opCont, trap)),
		eachByte(strings.Repeat("x", 2000)),
	} {
		p := s.dial()
		p.write(join(send, echo("9", "after")))
		var got []string
		for len(got) == 0 || got[len(got)-1] != "reply 9 after" {
			got = append(got, p.next())
			if strings.HasPrefix(got[len(got)-1], "error") || got[len(got)-1] == "end" {
				break
			}
		}
		want := "ERROR RESOURCE_EXHAUSTED,reply 9 after"
		if g := strings.Replace(strings.Join(got, ","), "pong p,", "", 1); g != want {
			t.Errorf("got %.300q, want %q", g, want)
		}
		p.bye()
	}
	s.recovered()
}

// Hundreds of frames in one write are all answered, in order.
func TestPipelined(t *testing.T) {
	t.Parallel()
	const n = 2000
	// When a handler happens to take its time, all that follows it is in flight.
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxInFlight: 2 * n}}, nil)
	p := s.dial()
	var send []byte
	for i := range n {
		send = append(send, echo(fmt.Sprint(i), "x")...)
		if i%7 == 0 {
			send = append(send, pong("unasked")...)
		}
		if i%100 == 0 {
			b := echoJSON("f", "y")
			send = append(send, join(frame(opText, b[:11]), frame(fin|opCont, b[11:]))...)
		}
	}
	p.write(send)
	for i := range n {
		p.expect(fmt.Sprintf("reply %d x", i))
		if i%100 == 0 {
			p.expect("reply f y")
		}
	}
	p.bye()
	s.recovered()
}

// Requests that fit one read of the server may have answers that fill a queue
// many times over. A client that reads them all as they come is not slow.
func TestSmallRequestsWithLargeReplies(t *testing.T) {
	t.Parallel()
	const size = 16 << 10
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxQueued: 256 << 10}}, func(r *router.Router) {
		router.RPC(r, "big", func(*router.Context, struct{}) (said, error) {
			return said{strings.Repeat("x", size)}, nil
		})
	})
	p := s.dial()
	const n = 60
	done := make(chan []string)
	go func() {
		var got []string
		for range n {
			f := p.next()
			got = append(got, f)
			if !strings.HasPrefix(f, "reply") {
				break
			}
		}
		done <- got
	}()
	var send []byte
	for i := range n {
		send = append(send, textFrame(fmt.Sprintf(`{"type":"big","meta":{"correlationId":"%d"}}`, i))...)
	}
	p.write(send)
	if got := <-done; len(got) != n || !strings.HasPrefix(got[n-1], "reply") {
		t.Errorf("a client that reads all the time got %d replies of %d, the last frame is %.40q", len(got)-1, n, got[len(got)-1])
	}
	if slow := s.r.Stats().SlowConsumers; slow != 0 {
		t.Errorf("%d slow consumers, want none", slow)
	}
	p.hangUp()
	s.recovered()
}

// One answer larger than the whole queue: nothing waits for the client, which
// reads all the time, so it is not slow, and a request has its one answer.
func testReplyLargerThanTheQueue(t *testing.T, serve transport) {
	s := serve(t, router.Options{Limits: router.Limits{MaxQueued: 4 << 10}}, func(r *router.Router) {
		router.RPC(r, "big", func(*router.Context, struct{}) (said, error) {
			return said{strings.Repeat("x", 5000)}, nil
		})
	})
	p := s.dial()
	p.write(textFrame(`{"type":"big","meta":{"correlationId":"1"}}`))
	if got := p.next(); got != "reply 1 "+strings.Repeat("x", 5000) && got != "RPC_ERROR 1 RESOURCE_EXHAUSTED" {
		t.Errorf("a request whose reply is larger than MaxQueued got %.60q, want its reply or an RPC_ERROR", got)
	}
	p.hangUp()
	s.recovered()
}

// A ping behind such an answer, which the client has begun to read, is answered too: the
// client is not a slow one.
func TestPingBehindAReplyLargerThanTheQueue(t *testing.T) {
	t.Parallel()
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxQueued: 4 << 10}}, func(r *router.Router) {
		router.RPC(r, "big", func(c *router.Context, _ struct{}) (said, error) {
			conns <- c.Conn()
			return said{strings.Repeat("x", 2<<20)}, nil // more than the kernel takes
		}, router.RouteOptions{Concurrent: true})
	})
	p := s.dial()
	_ = p.nc.SetReadBuffer(32 << 10)
	p.write(textFrame(`{"type":"big","meta":{"correlationId":"1"}}`))
	c := <-conns
	eventually(t, "the reply to be queued", func() bool { return c.Queued() > 4<<10 })
	read := s.r.Stats().BytesRead
	p.write(ping("p"))
	eventually(t, "the ping to be read", func() bool { return s.r.Stats().BytesRead == read+int64(len(ping("p"))) })
	if got := p.next(); !strings.HasPrefix(got, "reply 1 xxx") {
		t.Errorf("got %.60q, want the reply", got)
	}
	p.expect("pong p")
	p.hangUp()
	s.recovered()
}
