package frame

import (
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"testing"

	"github.com/wskit/wskit/router/internal/wire"
)

// Connections with compression and without get the same message, each in a frame that is made once; a small one is not
// compressed.
func TestAllGetTheSameMessage(t *testing.T) {
	for _, payload := range []string{`{"type":"a"}`, `{"type":"` + strings.Repeat("long ", wire.DeflateThreshold) + `"}`} {
		given := []byte(payload)
		s := Share(given)
		clear(given) // it is the caller's
		if got := string(s.Payload); got != payload {
			t.Errorf("the payload is %q", got)
		}
		plain, small := s.Frame(false), s.Frame(true)
		if got := wire.Payload(plain); string(got) != payload {
			t.Errorf("without compression: %q", got)
		}
		if long := len(payload) >= wire.DeflateThreshold; long == bytes.Equal(small, plain) {
			t.Errorf("%d bytes are compressed: %v", len(payload), !long)
		} else if long {
			// A frame of at most 125 bytes has a header of 2; the end of the message is left out (RFC 7692, 7.2.1).
			tail := strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")
			got, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(small[2:]), tail)))
			if err != nil || string(got) != payload {
				t.Errorf("with compression: %q, %v", got, err)
			}
		}
		if again := s.Frame(true); &again[0] != &small[0] {
			t.Error("the frame is made again")
		}
	}
}
