package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// Whatever is in a frame, it is answered once, with the id where one can be
// found, and the connection goes on.
func TestBadJSON(t *testing.T) {
	t.Parallel()
	const (
		plain  = "ERROR INVALID_ARGUMENT"
		withID = "RPC_ERROR 1 INVALID_ARGUMENT"
		deep   = 20_000
	)
	meta := `"meta":{"correlationId":"1"}`
	type badFrame struct{ name, send, want string }
	cases := []badFrame{
		{"nothing", "", plain},
		{"white space", " \t\r\n", plain},
		{"NUL", "\x00", plain},
		{"byte order mark", "\uFEFF" + whole, plain},
		{"UTF-16", "{\x00}\x00", plain},
		{"a word", "hello", plain},
		{"half a word", "nul", plain},
		{"null", "null", plain},
		{"a number", "17", plain},
		{"a string", `"echo"`, plain},
		{"an array", `[{"type":"echo"}]`, plain},
		{"an empty object", `{}`, plain},
		{"an open object", `{`, plain},
		{"a closed nothing", `}`, plain},
		{"an open string", `{"type`, plain},
		{"an open type", `{"type":"ec`, plain},
		{"no colon", `{"type" "echo"}`, plain},
		{"no value", `{"type":}`, plain},
		{"no name", `{:"echo"}`, plain},
		{"a name that is no string", `{type:"echo"}`, plain},
		{"single quotes", `{'type':'echo'}`, plain},
		{"trailing comma", `{"type":"echo",` + meta + `,}`, withID},
		{"two commas", `{` + meta + `,,"type":"echo"}`, withID},
		{"a comment", `{` + meta + `,/**/"type":"echo"}`, withID},
		{"two objects", whole + whole, withID},
		{"junk behind", whole + "x", withID},
		{"NUL behind", whole + "\x00", withID},
		{"cut off", whole[:len(whole)-1], withID},
		{"cut off within the payload", whole[:len(whole)-5], withID},
		{"cut off within the id", `{"type":"echo","meta":{"correlationId":"1`, plain},
		{"duplicate type", `{"type":"echo","type":"other",` + meta + `}`, plain},
		{"duplicate type behind the id", `{` + meta + `,"type":"echo","type":"other"}`, withID},
		{"duplicate type by an escape", `{` + meta + `,"type":"echo","typ\u0065":"other"}`, withID},
		{"duplicate payload", `{"type":"echo",` + meta + `,"payload":{"text":"a"},"payload":{"text":"b"}}`, withID},
		{"duplicate name in the payload", `{"type":"echo",` + meta + `,"payload":{"text":"a","text":"b"}}`, withID},
		{"duplicate name in what is ignored", `{"type":"echo",` + meta + `,"x":{"a":1,"a":2}}`, withID},
		{"duplicate id", `{"type":"echo","meta":{"correlationId":"1","correlationId":"2"}}`, withID},
		{"no type", `{` + meta + `,"payload":{"text":"a"}}`, withID},
		{"null type", `{` + meta + `,"type":null}`, withID},
		{"number as type", `{"type":1,` + meta + `}`, withID},
		{"object as type", `{"type":{"type":"echo"},` + meta + `}`, withID},
		{"empty type", `{"type":"",` + meta + `}`, withID},
		{"type of another case", `{"Type":"echo",` + meta + `}`, withID},
		{"longest type", fmt.Sprintf(`{"type":%q,`+meta+`}`, strings.Repeat("t", 128)), "RPC_ERROR 1 UNIMPLEMENTED"},
		{"type too long", fmt.Sprintf(`{"type":%q,`+meta+`}`, strings.Repeat("t", 129)), withID},
		{"unknown type", `{"type":"unknown",` + meta + `}`, "RPC_ERROR 1 UNIMPLEMENTED"},
		{"unknown event", `{"type":"unknown"}`, "ERROR UNIMPLEMENTED"},
		{"type with NUL", `{"type":"echo\u0000",` + meta + `}`, "RPC_ERROR 1 UNIMPLEMENTED"},
		{"reserved type __", `{"type":"__x",` + meta + `}`, withID},
		{"reserved type $ws:", `{"type":"$ws:x",` + meta + `}`, withID},
		{"reserved type ERROR", `{"type":"ERROR",` + meta + `}`, withID},
		{"reserved type by an escape", `{"type":"\u005f_x",` + meta + `}`, withID},
		{"progress from a client", `{"type":"$ws:rpc-progress",` + meta + `}`, withID},
		{"abort without an id", `{"type":"$ws:abort"}`, plain},
		{"meta is an array", `{"type":"echo","meta":["1"],"payload":{"text":"a"}}`, plain},
		{"meta is a string", `{"type":"echo","meta":"1"}`, plain},
		{"meta is null", `{"type":"echo","meta":null,"payload":{"text":"a"}}`, plain},
		{"number as id", `{"type":"echo","meta":{"correlationId":1}}`, plain},
		{"object as id", `{"type":"echo","meta":{"correlationId":{"a":1}}}`, plain},
		{"empty id", `{"type":"echo","meta":{"correlationId":""}}`, plain},
		{"id too long", fmt.Sprintf(`{"type":"echo","meta":{"correlationId":%q}}`, strings.Repeat("i", 129)), "RPC_ERROR " + strings.Repeat("i", 129) + " INVALID_ARGUMENT"},
		{"negative timeout", `{"type":"echo","meta":{"correlationId":"1","timeoutMs":-1},"payload":{"text":"a"}}`, withID},
		{"string as timeout", `{"type":"echo","meta":{"correlationId":"1","timeoutMs":"9"},"payload":{"text":"a"}}`, withID},
		{"no payload", `{"type":"echo",` + meta + `}`, withID},
		{"null payload", `{"type":"echo",` + meta + `,"payload":null}`, withID},
		{"array as payload", `{"type":"echo",` + meta + `,"payload":[]}`, withID},
		{"string as payload", `{"type":"echo",` + meta + `,"payload":"a"}`, withID},
		{"number for a string", `{"type":"echo",` + meta + `,"payload":{"text":1}}`, withID},
		{"lone surrogate", `{"type":"echo",` + meta + `,"payload":{"text":"\ud800"}}`, withID},
		{"bad escape", `{"type":"echo",` + meta + `,"payload":{"text":"\x"}}`, withID},
		{"control character", `{"type":"echo",` + meta + `,"payload":{"text":"` + "\x01" + `"}}`, withID},
		{"leading zero", `{"type":"echo",` + meta + `,"payload":01}`, withID},
		{"NaN", `{"type":"echo",` + meta + `,"payload":NaN}`, withID},
		{"enormous number", `{"type":"number",` + meta + `,"payload":1e999999}`, withID},
		{"fraction for an integer", `{"type":"number",` + meta + `,"payload":1.5}`, withID},
		{"integer out of range", `{"type":"number",` + meta + `,"payload":9223372036854775808}`, withID},
		{"deeply nested", strings.Repeat("[", deep), plain},
		{"deeply nested objects", strings.Repeat(`{"a":`, deep), plain},
		{"deeply nested payload", `{` + meta + `,"type":"any","payload":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`, withID},
		{"deeply nested meta", `{"type":"any","meta":{"x":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}}`, plain},
	}
	s := serveSocket(t, router.Options{
		Limits:  router.Limits{MaxPayload: 256 << 10},
		OnError: func(f router.Fault) { t.Errorf("a bad frame is reported as a fault of the server: %+v", f) },
	}, func(r *router.Router) {
		router.RPC(r, "number", func(_ *router.Context, n int64) (int64, error) { return n, nil })
		router.RPC(r, "any", func(_ *router.Context, v any) (bool, error) { return v != nil, nil })
	})
	p := s.dial()
	for i, c := range cases {
		for _, b0 := range []byte{fin | opText, fin | opBinary} {
			after := fmt.Sprint("after", i)
			p.write(join(frame(b0, c.send), echo(after, "x")))
			if got := p.next(); got != c.want {
				t.Errorf("%s: got %.100q, want %q", c.name, got, c.want)
			}
			p.expect("reply " + after + " x")
		}
	}
	// All of them once more, in one write and in parts of a few bytes.
	var all []byte
	for _, c := range cases {
		all = append(all, textFrame(c.send)...)
	}
	next := make(chan struct{}, 2)
	go func() {
		_ = p.tryWrite(append(all, echo("all", "x")...))
		<-next // what is refused does not wait for what is handled
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1013)
			_ = p.tryWrite(rest[:n])
			rest = rest[n:]
		}
		_ = p.tryWrite(echo("parts", "x"))
	}()
	for _, end := range []string{"reply all x", "reply parts x"} {
		for _, c := range cases {
			if got := p.next(); got != c.want {
				t.Fatalf("%s, among others: got %.100q, want %q", c.name, got, c.want)
			}
		}
		p.expect(end)
		next <- struct{}{}
	}
	p.bye()
	s.recovered()
}

// What is unusual but right is served.
func TestUnusualJSON(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	p := s.dial()
	for _, send := range []string{
		" \t\r\n" + whole + " \t\r\n",
		`{"payload":{"text":"whole"},"meta":{"correlationId":"1"},"type":"echo"}`,
		`{"typ\u0065":"\u0065cho","m\u0065ta":{"correlation\u0049d":"\u0031"},"p\u0061yload":{"t\u0065xt":"whol\u0065"}}`,
		`{"type":"echo","meta":{"correlationId":"1","timestamp":1e300,"clientId":{},"receivedAt":[],"x":null},"payload":{"text":"whole","y":{}},"z":[[[]]]}`,
		`{"type":"echo","meta":{"correlationId":"1","timeoutMs":null,"idempotencyKey":null},"payload":{"text":"whole"}}`,
		`{"type":"echo","meta":{"correlationId":"1","timeoutMs":1e18},"payload":{"text":"whole"}}`,
		`{"type":"echo","":0,"meta":{"correlationId":"1"},"payload":{"text":"whole"}}`,
	} {
		p.write(textFrame(send))
		p.expect("reply 1 whole")
	}
	for _, id := range []string{`"a\u0000b"`, `"\ud83d\ude00"`, `"\"}],"`, `"` + strings.Repeat(`\u00e9`, 64) + `"`} {
		p.write(textFrame(`{"type":"echo","meta":{"correlationId":` + id + `},"payload":{"text":"whole"}}`))
		f, err := p.read()
		if want := `"correlationId":` + id + `}`; err != nil || !strings.Contains(string(f.payload), want) {
			t.Errorf("id %s: got %s, %v; want it back", id, f.payload, err)
		}
	}
	p.bye()
	s.recovered()
}
