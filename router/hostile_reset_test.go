package router_test

import (
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// When it is decided that a client is too slow, its socket ends: a client that still
// reads nothing finds it reset soon, and the kernel holds nothing for it.
func testSlowConsumersSocketEnds(t *testing.T, serve transport) {
	s := serve(t, router.Options{Limits: router.Limits{MaxQueued: 64 << 10}}, subscribing)
	p := s.dial()
	_ = p.nc.SetReadBuffer(32 << 10)
	p.write(join1("news"))
	eventually(t, "the client to be subscribed", func() bool { return s.r.LocalSubscribers("news") == 1 })
	fill := strings.Repeat("x", 4<<10)
	for s.r.Stats().SlowConsumers == 0 {
		_ = s.r.Publish(t.Context(), "news", "news", numbered{0, fill})
	}
	eventually(t, "the socket to be reset", func() bool { return p.tryWrite(pong("")) != nil })
	p.hangUp()
	s.recovered()
}

// What the kernel takes off the server's hands for a client that does not read is what
// the option says.
func TestSocketBuffer(t *testing.T) {
	t.Parallel()
	taken := func(size, atLeast int) int {
		conns := make(chan *router.Conn, 2)
		s := serveSocket(t, router.Options{
			Limits: router.Limits{SocketBuffer: size, MaxQueued: 64 << 20},
			OnOpen: func(c *router.Conn) error { conns <- c; return nil },
		}, subscribing)
		p := s.dial()
		conn := <-conns
		_ = p.nc.SetReadBuffer(4 << 10)
		p.write(join1("news"))
		p.expect("reply j news")
		const n = 2000
		m := numbered{0, strings.Repeat("x", 4<<10)}
		frame := 4 + len(`{"type":"news","payload":{"n":0,"fill":""}}`) + len(m.Fill)
		for range n {
			_ = s.r.Publish(t.Context(), "news", "news", m)
		}
		queued := 0
		eventually(t, "the socket to take no more", func() bool {
			queued = conn.Queued()
			return s.limited.Load() && n*frame-queued >= atLeast // what waits to write it has a deadline
		})
		p.hangUp()
		s.settled()
		return n*frame - queued
	}
	small := taken(16<<10, 0)
	if small < 0 || small > 256<<10 {
		t.Errorf("the kernel takes %d bytes with buffers of 16 KiB", small)
	}
	taken(1<<20, 4*small)
}
