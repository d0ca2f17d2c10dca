package router

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/wire"
)

// pipeClient is a client made by hand at the end of a pipe, in a bubble: it sends any bytes at any time.
type pipeClient struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

// livenessOverPipe runs a test with a client of a router that has the request "echo" and what register adds,
// without TLS and under it.
func livenessOverPipe(t *testing.T, opts Options, register func(*Router), test func(*testing.T, *pipeClient)) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	for name, secret := range map[string]*tls.Config{"pipe": nil, "TLS": certified.TLS} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(opts)
				RPC(r, "echo", func(_ *Context, text string) (string, error) { return text, nil })
				if register != nil {
					register(r)
				}
				server, client := net.Pipe()
				if secret != nil {
					server = tls.Server(server, secret)
					client = tls.Client(client, &tls.Config{InsecureSkipVerify: true})
				}
				c := r.newConn("test", netip.Addr{}, ingress.Identity{}, wire.NewStream(server, nil, r.epoch))
				c.stream.Limit(r.opts.Limits.MaxPayload, false)
				r.open(c)
				test(t, &pipeClient{client, t, bufio.NewReader(client)})
				_ = client.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}

func (p *pipeClient) write(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("writing: %v", err)
	}
}

func (p *pipeClient) pong() { _, _ = p.Write([]byte{0x8A, 0x80, 0, 0, 0, 0}) }

// next reads a frame: "ping", "close <code>" or a message as it came.
func (p *pipeClient) next() string {
	p.t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(p.br, head); err != nil {
		return "end"
	}
	n := int(head[1])
	if n == 126 {
		long := make([]byte, 2)
		_, _ = io.ReadFull(p.br, long)
		n = int(binary.BigEndian.Uint16(long))
	}
	payload := make([]byte, n)
	_, _ = io.ReadFull(p.br, payload)
	switch head[0] & 0xF {
	case 9:
		return "ping"
	case 8:
		return fmt.Sprint("close ", binary.BigEndian.Uint16(payload))
	}
	return string(payload)
}

// expectReply reads the reply to a request, which has to be the next frame.
func (p *pipeClient) expectReply(id string) {
	p.t.Helper()
	if got := p.next(); !strings.HasPrefix(got, `{"type":"`) || !strings.Contains(got, `.reply","meta":{"correlationId":"`+id+`"}`) {
		p.t.Fatalf("got %.100q, want the reply to %s", got, id)
	}
}

func frameOf(typ, id string) []byte {
	return maskedFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q},"payload":"a"}`, typ, id))
}

// A client that sends nothing but its answers to pings stays.
func TestPingsThatAreAnswered(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	livenessOverPipe(t, Options{Liveness: Liveness{PingInterval: timeout, PongTimeout: timeout}}, nil, func(t *testing.T, p *pipeClient) {
		for range 10 {
			if got := p.next(); got != "ping" {
				t.Fatalf("got %q", got)
			}
			time.Sleep(timeout - time.Millisecond)
			p.pong()
		}
		p.write(frameOf("echo", "1"))
		p.expectReply("1")
	})
}

// However long an answer may take: after one, the next ping comes when the client was silent for the interval.
func TestPingsAreAsOftenAsTheInterval(t *testing.T) {
	t.Parallel()
	const interval, answer = time.Second, 100 * time.Millisecond
	o := Options{Liveness: Liveness{PingInterval: interval, PongTimeout: time.Hour}}
	livenessOverPipe(t, o, nil, func(t *testing.T, p *pipeClient) {
		for range 10 {
			heard := time.Now()
			if got := p.next(); got != "ping" {
				t.Fatalf("got %q", got)
			}
			if silent := time.Since(heard); silent < interval || silent > interval+interval/2 {
				t.Errorf("a ping came after %v of silence, want %v", silent, interval)
			}
			time.Sleep(answer)
			p.pong()
		}
	})
}

// A slow network is alive: one byte of a frame now and then proves it, and no ping is sent.
func TestAFrameThatTricklesIn(t *testing.T) {
	t.Parallel()
	livenessOverPipe(t, Options{Liveness: Liveness{PingInterval: time.Second, PongTimeout: time.Second, MessageTimeout: -1}}, nil,
		func(t *testing.T, p *pipeClient) {
			for i, b := range frameOf("echo", "1") {
				if i > 0 {
					time.Sleep(999 * time.Millisecond)
				}
				go func() { _, _ = p.Write([]byte{b}) }()
				synctest.Wait()
			}
			p.expectReply("1")
		})
}

// A client that reads slowly but steadily is alive. While it is held back, the
// server reads neither its requests nor its pongs: that silence is the server's
// own and must not be taken for the client's.
func TestSlowButSteadyReaderIsAlive(t *testing.T) {
	t.Parallel()
	const n, pongTimeout = 120, time.Second
	livenessOverPipe(t, Options{
		Limits:   Limits{MaxQueued: 64 << 10, MaxInFlight: n},
		Liveness: Liveness{PingInterval: 200 * time.Millisecond, PongTimeout: pongTimeout},
	}, func(r *Router) {
		RPC(r, "big", func(*Context, string) (string, error) { return strings.Repeat("x", 8<<10), nil })
	}, func(t *testing.T, p *pipeClient) {
		pongs := make(chan bool, n)
		defer close(pongs)
		var all []byte
		for i := range n {
			all = append(all, frameOf("big", fmt.Sprint(i))...)
		}
		go func() { // what is not read holds it up, and not the client's reading
			_, _ = p.Write(all)
			for range pongs {
				p.pong()
			}
		}()
		start := time.Now()
		for i := 0; i < n; {
			switch got := p.next(); {
			case got == "ping":
				pongs <- true
			case strings.Contains(got, fmt.Sprintf(`{"correlationId":"%d"}`, i)):
				i++
				time.Sleep(50 * time.Millisecond)
			default:
				t.Fatalf("after %d replies of %d, a client that reads steadily got %.60q", i, n, got)
			}
		}
		if took := time.Since(start); took < 5*pongTimeout {
			t.Errorf("reading took %v, which is no longer than the time for a pong", took)
		}
	})
}

// A client whose messages are not read for a while is not dead: its pongs are not read either.
func TestClientThatIsHeldBackIsAlive(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	livenessOverPipe(t, Options{
		Limits:   Limits{MaxInFlight: 2},
		Liveness: Liveness{PingInterval: 50 * time.Millisecond, PongTimeout: 50 * time.Millisecond},
	}, func(r *Router) {
		release = make(chan struct{}) // of this bubble
		On(r, "hold", func(*Context, struct{}) error { <-release; return nil })
	}, func(t *testing.T, p *pipeClient) {
		p.write(clientFrames("hold")[0])
		pongs := make(chan bool, 100)
		defer close(pongs)
		go func() {
			for _, id := range []string{"1", "2", "3"} {
				_, _ = p.Write(frameOf("echo", id))
			}
			for range pongs {
				p.pong()
			}
		}()
		for range 10 {
			if got := p.next(); got != "ping" {
				t.Fatalf("got %q", got)
			}
			pongs <- true
		}
		close(release)
		for want := 1; want <= 3; {
			switch got := p.next(); {
			case strings.Contains(got, fmt.Sprintf(`{"correlationId":"%d"}`, want)):
				want++
			case got == "ping":
				pongs <- true
			default:
				t.Fatalf("got %q, want the reply %d", got, want)
			}
		}
	})
}

// Messages one after the other, none of which takes too long, are no unfinished message,
// and neither is silence.
func TestFinishedMessagesDoNotEnd(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	livenessOverPipe(t, Options{Liveness: Liveness{MessageTimeout: timeout, PingInterval: -1}}, nil, func(t *testing.T, p *pipeClient) {
		for range 10 {
			b := frameOf("echo", "1")
			p.write(b[:7])
			time.Sleep(timeout - time.Millisecond)
			p.write(b[7:])
			p.expectReply("1")
		}
		time.Sleep(10 * timeout)
		p.write(frameOf("echo", "2"))
		p.expectReply("2")
	})
}

// The time for which the server itself does not read is no time that a client has taken:
// a message of which half lies there meanwhile has its whole time when reading resumes.
func TestTimeWithoutReadingIsNotTheClients(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	livenessOverPipe(t, Options{Liveness: Liveness{MessageTimeout: timeout, PingInterval: -1}}, func(r *Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "held" {
					time.Sleep(10 * timeout)
				}
				return next(c)
			}
		})
		On(r, "held", func(*Context, struct{}) error { return nil })
	}, func(t *testing.T, p *pipeClient) {
		request := frameOf("echo", "1")
		p.write(append(clientFrames("held")[0], request[:20]...))
		time.Sleep(10*timeout + timeout - time.Millisecond)
		p.write(request[20:])
		p.expectReply("1")
	})
}
