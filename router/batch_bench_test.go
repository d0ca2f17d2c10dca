package router

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router/internal/wire"
)

// batchFrames is how many frames come in one segment in BenchmarkBatch.
const batchFrames = 32

// note is what a frame of chat holds.
type note struct {
	Room string `json:"room" validate:"required"`
	Text string `json:"text" validate:"required"`
}

const chatFrame = `{"type":"chat.echo","meta":{"correlationId":"02b7c1de-5f0a-4c3e-9d21-000000000001","timestamp":1795228211391},` +
	`"payload":{"room":"lobby","text":"a short line of chat, as people type them"}}`

// BenchmarkBatch is what a flood costs: the whole way of 32 frames that come at
// once, from one read of a socket to one write, with the limiter that lets them
// pass or refuses them. A refused frame should cost at most half of a handled one.
func BenchmarkBatch(b *testing.B) {
	for _, bc := range []struct {
		name   string
		policy limit.Policy
	}{
		{"handled", limit.TokenBucket{Capacity: 1e9, Refill: 1e9, Per: time.Second}},
		{"refused", limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := New(Options{})
			r.Use(ratelimit.New(limit.New(memory.NewStore(), bc.policy), ratelimit.PerUserOrIPPerType))
			RPC(r, "chat.echo", func(_ *Context, n note) (note, error) { return n, nil })
			c, client := pair(b, r)
			segment := bytes.Repeat(maskedFrame(chatFrame), batchFrames)
			answers := make([]byte, 64<<10)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += batchFrames
				if _, err := client.Write(segment); err != nil {
					b.Fatal(err)
				}
				if err := c.stream.Await(); err != nil {
					b.Fatal(err)
				}
				if reading, err := c.batch(); !reading || err != nil {
					b.Fatal("the batch was not handled on the spot: ", err)
				}
				c.stream.Out.Flush()
				if _, err := client.Read(answers); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/frame")
		})
	}
}

// pair returns a connection that no goroutine reads, and its client.
func pair(tb testing.TB, r *Router) (*Conn, net.Conn) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	server, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	c := r.newConn("test", netip.MustParseAddr("192.0.2.1"), ingress.Identity{}, wire.NewStream(server, nil, r.epoch))
	c.stream.Limit(r.opts.Limits.MaxPayload, false)
	c.turn.Watch() // no watchdog: a benchmark may be preempted for longer than a tick
	return c, client
}

// maskedFrame is a text frame of up to 64 KiB as a client sends it.
func maskedFrame(text string) []byte {
	mask := [4]byte{0x5a, 0xc3, 0x96, 0x3c}
	f := []byte{0x81, 0x80 | byte(len(text))}
	if len(text) > 125 {
		f = []byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text))}
	}
	f = append(f, mask[:]...)
	for i := range len(text) {
		f = append(f, text[i]^mask[i%4])
	}
	return f
}
