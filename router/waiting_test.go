package router_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// stall is middleware that refuses frames of type "limited" and keeps those of type
// "stall" waiting, as a store far away does, until it is opened.
type stall struct {
	opened chan struct{}
	open   func()
}

func newStall() *stall {
	g := &stall{opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

func (g *stall) middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		switch c.Type {
		case "limited":
			return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: time.Second})
		case "stall":
			<-g.opened
		}
		return next(c)
	}
}

// slowlyDecoded takes its time to be decoded.
type slowlyDecoded struct{}

var decodes atomic.Pointer[stall]

func (*slowlyDecoded) UnmarshalJSON([]byte) error {
	<-decodes.Load().opened
	return nil
}

func request(id, typ string) []byte {
	return textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q},"payload":{"text":"x"}}`, typ, id))
}

// What earlier frames of a batch have made ready leaves while middleware, or a
// message that decodes itself, keeps a later one waiting: here it waits until the
// client has it all.
func TestWhatIsReadyLeavesWhileAFrameWaits(t *testing.T) {
	for _, waiting := range []string{"stall", "decode"} {
		for _, tc := range []struct {
			name   string
			before []byte
			want   []string
		}{
			{"reply", request("1", "echo"), []string{"reply 1 x"}},
			{"rejection", request("1", "limited"), []string{"RPC_ERROR 1 RESOURCE_EXHAUSTED"}},
			{"unknown type", request("1", "unknown"), []string{"RPC_ERROR 1 UNIMPLEMENTED"}},
			{"bad frame", textFrame(`{`), []string{"ERROR INVALID_ARGUMENT"}},
			{"pong", ping("are you there"), []string{"pong are you there"}},
			{"all", join(ping("p"), request("1", "echo"), request("2", "limited"), textFrame(`{`), request("3", "echo")),
				[]string{"pong p", "reply 1 x", "RPC_ERROR 2 RESOURCE_EXHAUSTED", "ERROR INVALID_ARGUMENT", "reply 3 x"}},
		} {
			t.Run(waiting+"/"+tc.name, func(t *testing.T) {
				g := newStall()
				decodes.Store(g)
				s := waitingServer(t, g)
				p := s.dial()
				p.write(join(tc.before, request("w", waiting), request("behind", "echo")))
				p.expectInAnyOrder(tc.want...) // a handler that takes its time, as any may, is overtaken
				g.open()
				p.expect("reply w x", "reply behind x")
				p.bye()
				s.recovered()
			})
		}
	}
}

func waitingServer(t *testing.T, g *stall) *socketServer {
	opts := router.Options{OnOpen: func(c *router.Conn) error { return c.Subscribe(c.Context(), "topic") }}
	s := serveSocket(t, opts, func(r *router.Router) {
		r.Use(g.middleware)
		answer := func(_ *router.Context, m said) (said, error) { return m, nil }
		router.RPC(r, "stall", answer)
		router.RPC(r, "limited", answer)
		router.RPC(r, "wait", func(_ *router.Context, m said) (said, error) { <-g.opened; return m, nil })
		router.RPC(r, "decode", func(*router.Context, slowlyDecoded) (said, error) { return said{"x"}, nil })
		router.On(r, "publish", func(c *router.Context, m said) error {
			return c.Publish("topic", "news", m.Text, router.PublishOptions{Except: c.Conn().ID()})
		})
	})
	t.Cleanup(g.open) // before the server's
	return s
}

// Nor does what has been published to others.
func TestWhatIsPublishedLeavesWhileAFrameWaits(t *testing.T) {
	t.Parallel()
	g := newStall()
	s := waitingServer(t, g)
	p, subscriber := s.dial(), s.dial()
	eventually(t, "both to be subscribed", func() bool { return s.r.Stats().Connections == 2 })
	subscriber.write(echo("there", "yes"))
	subscriber.expect("reply there yes")
	p.write(join(request("", "publish"), request("w", "stall")))
	subscriber.expect(`news "x"`)
	g.open()
	p.expect("reply w x")
	p.bye()
	subscriber.bye()
	s.recovered()
}

// A handler takes its time, so that another goroutine reads: the answers to what that
// refuses wait neither for the handler nor for middleware.
func TestWhatIsReadyLeavesWhileAHandlerAndAFrameWait(t *testing.T) {
	t.Parallel()
	g := newStall()
	s := waitingServer(t, g)
	p := s.dial()
	p.write(join(request("h", "wait"), request("1", "limited"), request("w", "stall"), request("behind", "echo")))
	p.expect("RPC_ERROR 1 RESOURCE_EXHAUSTED")
	g.open()
	p.expect("reply h x", "reply w x", "reply behind x")
	p.bye()
	s.recovered()
}

// Many frames wait one after the other, each until the one before is answered: the
// watchdog, which gives up looking at a frame that waits long, comes back for each.
func TestEveryFrameMayWait(t *testing.T) {
	t.Parallel()
	overPipe(t, false, func(t *testing.T, serve transport) {
		const n = 200
		var answered atomic.Int64
		s := serve(t, router.Options{}, func(r *router.Router) {
			r.Use(func(next ingress.Handler) ingress.Handler {
				passed := int64(0)
				return func(c *ingress.Context) error {
					for answered.Load() < passed {
						time.Sleep(time.Duration(rand.N(3_000)) * time.Microsecond)
					}
					passed++
					if c.Type == "limited" {
						return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate})
					}
					return next(c)
				}
			})
			router.RPC(r, "limited", func(_ *router.Context, m said) (said, error) { return m, nil })
		})
		t.Cleanup(func() { answered.Store(n) })
		p := s.dial()
		var all []byte
		for i := range n {
			typ := "echo"
			if i%3 == 0 {
				typ = "limited"
			}
			all = append(all, request(fmt.Sprint(i), typ)...)
		}
		go func() { _ = p.tryWrite(all) }()
		for i := range n {
			if i%3 == 0 {
				p.expect(fmt.Sprintf("RPC_ERROR %d RESOURCE_EXHAUSTED", i))
			} else {
				p.expect(fmt.Sprintf("reply %d x", i))
			}
			answered.Add(1)
		}
		p.hangUp()
		s.settled()
	})
}

// Middleware and messages that decode themselves may end their goroutine, as handlers
// may: the connection is given up in good order.
func TestMiddlewareThatExits(t *testing.T) {
	t.Parallel()
	var faults atomic.Int64
	s := serveSocket(t, router.Options{OnError: func(router.Fault) { faults.Add(1) }}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "exit" || c.Type == "" {
					runtime.Goexit()
				}
				return next(c)
			}
		})
		router.RPC(r, "exit", func(_ *router.Context, m said) (said, error) { return m, nil })
		router.RPC(r, "exit decoding", func(_ *router.Context, m exiting) (said, error) { return said{}, nil })
	})
	frames := []struct{ frame, want string }{
		{`{"type":"exit","meta":{"correlationId":"1"}}`, "RPC_ERROR 1 INTERNAL"},
		{`{"type":"exit","payload":{},"meta":{"correlationId":"1"}}`, "RPC_ERROR 1 INTERNAL"},
		{`{"type":"exit"}`, "ERROR INTERNAL"},
		{`{"type":"unknown","meta":{"correlationId":"1"}}`, "RPC_ERROR 1 INTERNAL"},
		{`{"type":`, "ERROR INTERNAL"},
		{`{"type":"exit decoding","meta":{"correlationId":"1"},"payload":{}}`, "RPC_ERROR 1 INTERNAL"},
	}
	exits := 0
	for _, f := range frames {
		var got []string
		for range 20 { // a handler that takes its time, as any may, is overtaken
			p := s.dial()
			p.write(join(echo("before", "x"), textFrame(f.frame), echo("behind", "x")))
			for got = []string{p.next()}; got[len(got)-1] != "close 1011" && len(got) < 4; {
				got = append(got, p.next())
			}
			p.write(closing(1011, ""))
			p.expect("end")
			if exits++; got[0] == "reply before x" {
				break
			}
		}
		if want := []string{"reply before x", f.want, "close 1011"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", f.frame, got, want)
		}
	}
	s.recovered()
	if got := int(faults.Load()); got != exits {
		t.Errorf("%d faults were reported, want %d", got, exits)
	}
}

type exiting struct{}

func (*exiting) UnmarshalJSON([]byte) error { runtime.Goexit(); return nil }
