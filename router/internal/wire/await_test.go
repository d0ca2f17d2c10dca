package wire

import (
	"slices"
	"testing"
)

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
