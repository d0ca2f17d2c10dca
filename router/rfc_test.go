package router_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router"
)

// The cases of RFC 6455 and RFC 7692, after the sections of the Autobahn test suite,
// each with the outcome that the RFC demands.
func rfcCases() (groups []rfcGroup) {
	return []rfcGroup{
		{name: "fragmentation", cases: fragmentation},
		{name: "control", cases: control},
		{name: "reserved", cases: reserved()},
		{name: "masking", cases: masking},
		{name: "close", cases: closes},
		{name: "lengths", cases: lengths},
		{name: "UTF-8", cases: encodings()},
		{name: "sizes", cases: sizes()},
		{name: "compression", cases: compression(), offer: offerDeflate},
		{name: "compression not agreed on", cases: notAgreed},
	}
}

type rfcGroup struct {
	name  string
	cases []rawCase
	offer []string // header lines of the handshake
}

var offerDeflate = []string{"Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover; server_no_context_takeover"}

// A way is how the bytes of a case come to the server.
type way struct {
	name   string
	server *socketServer
	split  func(b []byte) int // how many bytes the next write has
	before string             // a message that comes first
	offer  []string
}

const rfcCaseCount = 250

// The same bytes have the same outcome whichever way they come.
func TestRFC(t *testing.T) {
	t.Parallel()
	opts := router.Options{Compression: true}
	plain := serveSocket(t, opts, nil)
	secure := serveTLS(t, opts, nil)
	large, text := echoOf(9_000) // more than is read at once
	atOnce := func(b []byte) int { return len(b) }
	oneByOne := func(b []byte) int {
		if len(b) > 300 { // only its end, where what matters stands
			return len(b) - 300
		}
		return 1
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(b []byte) int { return 1 + rnd.IntN(len(b)) }
	ways := []way{
		{"at once", plain, atOnce, "", nil},
		{"byte by byte", plain, oneByOne, "", nil},
		{"in random pieces", plain, random, "", nil},
		{"behind a large message", plain, atOnce, large, nil},
		{"with compression agreed on", plain, random, "", offerDeflate},
	}
	// TLS is below the framing: these take turns.
	overTLS := []way{
		{"over TLS", secure, atOnce, "", nil},
		{"over TLS, byte by byte", secure, oneByOne, "", nil},
		{"over TLS, in random pieces", secure, random, "", nil},
	}
	// So do all under the race detector: the cases are about bytes, not about goroutines.
	waysOf := func(i int) []way {
		tls := overTLS[i%len(overTLS)]
		if race.Enabled {
			return []way{ways[i%len(ways)], tls}
		}
		return append(slices.Clone(ways), tls)
	}
	count := 0
	for _, group := range rfcCases() {
		count += len(group.cases)
		t.Run(group.name, func(t *testing.T) {
			for i, c := range group.cases {
				for _, w := range waysOf(i) {
					offer := slices.Concat(group.offer, w.offer)
					if group.name == "reserved" && len(offer) > 0 || len(group.offer) > 0 && len(w.offer) > 0 ||
						group.name == "compression not agreed on" && len(w.offer) > 0 {
						continue
					}
					want, send := c.want, c.send
					if w.before != "" {
						send = join(textFrame(w.before), send)
						want = append([]string{"reply 1 " + text}, want...)
					}
					c := rawCase{c.name, send, want}
					want = canonical(want)
					got := w.server.converseUnless(c, w.split, offer, func(got []string) bool { return isCut(got, want) || overtook(got, want) })
					if !slices.Equal(got, want) {
						t.Errorf("%s, %s: got %.100q, want %.100q", c.name, w.name, got, want)
					}
				}
			}
		})
	}
	if count < rfcCaseCount {
		t.Errorf("%d cases, want at least %d", count, rfcCaseCount)
	}
	plain.recovered()
	secure.recovered()
}

// A violation of the protocol is answered as one, even if a limit refuses all messages of the client.
func TestViolationsInRefusedFrames(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{Compression: true}, func(r *router.Router) {
		r.Use(func(ingress.Handler) ingress.Handler { return refuseRate })
	})
	for _, group := range rfcCases() {
		for _, c := range group.cases {
			if len(c.want) != 2 || c.want[1] != "end" {
				continue
			}
			if got := s.converse(c, func(b []byte) int { return len(b) }, group.offer); !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: got %.100q, want %.100q", group.name, c.name, got, c.want)
			}
		}
	}
	s.settled()
}

func refuseRate(c *ingress.Context) error {
	return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: time.Second})
}

// converse sends the case's bytes in pieces and returns what comes back.
func (s *socketServer) converse(c rawCase, split func([]byte) int, offer []string) (got []string) {
	s.t.Helper()
	p := s.dial(offer...)
	defer p.hangUp()
	for send := c.send; len(send) > 0; {
		n := split(send)
		if p.tryWrite(send[:n]) != nil {
			break // the server has had enough
		}
		send = send[n:]
	}
	if !ends(c.want) {
		for want := canonical(c.want); !answered(got, want); {
			f := p.next()
			got = append(got, f)
			if f == "end" || strings.HasPrefix(f, "error: ") {
				break
			}
		}
		_ = p.tryWrite(closing(1000, ""))
	}
	return samePongs(canonical(append(got, p.rest()...)), c.want)
}

// answered reports whether all has come that is wanted before the close frame.
func answered(got, want []string) bool {
	data := func(frames []string) (n int, last string) {
		for _, f := range frames {
			switch {
			case strings.HasPrefix(f, "pong"):
				last = f
			case f != "end" && !strings.HasPrefix(f, "close"):
				n++
			}
		}
		return n, last
	}
	gotData, gotPong := data(got)
	wantData, wantPong := data(want)
	return gotData >= wantData && gotPong == wantPong
}

// samePongs puts the wanted pongs in place of those that came, if these are the last
// one and some of the others in order: one pong answers all pings that have come (RFC 6455,
// 5.5.3).
func samePongs(got, want []string) []string {
	isPong := func(f string) bool { return strings.HasPrefix(f, "pong") }
	var all, some []string
	for _, f := range want {
		if isPong(f) {
			all = append(all, f)
		}
	}
	for _, f := range got {
		if isPong(f) {
			some = append(some, f)
		}
	}
	if len(all) == 0 || len(some) == 0 || some[len(some)-1] != all[len(all)-1] {
		return got
	}
	rest := all
	for _, f := range some {
		i := slices.Index(rest, f)
		if i < 0 {
			return got
		}
		rest = rest[i+1:]
	}
	got = slices.DeleteFunc(slices.Clone(got), isPong)
	return canonical(append(got, all...))
}

// converseUnless converses again when a handler was stalled. No connection waits for a
// handler that takes its time, and where the machine is busy, any may; but not always.
func (s *socketServer) converseUnless(c rawCase, split func([]byte) int, offer []string, stalled func(got []string) bool) []string {
	s.t.Helper()
	got := s.converse(c, split, offer)
	for tries := 0; tries < 20 && stalled(got); tries++ {
		got = s.converse(c, split, offer)
	}
	return got
}

// isCut reports whether the connection ended before its messages were answered.
func isCut(got, want []string) bool {
	n := len(got) - 2 // before the close frame and the end
	return n >= 0 && n < len(want)-2 && ends(want) && slices.Equal(got[:n], want[:n]) && slices.Equal(got[n:], want[len(want)-2:])
}

// overtook reports whether only the order differs: the answer to a bad frame overtakes
// those of handlers that take their time.
func overtook(got, want []string) bool {
	return !slices.Equal(got, want) && slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

func ends(want []string) bool { return len(want) > 0 && want[len(want)-1] == "end" }

// canonical puts data frames before pongs, because where a pong stands among
// them is the server's choice, and adds the end that a case may leave out.
func canonical(frames []string) []string {
	var data, pongs, end []string
	for _, f := range frames {
		switch {
		case strings.HasPrefix(f, "pong"):
			pongs = append(pongs, f)
		case f == "end", strings.HasPrefix(f, "close"), strings.HasPrefix(f, "error: "):
			end = append(end, f)
		default:
			data = append(data, f)
		}
	}
	if len(end) == 0 {
		end = []string{"close 1000", "end"}
	}
	return slices.Concat(data, pongs, end)
}

// The first byte that is wrong closes the connection: what would follow it is not waited for.
func TestTheFirstWrongByte(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, subscribing)
	for name, bytes := range map[string][]byte{
		"reserved bits":             {0xf1},
		"opcode 3":                  {0x83},
		"opcode 11":                 {0x8b},
		"continuation of nothing":   {0x80},
		"fragmented ping":           {0x09},
		"not masked":                {0x81, 0x01},
		"ping of 126 bytes":         {0x89, 0xfe},
		"125 as 16 bits":            {0x81, 0xfe, 0, 125},
		"length out of range":       {0x82, 0xff, 0x80},
		"65535 as 64 bits":          {0x82, 0xff, 0, 0, 0, 0, 0, 0},
		"message within a message":  {0x01, 0x80, 0, 0, 0, 0, 0x81},
		"compression without offer": {0xc1},
	} {
		for way, step := range map[string]int{"at once": len(bytes), "byte by byte": 1} {
			p := s.dial()
			sent := s.r.Stats().BytesRead
			for chunk := range slices.Chunk(bytes, step) {
				p.write(chunk)
				sent += int64(len(chunk))
				eventually(t, "it to be read by itself", func() bool { return s.r.Stats().BytesRead == sent })
			}
			if f, err := p.read(); err != nil || f.String() != "close 1002" {
				t.Errorf("%s, %s: got %v %v, want close 1002", name, way, f, err)
			}
			p.hangUp()
		}
	}
}
