package frame

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/wskit/wskit/router/internal/wire"
)

// Whatever a text has in it, it is a JSON string that decodes to it; what is not UTF-8 is replaced.
func TestTextsAreJSON(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "hello": "hello", "\"\\\n\x00": "\"\\\n\x00", "ü日😀": "ü日😀", "a\xffb": "a\uFFFDb", "</script>\u2028": "</script>\u2028",
	} {
		b := New()
		b.Text(in)
		var got string
		if err := json.Unmarshal(b.Bytes()[wire.HeaderRoom:], &got); err != nil || got != want {
			t.Errorf("%q is written as %s: %q, %v", in, b.Bytes()[wire.HeaderRoom:], got, err)
		}
		b.Free()
	}
}

// A failure names the correlation id if there is one, otherwise the type, as it was registered or sent.
func TestFailures(t *testing.T) {
	for want, m := range map[string]Failed{
		`{"type":"RPC_ERROR","meta":{"correlationId":"a"},"payload":{"code":1}}`: {Type: "chat", ID: []byte(`"a"`)},
		`{"type":"ERROR","payload":{"type":"chat","code":1}}`:                    {Type: "chat", Sent: []byte("Chat")},
		`{"type":"ERROR","payload":{"type":"no\"ne","code":1}}`:                  {Sent: []byte(`no"ne`)},
		`{"type":"ERROR","payload":{"code":1}}`:                                  {},
	} {
		b := New()
		b.Failure(m)
		b.WriteString(`"code":`)
		b.Int(1)
		b.WriteString("}}")
		if got := string(b.Bytes()[wire.HeaderRoom:]); got != want {
			t.Errorf("%+v: %s, want %s", m, got, want)
		}
		b.Free()
	}
}

// A buffer that is used again has room for a header, and nothing of what was in it.
func TestBuffersAreEmpty(t *testing.T) {
	for range 100 {
		b := New()
		if !bytes.Equal(b.Bytes(), make([]byte, wire.HeaderRoom)) {
			t.Fatalf("a new buffer has %q", b.Bytes())
		}
		b.WriteString("something")
		wire.PutHeader(b.Bytes(), false)
		b.Free()
	}
}
