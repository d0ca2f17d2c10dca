package load

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestAppendMaskedMatchesTheRFC(t *testing.T) {
	for _, tc := range []struct {
		size       int
		wantHeader []byte
	}{
		{0, []byte{0x81, 0x80}},
		{125, []byte{0x81, 0xfd}},
		{126, []byte{0x81, 0xfe, 0, 126}},
		{65535, []byte{0x81, 0xfe, 0xff, 0xff}},
		{65536, []byte{0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0}},
	} {
		payload := bytes.Repeat([]byte("abc"), tc.size/3+1)[:tc.size]
		got := appendMasked(nil, opText, payload)
		want := append(append([]byte(nil), tc.wantHeader...), maskKey[:]...)
		if !bytes.HasPrefix(got, want) {
			t.Errorf("%d bytes: header % x, want % x", tc.size, got[:min(len(got), 14)], want)
			continue
		}
		if body := unmask(got[len(want):]); !bytes.Equal(body, payload) {
			t.Errorf("%d bytes: the payload does not unmask to itself", tc.size)
		}
	}
}

func TestRingRunsAreContiguousAndDistinct(t *testing.T) {
	const n = 8
	ring := newRequestRing("chat.echo", n)
	for from := range 3 * n {
		seen := map[string]bool{}
		frames := ring.run(from, n)
		for i := range n {
			header := 2 + 2 + len(maskKey) // these requests are 126 bytes and more
			start, end := ring.starts[from%n+i]-ring.starts[from%n], ring.starts[from%n+i+1]-ring.starts[from%n]
			body := unmask(frames[start+header : end])
			var q struct {
				Type string
				Meta struct{ CorrelationID string }
			}
			if err := json.Unmarshal(body, &q); err != nil {
				t.Fatalf("run(%d): request %d: %v: %q", from, i, err, body)
			}
			if want := correlationID((from + i) % n); q.Type != "chat.echo" || q.Meta.CorrelationID != want {
				t.Fatalf("run(%d): request %d is %+v, want id %s", from, i, q, want)
			}
			seen[q.Meta.CorrelationID] = true
		}
		if len(seen) != n {
			t.Fatalf("run(%d): %d distinct ids, want %d", from, len(seen), n)
		}
	}
}

func unmask(masked []byte) []byte {
	out := make([]byte, len(masked))
	for i, b := range masked {
		out[i] = b ^ maskKey[i%4]
	}
	return out
}
