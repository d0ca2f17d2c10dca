package router

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router/internal/wire"
)

// sink is a connection that takes everything and gives nothing.
type sink struct{ net.Conn }

func (sink) Read([]byte) (int, error)         { return 0, io.EOF }
func (sink) Write(b []byte) (int, error)      { return len(b), nil }
func (sink) Close() error                     { return nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

// dispatching returns a function that dispatches a frame as a connection's
// reader would, and throws away what is answered.
func dispatching(tb testing.TB, r *Router, frame string) func() {
	tb.Helper()
	c := r.newConn("test", netip.Addr{}, ingress.Identity{User: "ann"}, wire.NewStream(sink{}, nil, r.epoch))
	c.turn.Watch() // no watchdog: it would be another goroutine's allocations
	s := &scratch{call: new(Context)}
	s.in = ingress.Context{ConnID: c.peer.ID, IP: c.ip, State: inbound.State{Ctx: lazyContext{c}}}
	bytes := []byte(frame)
	return func() {
		if !c.dispatch(s, bytes, false) {
			tb.Fatal("the reader's role was lost")
		}
		if c.stream.Out.Queued() > 64<<10 {
			c.stream.Out.Flush()
			for c.stream.Out.Queued() > 0 {
				runtime.Gosched()
			}
		}
	}
}

type numbers struct {
	A, B int
}

func refuseAll(ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: time.Second})
	}
}

const (
	eventFrame   = `{"type":"event","meta":{"timestamp":1795228211391},"payload":{"A":1,"B":2}}`
	requestFrame = `{"type":"request","meta":{"timestamp":1795228211391,"correlationId":"02b7a5c0-0000-4000-8000-123456789abc"},"payload":{"A":1,"B":2}}`
	unknownFrame = `{"type":"made up by the client","payload":{"A":1,"B":2}}`
)

// What the router itself does for a frame allocates nothing. (A payload with
// strings allocates them, for the handler may keep them.)
func TestDispatchAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget, so it allocates")
	}
	for _, tc := range []struct {
		name, frame string
		refuse      bool
	}{
		{"event", eventFrame, false},
		{"request and reply", requestFrame, false},
		{"refused event", eventFrame, true},
		{"refused request", requestFrame, true},
		{"refused frame of no registered type", unknownFrame, true},
		{"heartbeat", `{"type":"__heartbeat"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := allocRouter(tc.refuse)
			dispatch := dispatching(t, r, tc.frame)
			if n := testing.AllocsPerRun(2000, dispatch); n != 0 {
				t.Errorf("%v allocations per frame, want none", n)
			}
		})
	}
}

func allocRouter(refuse bool) *Router {
	// A message without a key costs nothing more where there are keys.
	r := New(Options{Backend: adapters.Backend{Idempotency: memory.NewIdempotency()}})
	if refuse {
		r.Use(refuseAll)
	}
	On(r, "event", func(*Context, numbers) error { return nil })
	RPC(r, "request", func(_ *Context, n numbers) (numbers, error) { return n, nil })
	return r
}

// BenchmarkDispatch is the way of a frame without the socket: from the bytes in
// hand to the answer in the outbox.
func BenchmarkDispatch(b *testing.B) {
	for _, bc := range []struct {
		name, frame string
		refuse      bool
	}{
		{"event", eventFrame, false},
		{"request", requestFrame, false},
		{"refused", requestFrame, true},
		{"unknown", unknownFrame, false},
	} {
		b.Run(bc.name, func(b *testing.B) {
			dispatch := dispatching(b, allocRouter(bc.refuse), bc.frame)
			b.ReportAllocs()
			for b.Loop() {
				dispatch()
			}
		})
	}
}

// A Context that a goroutine may still have is not used again. The room for its reply is.
func TestTheRoomForAReplyIsUsedAgainAlloc(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget, so it allocates")
	}
	r := New(Options{})
	text := strings.Repeat("x", 8<<10)
	RPC(r, "request", func(c *Context, _ numbers) (string, error) { c.Done(); return text, nil })
	r.freeze()
	message := dispatching(t, r, requestFrame)
	message()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 1000
	for range n {
		message()
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / n; got > 2*uint64(len(text)) {
		t.Errorf("%d bytes a message with a reply of %d", got, len(text))
	}
}
