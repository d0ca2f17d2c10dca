package wire

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// A message may come before Linger is ended, after it, or one part before and the other after: it is read
// as a whole in each case. Once Linger has been ended, later waits last as long as they have to.
func TestLinger(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { linger(t, tcpPair) })
	t.Run("TLS", func(t *testing.T) { linger(t, tlsPair) })
	t.Run("pipe", func(t *testing.T) {
		linger(t, func(t *testing.T) (*Stream, net.Conn, *counts) {
			server, client := net.Pipe()
			return streamOver(t, server, client)
		})
	})
}

func linger(t *testing.T, connect pair) {
	s, client, _ := connect(t)
	s.Limit(1<<10, false)
	const moment = 5 * time.Millisecond
	frame := clientFrame(finBit|opText, "hello")
	send := func(b []byte) {
		if _, err := client.Write(b); err != nil {
			t.Error(err)
		}
	}
	expect := func(what string) {
		t.Helper()
		for {
			switch payload, found := s.Next(); {
			case found == Message && string(payload) == "hello":
				return
			case found == Partial:
				if err := s.More(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			default:
				t.Fatalf("%s: got %q, %v", what, payload, found)
			}
		}
	}

	wait := func(endAfter time.Duration) (came bool, err error) {
		s.BeginLinger()
		end := time.AfterFunc(endAfter, s.EndLinger)
		defer end.Stop()
		return s.Linger()
	}
	if came, err := wait(moment); came || err != nil {
		t.Fatalf("nothing was sent: %v, %v", came, err)
	}
	time.AfterFunc(2*moment, func() { send(frame) })
	if err := s.Await(); err != nil {
		t.Fatalf("after the time is over: %v", err)
	}
	expect("after the time is over")

	go send(frame)
	if came, err := wait(hangGuard); !came || err != nil {
		t.Fatalf("in time: %v, %v", came, err)
	}
	expect("in time")

	go send(frame[:3])
	if came, err := wait(hangGuard); !came || err != nil {
		t.Fatalf("a part: %v, %v", came, err)
	}
	if _, found := s.Next(); found != Partial {
		t.Fatalf("a part: %v", found)
	}
	time.AfterFunc(2*moment, func() { send(frame[3:]) })
	expect("in parts")

	_ = client.Close()
	if came, err := wait(hangGuard); came || !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v, %v", came, err)
	}
}

// Controls deals with control frames, and leaves the rest for Next.
func TestControls(t *testing.T) {
	ping, text := clientFrame(finBit|opPing, "p"), clientFrame(finBit|opText, "hello")
	closing := clientFrame(finBit|opClose, "\x03\xe8")
	for name, c := range map[string]struct {
		in     []byte
		ended  string
		inHand int
		sent   string
	}{
		"pings":                {in: slices.Concat(ping, ping), sent: "\x8a\x01p"},
		"a ping and a message": {in: slices.Concat(ping, text), inHand: len(text), sent: "\x8a\x01p"},
		"a message first":      {in: slices.Concat(text, ping), inHand: len(text) + len(ping)},
		"part of a ping":       {in: slices.Concat(ping, ping[:5]), inHand: 5, sent: "\x8a\x01p"},
		"a header's beginning": {in: ping[:1], inHand: 1},
		"a close frame":        {in: slices.Concat(ping, closing, text), ended: `wire: the client closed with 1000 ""`, inHand: len(text), sent: "\x8a\x01p\x88\x02\x03\xe8"},
		"a violation":          {in: clientFrame(opPing, ""), ended: "wire: closed with 1002: fragmented control frame", sent: "\x88"},
	} {
		s, nc := opened(0, c.in)
		if err := s.Await(); err != nil {
			t.Fatal(err)
		}
		err := s.Controls()
		if (err == nil) != (c.ended == "") || err != nil && err.Error() != c.ended {
			t.Errorf("%s: ended with %v, want %q", name, err, c.ended)
		}
		if n := s.to - s.from; c.ended == "" && n != c.inHand || s.InHand() != (n > 0) {
			t.Errorf("%s: %d bytes buffered, want %d", name, n, c.inHand)
		}
		s.flush()
		s.Close()
		eventually(t, name+": the answer and the end", func() bool {
			nc.mu.Lock()
			defer nc.mu.Unlock()
			return nc.closed && len(nc.written) >= len(c.sent) && string(nc.written[:len(c.sent)]) == c.sent
		})
	}
}
