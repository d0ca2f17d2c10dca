package router

import (
	"bytes"
	"compress/flate"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/race"
)

// reading returns a function that sends frames over a socket, reads and dispatches them
// as a connection's reader does, and reads the answer.
func reading(tb testing.TB, r *Router, frames []byte) func() {
	tb.Helper()
	c, client := pair(tb, r)
	c.stream.Limit(r.opts.Limits.MaxPayload, true)
	answer := make([]byte, 4<<10)
	return func() {
		if _, err := client.Write(frames); err != nil {
			tb.Fatal(err)
		}
		if err := c.stream.Await(); err != nil {
			tb.Fatal(err)
		}
		if reading, err := c.batch(); !reading || err != nil {
			tb.Fatal("the frame was not handled on the spot: ", err)
		}
		c.stream.Out.Flush()
		if _, err := client.Read(answer); err != nil {
			tb.Fatal(err)
		}
	}
}

func deflatedText(payload string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write([]byte(payload))
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

// clientFrame is a frame of a client whose mask is nothing but zeros.
func clientFrame(b0 byte, payload string) []byte {
	n := len(payload)
	b := []byte{b0, 0x80 | byte(n)}
	switch {
	case n > 0xFFFF:
		b = []byte{b0, 0x80 | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	case n > 125:
		b = []byte{b0, 0x80 | 126, byte(n >> 8), byte(n)}
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

// refusedKinds are frames of every size and kind.
func refusedKinds() map[string][]byte {
	request := func(text string) string {
		return `{"type":"echo","meta":{"correlationId":"02b7a5c0"},"payload":{"text":"` + text + `"}}`
	}
	large := request(strings.Repeat("x", 60_000))
	numbers := `{"type":"sum","payload":[` + strings.Repeat("0,", 30_000) + `0]}`
	sorted := `{"meta":{"correlationId":"02b7a5c0"},"payload":[` + strings.Repeat("0,", 30_000) + `0],"type":"sum"}`
	compressed := deflatedText(request(strings.Repeat("x", 65_000)))
	return map[string][]byte{
		"short":                     clientFrame(0x81, request("a short line of chat, as people type them")),
		"60 KB":                     clientFrame(0x81, large),
		"60 KB without meta":        clientFrame(0x81, numbers),
		"60 KB, type last":          clientFrame(0x81, sorted),
		"60 KB in fragments":        append(clientFrame(0x01, large[:20_000]), clientFrame(0x80, large[20_000:])...),
		"short, in fragments":       append(clientFrame(0x01, request("x")[:20]), clientFrame(0x80, request("x")[20:])...),
		"compressed, short":         clientFrame(0xC1, deflatedText(request("a short line of chat, as people type them"))),
		"compressed to 0.2 KB":      clientFrame(0xC1, compressed),
		"compressed, in fragments":  append(clientFrame(0x41, compressed[:50]), clientFrame(0x80, compressed[50:])...),
		"compressed, without meta":  clientFrame(0xC1, deflatedText(numbers)),
		"compressed, type last":     clientFrame(0xC1, deflatedText(sorted)),
		"compressed, far too large": clientFrame(0xC1, deflatedText(request(strings.Repeat("x", 8<<20)))),
		"too large":                 clientFrame(0x81, request(strings.Repeat("x", 100_000))),
		"unknown type of 60 KB":     clientFrame(0x81, `{"type":"made up","payload":[`+strings.Repeat("0,", 30_000)+`0]}`),
	}
}

func kindsRouter(refuse bool) *Router {
	r := New(Options{Compression: true})
	if refuse {
		r.Use(refuseAll)
	}
	type text struct{ Text string }
	RPC(r, "echo", func(_ *Context, m text) (struct{}, error) { return struct{}{}, nil })
	RPC(r, "sum", func(*Context, []int) (struct{}, error) { return struct{}{}, nil })
	return r
}

// Refusing a frame of any size and kind allocates nothing.
func TestRefusedFramesAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget, so it allocates")
	}
	for name, frames := range refusedKinds() {
		read := reading(t, kindsRouter(true), frames)
		read()
		if n := testing.AllocsPerRun(200, read); n >= 1 {
			t.Errorf("%s: %v allocations per frame, want none", name, n)
		}
	}
}

// Dropping a frame without an answer allocates nothing either.
func TestDroppedFramesAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget, so it allocates")
	}
	refused := clientFrame(0x81, `{"type":"cursor","payload":{"x":1,"y":2}}`)
	answered := clientFrame(0x81, `{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"x"}}`)
	for name, opts := range map[string]RouteOptions{"all": {}, "one type": {Silent: true}} {
		o := Options{}
		if !opts.Silent {
			o.Limits.OnExceeded = OnExceededSilent
		}
		r := New(o)
		r.Use(refuseAll)
		On(r, "cursor", func(*Context, struct{}) error { return nil }, opts)
		RPC(r, "echo", func(_ *Context, m struct{}) (struct{}, error) { return m, nil })
		read := reading(t, r, append(refused, answered...))
		read()
		if n := testing.AllocsPerRun(200, read); n >= 1 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
		if s := r.Stats(); s.Unanswered == 0 || s.Rejected != 2*s.Unanswered {
			t.Errorf("%s: Stats are %+v, want half of the rejected frames unanswered", name, s)
		}
	}
}

// BenchmarkKinds is what a frame of each kind costs, from the socket's bytes to the
// answer: handled, and refused by a limit.
func BenchmarkKinds(b *testing.B) {
	for name, frames := range refusedKinds() {
		for _, refuse := range []bool{false, true} {
			b.Run(name+map[bool]string{true: "/refused", false: "/handled"}[refuse], func(b *testing.B) {
				read := reading(b, kindsRouter(refuse), frames)
				b.ReportAllocs()
				for b.Loop() {
					read()
				}
			})
		}
	}
}
