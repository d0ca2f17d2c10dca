package wire

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a socket on which a client's bytes arrive in given portions. What
// is written to it is recorded.
type script struct {
	net.Conn // of nothing else but the methods below
	portions [][]byte

	mu      sync.Mutex
	written []byte
	closed  bool
}

func (s *script) Read(p []byte) (int, error) {
	for len(s.portions) > 0 && len(s.portions[0]) == 0 {
		s.portions = s.portions[1:]
	}
	if len(s.portions) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.portions[0])
	s.portions[0] = s.portions[0][n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, p...)
	return len(p), nil
}

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

const readLimit = 64 << 10

// opened is a stream whose client sends the portions. early bytes of the first come
// with the handshake.
func opened(early int, portions ...[]byte) (*Stream, *script) {
	return openedWith(readLimit, false, early, portions...)
}

// openedWith is opened with a limit of the messages' size, and perhaps compression.
func openedWith(limit int, deflate bool, early int, portions ...[]byte) (*Stream, *script) {
	nc := &script{portions: portions}
	var first []byte
	if early > 0 {
		first, portions[0] = portions[0][:early], portions[0][early:]
	}
	s := NewStream(nc, first, time.Now())
	s.Limit(limit, deflate)
	return s, nc
}

// messages reads as a router does, and returns the messages and how it ended.
func messages(t testing.TB, early int, portions ...[]byte) (all []string, end string) {
	t.Helper()
	s, _ := opened(early, portions...)
	return messagesOf(s)
}

func messagesOf(s *Stream) (all []string, end string) {
	defer func() {
		s.Close()
		s.Release()
		for !s.Out.Gone() {
			runtime.Gosched()
		}
	}()
	err := s.Await()
	for err == nil {
		payload, found := s.Next()
		switch found {
		case Nothing:
			err = s.Await()
		case Partial:
			err = s.More()
		case Ended:
			err = s.Err()
		case Message:
			all = append(all, string(payload))
		case TooLarge:
			all = append(all, "too large: "+string(payload[:min(10, len(payload))]))
		}
	}
	if closed, ok := err.(*Closed); ok {
		return all, fmt.Sprintf("closed: %d %v", closed.Code, closed.Violation)
	}
	return all, err.Error()
}

// clientFrame is a frame as a client sends it.
func clientFrame(b0 byte, payload string) []byte {
	mask := []byte{0x12, 0x00, 0xFF, 0x80}
	form := byte(len(payload))
	switch {
	case len(payload) > 0xFFFF:
		form = 127
	case len(payload) > 125:
		form = 126
	}
	b := clientHeader(b0, form, uint64(len(payload)), mask)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// split cuts b at random places.
func split(r *rand.Rand, b []byte) (portions [][]byte) {
	b = slices.Clone(b)
	for len(b) > 0 {
		n := 1 + r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			n = 1
		case 1:
			n = min(n, 1+r.IntN(14)) // about a header
		}
		portions = append(portions, b[:n:n])
		b = b[n:]
	}
	return portions
}

var conversations = [][]byte{
	clientFrame(0x81, "hello"),
	slices.Concat(clientFrame(0x81, "a"), clientFrame(0x89, "p"), clientFrame(0x82, "b"), clientFrame(0x8A, ""), clientFrame(0x88, "\x03\xe8bye")),
	slices.Concat(clientFrame(0x01, "one "), clientFrame(0x89, "p"), clientFrame(0x00, "two "), clientFrame(0x80, "three"), clientFrame(0x81, "four")),
	slices.Concat(clientFrame(0x81, strings.Repeat("x", 8000)), clientFrame(0x81, strings.Repeat("y", 8178)), clientFrame(0x81, strings.Repeat("z", 8179))),
	slices.Concat(clientFrame(0x81, strings.Repeat("x", 70_000)), clientFrame(0x81, ""), clientFrame(0x82, strings.Repeat("y", 9000)), clientFrame(0x81, "end")),
	slices.Concat(clientFrame(0x81, "a"), clientFrame(0x83, "reserved")),
	slices.Concat(clientFrame(0x81, "a"), clientHeader(0x81, 127, 1<<63, []byte{1, 2, 3, 4})),
	slices.Concat(clientFrame(0x81, "a"), clientHeader(0x81, 5, 5, nil), []byte("plain")),
	slices.Concat(clientHeader(0x81, 126, 2, []byte{0, 0, 0, 0}), []byte("ab"), clientHeader(0x89, 127, 1, []byte{0, 0, 0, 0}), []byte("p")),
	clientFrame(0x81, "cut off")[:8],
	slices.Concat(clientFrame(0x01, "ab\xe2\x82"), clientFrame(0x80, "\xac"), clientFrame(0x81, "\xe2\x82")),
}

func TestMessagesOfAConversation(t *testing.T) {
	for i, want := range [][]string{
		{"hello", "EOF"},
		{"a", "b", "closed: 1000 false"},
		{"one two three", "four", "EOF"},
		{strings.Repeat("x", 8000), strings.Repeat("y", 8178), strings.Repeat("z", 8179), "EOF"},
		{"too large: xxxxxxxxxx", "", strings.Repeat("y", 9000), "end", "EOF"},
		{"a", "closed: 1002 true"},
		{"a", "closed: 1002 true"},
		{"a", "closed: 1002 true"},
		{"closed: 1002 true"},
		{"EOF"},
		{"ab€", "closed: 1007 true"},
	} {
		all, end := messages(t, 0, slices.Clone(conversations[i]))
		if got := append(all, end); !slices.Equal(got, want) {
			t.Errorf("conversation %d: got %.100q, want %.100q", i, got, want)
		}
	}
}

func checkSplit(t *testing.T, input []byte, seed uint64) {
	t.Helper()
	checkSplitOf(t, input, seed, readLimit, false)
}

func checkSplitOf(t *testing.T, input []byte, seed uint64, limit int, deflate bool) {
	t.Helper()
	s, _ := openedWith(limit, deflate, 0, slices.Clone(input))
	want, wantEnd := messagesOf(s)
	r := rand.New(rand.NewPCG(seed, 1))
	portions := split(r, input)
	// What comes before the handshake is answered comes in one portion.
	early := 0
	if len(portions) > 0 && r.IntN(2) == 0 {
		early = min(1+r.IntN(len(portions[0])), 4096)
	}
	s, _ = openedWith(limit, deflate, early, portions...)
	got, gotEnd := messagesOf(s)
	if !slices.Equal(got, want) || gotEnd != wantEnd {
		t.Fatalf("in %d portions, %d bytes early: %d messages %.100q, %s; at once: %d messages %.100q, %s",
			len(portions), early, len(got), got, gotEnd, len(want), want, wantEnd)
	}
}

func TestSplitsMakeNoDifference(t *testing.T) {
	for _, c := range conversations {
		for seed := range uint64(60) {
			checkSplit(t, c, seed)
		}
	}
	// Every kind of frame behind every other.
	all := slices.Concat(conversations[0], conversations[2], conversations[8], conversations[4], conversations[3], conversations[1])
	for seed := range uint64(60) {
		checkSplit(t, all, seed)
	}
}

// What is too large, compressed or not text has one answer, whichever way it comes.
func TestSplitsOfRefusedMessagesMakeNoDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 12_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	short, long := string(compressed(t, payloadOf(r, 300), 6, 1<<20)), string(compressed(t, noise, 1, 1<<20))
	empty := string(compressed(t, []byte("small"), 6, 1)) // blocks of a byte each
	for name, c := range map[string][]byte{
		"text that ends behind the limit":        slices.Concat(clientFrame(0x01, strings.Repeat("x", 400)), clientFrame(0x80, strings.Repeat("x", 300)+"\xff")),
		"text that ends at the limit":            slices.Concat(clientFrame(0x01, strings.Repeat("x", 500)), clientFrame(0x80, strings.Repeat("x", 12)+"\xff")),
		"a large frame that is not text":         clientFrame(0x81, strings.Repeat("x", 9000)+"\xff"),
		"compressed data that is not valid":      clientFrame(0xC1, strings.Repeat("\xff", 1000)),
		"compressed data longer than it may be":  clientFrame(0xC2, long[:2000]),
		"compressed data with empty blocks":      clientFrame(0xC2, strings.Repeat("\x00\x00\x00\xff\xff", 300)+empty),
		"a compressed message that is too large": clientFrame(0xC2, string(compressed(t, []byte(strings.Repeat("ab", 5000)), 9, 1<<20))),
		"a compressed message":                   slices.Concat(clientFrame(0xC2, short), clientFrame(0x42, short[:3]), clientFrame(0x80, short[3:])),
		"noise in fragments":                     slices.Concat(clientFrame(0x42, long[:900]), clientFrame(0x00, long[900:9000]), clientFrame(0x80, long[9000:])),
	} {
		t.Run(name, func(t *testing.T) {
			input := slices.Concat(c, clientFrame(0x81, "next"))
			for _, limit := range []int{128, 512, 4000, 8200} {
				for seed := range uint64(40) {
					checkSplitOf(t, input, seed, limit, true)
				}
			}
		})
	}
}

// FuzzStream feeds bytes in random portions: they never lead to a panic, and the
// messages are those of the bytes given at once.
func FuzzStream(f *testing.F) {
	for i, c := range conversations {
		if len(c) < 20_000 {
			f.Add(c, uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		checkSplit(t, input, seed)
		checkSplitOf(t, input, seed, 128+int(seed%9000), true)
	})
}

// A flood of pings that have come together is answered with one pong, the latest.
func TestPingsInHandHaveOnePong(t *testing.T) {
	s, nc := opened(0, slices.Concat(clientFrame(0x89, "a"), clientFrame(0x89, "b"), clientFrame(0x89, "last"), clientFrame(0x81, "m")))
	if err := s.Await(); err != nil {
		t.Fatal(err)
	}
	if payload, found := s.Next(); found != Message || string(payload) != "m" {
		t.Fatalf("got %q, %v", payload, found)
	}
	if _, found := s.Next(); found != Nothing {
		t.Fatalf("got %v", found)
	}
	if err := s.Await(); err != io.EOF {
		t.Fatalf("got %v, want EOF", err)
	}
	s.Close()
	eventually(t, "the socket to be closed", s.Out.Gone)
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if got, want := string(nc.written), "\x8a\x04last"; got != want {
		t.Errorf("got % x, want % x", got, want)
	}
}

// An idle stream holds no buffer, however it came to be idle.
func TestIdleStreamHoldsNoBuffer(t *testing.T) {
	for i, c := range conversations[:5] {
		s, _ := opened(0, slices.Clone(c))
		err := s.Await()
		for err == nil {
			switch _, found := s.Next(); found {
			case Nothing:
				err = s.Await()
			case Partial:
				err = s.More()
			case Ended:
				err = s.Err()
			}
		}
		if err == io.EOF && (s.in != nil && s.from == s.to || s.lent != nil || s.part != nil) {
			t.Errorf("conversation %d: a buffer is held without bytes in it", i)
		}
		s.Release()
		if s.in != nil {
			t.Errorf("conversation %d: a buffer is held after Release", i)
		}
		s.Close()
		eventually(t, "the socket to be closed", s.Out.Gone)
	}
}

// rest lets the goroutine that reads begin to wait, nearly always.
func rest() {
	for range 1000 {
		runtime.Gosched()
	}
}

// Whether bytes have come before or come later, AwaitReadable loses none, and it returns when the connection ends.
func TestAwaitReadable(t *testing.T) {
	overSockets(t, func(t *testing.T, connect pair) {
		s, client, _ := connect(t)
		s.Limit(readLimit, false)
		next := func(want string) {
			t.Helper()
			if err := s.AwaitReadable(); err != nil {
				t.Fatal(err)
			}
			if err := s.Await(); err != nil {
				t.Fatal(err)
			}
			if payload, found := s.Next(); found != Message || string(payload) != want {
				t.Fatalf("%q, %v; want %q", payload, found, want)
			}
		}
		for i := range 20 {
			text := fmt.Sprint(i)
			if i%2 == 0 {
				_, _ = client.Write(clientFrame(0x81, text))
			} else {
				go func() { rest(); _, _ = client.Write(clientFrame(0x81, text)) }()
			}
			next(text)
			if _, found := s.Next(); found != Nothing {
				t.Fatalf("behind %q there is %v", text, found)
			}
		}
		go func() { rest(); _ = client.Close() }()
		err := s.AwaitReadable()
		if err == nil {
			err = s.Await()
		}
		if err == nil {
			t.Error("the end of the connection is not seen")
		}

		s, _, _ = connect(t)
		go func() { rest(); s.Abort() }()
		if err := s.AwaitReadable(); err == nil {
			t.Error("AwaitReadable returns nil after Abort")
		}
	})
}
