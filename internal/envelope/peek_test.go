package envelope_test

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/envelope"
)

// found is an Envelope in text. Absent and empty payloads differ.
type found struct {
	typ, id, key string
	timeout      int64
	payload      string // "" : none
}

func peek(t testing.TB, p *envelope.Peeker, frame string) (found, error) {
	t.Helper()
	raw := []byte(frame)
	e, err := p.Peek(raw)
	if string(raw) != frame {
		t.Fatalf("Peek changed the frame %q to %q", frame, raw)
	}
	if e.Payload != nil && len(e.Payload) == 0 {
		t.Fatalf("frame %q: a payload of no bytes", frame)
	}
	return found{string(e.Type), string(e.CorrelationID), string(e.IdempotencyKey), e.TimeoutMs, string(e.Payload)}, err
}

// long is a JSON string of n bytes of text.
func long(n int) string { return `"` + strings.Repeat("x", n) + `"` }

var frames = []struct {
	name  string
	frame string
	err   error
	want  found // with an error: what is found all the same
}{
	// valid
	{"type alone", `{"type":"a"}`, nil, found{typ: "a"}},
	{"everything", `{"type":"chat.send","meta":{"timestamp":1795228211391,"correlationId":"02b7","timeoutMs":5000,"idempotencyKey":"k1"},"payload":{"room":"a","n":[1,2]}}`, nil,
		found{"chat.send", `"02b7"`, `"k1"`, 5000, `{"room":"a","n":[1,2]}`}},
	{"payload, meta, type", `{"payload":[1],"meta":{"correlationId":"c"},"type":"a"}`, nil, found{"a", `"c"`, "", 0, "[1]"}},
	{"unknown names", `{"x":{"type":"inner"},"type":"a","meta":{"x":{"correlationId":"inner"},"clientId":"me"}}`, nil, found{typ: "a"}},
	{"names differ in case", `{"Type":"b","type":"a","META":1,"Payload":2}`, nil, found{typ: "a"}},
	{"white space", " \t\r\n{ \"type\" :\t\"a\" ,\n\"payload\" : { \"b\" : 1 } , \"meta\" : { } } \r\n", nil, found{typ: "a", payload: `{ "b" : 1 }`}},
	{"unicode", `{"type":"räum😀","payload":"ü"}`, nil, found{typ: "räum😀", payload: `"ü"`}},
	{"payload null", `{"type":"a","payload":null}`, nil, found{typ: "a", payload: "null"}},
	{"payload string", `{"type":"a","payload":""}`, nil, found{typ: "a", payload: `""`}},
	{"payload huge number", `{"type":"a","payload":1e999999999}`, nil, found{typ: "a", payload: "1e999999999"}},
	{"payload long number", `{"type":"a","payload":` + strings.Repeat("9", 5000) + `}`, nil, found{typ: "a", payload: strings.Repeat("9", 5000)}},
	{"deep payload", `{"type":"a","payload":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`, nil,
		found{typ: "a", payload: strings.Repeat("[", 9999) + strings.Repeat("]", 9999)}},

	// escapes
	{"escaped type", `{"type":"ch\u0061t\/x\n"}`, nil, found{typ: "chat/x\n"}},
	{"escaped name of the type", `{"ty\u0070e":"a"}`, nil, found{typ: "a"}},
	{"escaped names", `{"\u0074ype":"a","m\u0065ta":{"correlation\u0049d":"c","timeout\u004ds":1},"\u0070ayload":7}`, nil, found{"a", `"c"`, "", 1, "7"}},
	{"escaped names after an escaped type", `{"type":"ch\u0061t","\u0078":1,"m\u0065ta":{"\u0079":2}}`, nil, found{typ: "chat"}},
	{"surrogate pair", `{"type":"\ud83d\ude00"}`, nil, found{typ: "😀"}},
	{"escaped NUL in the type", `{"type":"a\u0000b"}`, nil, found{typ: "a\x00b"}},
	{"escaped correlation id", `{"type":"a","meta":{"correlationId":"\u0061"}}`, nil, found{typ: "a", id: `"\u0061"`}},

	// not JSON
	{"empty", ``, envelope.ErrSyntax, found{}},
	{"white space only", " \n", envelope.ErrSyntax, found{}},
	{"text", `hello`, envelope.ErrSyntax, found{}},
	{"byte order mark", "\ufeff" + `{"type":"a"}`, envelope.ErrSyntax, found{}},
	{"NUL before", "\x00" + `{"type":"a"}`, envelope.ErrSyntax, found{}},
	{"NUL after", `{"type":"a"}` + "\x00", envelope.ErrSyntax, found{typ: "a"}},
	{"raw NUL in the type", "{\"type\":\"a\x00\"}", envelope.ErrSyntax, found{}},
	{"raw newline in the type", "{\"type\":\"a\n\"}", envelope.ErrSyntax, found{}},
	{"a second value", `{"type":"a"}{"type":"b"}`, envelope.ErrSyntax, found{typ: "a"}},
	{"a second value, spaced", `{"type":"a"} 1`, envelope.ErrSyntax, found{typ: "a"}},
	{"a closing bracket more", `{"type":"a"}}`, envelope.ErrSyntax, found{typ: "a"}},
	{"trailing comma", `{"type":"a",}`, envelope.ErrSyntax, found{typ: "a"}},
	{"trailing comma in meta", `{"type":"a","meta":{"x":1,}}`, envelope.ErrSyntax, found{typ: "a"}},
	{"no comma", `{"type":"a" "payload":1}`, envelope.ErrSyntax, found{typ: "a"}},
	{"no colon", `{"type" "a"}`, envelope.ErrSyntax, found{}},
	{"name is not a string", `{1:2,"type":"a"}`, envelope.ErrSyntax, found{}},
	{"single quotes", `{'type':'a'}`, envelope.ErrSyntax, found{}},
	{"comment", `{"type":"a"/**/}`, envelope.ErrSyntax, found{typ: "a"}},
	{"leading zero", `{"type":"a","payload":01}`, envelope.ErrSyntax, found{typ: "a", payload: "0"}},
	{"NaN", `{"type":"a","payload":NaN}`, envelope.ErrSyntax, found{typ: "a"}},
	{"capital True", `{"type":"a","payload":True}`, envelope.ErrSyntax, found{typ: "a"}},
	{"bad escape", `{"type":"\x"}`, envelope.ErrSyntax, found{}},
	{"lone high surrogate", `{"type":"\ud83d"}`, envelope.ErrSyntax, found{}},
	{"lone low surrogate", `{"type":"\ude00x"}`, envelope.ErrSyntax, found{}},
	{"surrogates swapped", `{"type":"\ude00\ud83d"}`, envelope.ErrSyntax, found{}},
	{"lone surrogate in the payload", `{"type":"a","payload":["\ud83d"]}`, envelope.ErrSyntax, found{typ: "a"}},
	{"lone surrogate in a name", `{"type":"a","\ud83d":1}`, envelope.ErrSyntax, found{typ: "a"}},
	{"invalid UTF-8 in the type", "{\"type\":\"a\xff\"}", envelope.ErrSyntax, found{}},
	{"invalid UTF-8 in a name", "{\"type\":\"a\",\"\xc3\x28\":1}", envelope.ErrSyntax, found{typ: "a"}},
	{"invalid UTF-8 in the payload", "{\"type\":\"a\",\"payload\":{\"x\":\"\xe2\x82\"}}", envelope.ErrSyntax, found{typ: "a"}},
	{"surrogate in UTF-8", "{\"type\":\"\xed\xa0\x80\"}", envelope.ErrSyntax, found{}},
	{"overlong UTF-8", "{\"type\":\"\xc0\xaf\"}", envelope.ErrSyntax, found{}},
	{"too deep", `{"type":"a","payload":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`, envelope.ErrSyntax, found{typ: "a"}},
	{"endlessly deep", `{"type":"a","x":` + strings.Repeat(`{"":`, 30000), envelope.ErrSyntax, found{typ: "a"}},

	// duplicate names: another parser could see the other one
	{"type twice", `{"type":"a","type":"b"}`, envelope.ErrSyntax, found{typ: "a"}},
	{"type twice, escaped", `{"type":"a","\u0074ype":"b"}`, envelope.ErrSyntax, found{typ: "a"}},
	{"type twice, both escaped", `{"typ\u0065":"a","\u0074ype":"b"}`, envelope.ErrSyntax, found{typ: "a"}},
	{"meta twice", `{"type":"a","meta":{"correlationId":"c"},"meta":{}}`, envelope.ErrSyntax, found{typ: "a", id: `"c"`}},
	{"payload twice", `{"type":"a","payload":1,"payload":2}`, envelope.ErrSyntax, found{typ: "a", payload: "1"}},
	{"correlation id twice", `{"type":"a","meta":{"correlationId":"c","correlation\u0049d":"d"}}`, envelope.ErrSyntax, found{typ: "a", id: `"c"`}},
	{"unknown name twice", `{"type":"a","x":1,"x":1}`, envelope.ErrSyntax, found{typ: "a"}},
	{"twice in the payload", `{"type":"a","payload":{"x":1,"\u0078":2}}`, envelope.ErrSyntax, found{typ: "a"}},
	{"twice in something unknown", `{"type":"a","x":[{"y":1,"y":2}]}`, envelope.ErrSyntax, found{typ: "a"}},

	// not an object
	{"null", `null`, envelope.ErrNotObject, found{}},
	{"array", `[{"type":"a"}]`, envelope.ErrNotObject, found{}},
	{"string", `"type"`, envelope.ErrNotObject, found{}},
	{"number", ` -0.5e3 `, envelope.ErrNotObject, found{}},
	{"two numbers", `1 2`, envelope.ErrSyntax, found{}},
	{"array that is not closed", `[1`, envelope.ErrSyntax, found{}},

	// type
	{"empty object", `{}`, envelope.ErrNoType, found{}},
	{"no type", `{"payload":1,"meta":{"correlationId":"c"}}`, envelope.ErrNoType, found{id: `"c"`, payload: "1"}},
	{"empty type", `{"type":"","meta":{"correlationId":"c"}}`, envelope.ErrNoType, found{id: `"c"`}},
	{"type null", `{"type":null,"meta":{"correlationId":"c"}}`, envelope.ErrTypeNotString, found{id: `"c"`}},
	{"type number", `{"type":1}`, envelope.ErrTypeNotString, found{}},
	{"type object", `{"type":{"type":"a"}}`, envelope.ErrTypeNotString, found{}},
	{"type of 128 bytes", `{"type":` + long(128) + `}`, nil, found{typ: strings.Repeat("x", 128)}},
	{"type of 129 bytes", `{"type":` + long(129) + `,"meta":{"correlationId":"c"}}`, envelope.ErrTypeTooLong, found{id: `"c"`}},
	{"type of 128 bytes in escapes", `{"type":"` + strings.Repeat(`\u0061`, 128) + `"}`, nil, found{typ: strings.Repeat("a", 128)}},
	{"type of 129 bytes in escapes", `{"type":"` + strings.Repeat(`\u0061`, 129) + `"}`, envelope.ErrTypeTooLong, found{}},
	{"type of 64 characters and 128 bytes", `{"type":"` + strings.Repeat("ä", 64) + `"}`, nil, found{typ: strings.Repeat("ä", 64)}},
	{"type of 65 characters and 130 bytes", `{"type":"` + strings.Repeat("ä", 65) + `"}`, envelope.ErrTypeTooLong, found{}},

	// meta
	{"meta empty", `{"type":"a","meta":{}}`, nil, found{typ: "a"}},
	{"meta null", `{"type":"a","meta":null}`, nil, found{typ: "a"}},
	{"meta array", `{"type":"a","meta":[]}`, envelope.ErrMetaNotObject, found{typ: "a"}},
	{"meta string", `{"meta":"{}","type":"a","payload":1}`, envelope.ErrMetaNotObject, found{typ: "a", payload: "1"}},
	{"meta number", `{"type":"a","meta":0}`, envelope.ErrMetaNotObject, found{typ: "a"}},
	{"meta false", `{"type":"a","meta":false}`, envelope.ErrMetaNotObject, found{typ: "a"}},
	{"the first violation counts", `{"type":1,"meta":[]}`, envelope.ErrTypeNotString, found{}},
	{"syntax counts above all", `{"type":1,"meta":[`, envelope.ErrSyntax, found{}},

	// correlation id
	{"correlation id null", `{"type":"a","meta":{"correlationId":null}}`, nil, found{typ: "a"}},
	{"correlation id empty", `{"type":"a","meta":{"correlationId":""}}`, nil, found{typ: "a"}},
	{"correlation id number", `{"type":"a","meta":{"correlationId":7}}`, envelope.ErrCorrelationID, found{typ: "a"}},
	{"correlation id object", `{"type":"a","meta":{"correlationId":{}}}`, envelope.ErrCorrelationID, found{typ: "a"}},
	{"correlation id of 128 bytes", `{"type":"a","meta":{"correlationId":` + long(128) + `}}`, nil, found{typ: "a", id: long(128)}},
	{"correlation id of 129 bytes", `{"type":"a","meta":{"correlationId":` + long(129) + `}}`, envelope.ErrCorrelationID, found{typ: "a", id: long(129)}},
	{"correlation id of 1024 bytes of JSON", `{"type":"a","meta":{"correlationId":` + long(1022) + `}}`, envelope.ErrCorrelationID, found{typ: "a", id: long(1022)}},
	{"correlation id of 1025 bytes of JSON", `{"type":"a","meta":{"correlationId":` + long(1023) + `}}`, envelope.ErrIDTooLong, found{typ: "a"}},
	{"correlation id of 128 bytes in escapes", `{"type":"a","meta":{"correlationId":"` + strings.Repeat(`\n`, 128) + `"}}`, nil,
		found{typ: "a", id: `"` + strings.Repeat(`\n`, 128) + `"`}},
	{"correlation id of 129 bytes in escapes", `{"type":"a","meta":{"correlationId":"` + strings.Repeat(`\n`, 129) + `"}}`, envelope.ErrCorrelationID, found{typ: "a", id: `"` + strings.Repeat(`\n`, 129) + `"`}},
	{"correlation id before a violation", `{"meta":{"correlationId":"c","timeoutMs":0},"type":"a"}`, envelope.ErrTimeout, found{typ: "a", id: `"c"`}},
	{"correlation id after a violation", `{"meta":{"timeoutMs":0,"correlationId":"c"},"type":"a"}`, envelope.ErrTimeout, found{typ: "a", id: `"c"`}},
	{"correlation id before a cut", `{"type":"a","meta":{"correlationId":"c"},"payload":"aaa`, envelope.ErrSyntax, found{typ: "a", id: `"c"`}},

	// idempotency key
	{"idempotency key null", `{"type":"a","meta":{"idempotencyKey":null}}`, nil, found{typ: "a"}},
	{"idempotency key empty", `{"type":"a","meta":{"idempotencyKey":""}}`, nil, found{typ: "a"}},
	{"idempotency key number", `{"type":"a","meta":{"idempotencyKey":7}}`, envelope.ErrIdempotencyKey, found{typ: "a"}},
	{"idempotency key of 129 bytes", `{"type":"a","meta":{"idempotencyKey":` + long(129) + `}}`, envelope.ErrIdempotencyKey, found{typ: "a"}},

	// timeout
	{"timeout null", `{"type":"a","meta":{"timeoutMs":null}}`, nil, found{typ: "a"}},
	{"timeout 1", `{"type":"a","meta":{"timeoutMs":1}}`, nil, found{typ: "a", timeout: 1}},
	{"timeout 0", `{"type":"a","meta":{"timeoutMs":0}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout -0", `{"type":"a","meta":{"timeoutMs":-0}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout -1", `{"type":"a","meta":{"timeoutMs":-1}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout -1e400", `{"type":"a","meta":{"timeoutMs":-1e400}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout 0.99", `{"type":"a","meta":{"timeoutMs":0.99}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout 1e-400", `{"type":"a","meta":{"timeoutMs":1e-400}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout 1.5", `{"type":"a","meta":{"timeoutMs":1.5}}`, nil, found{typ: "a", timeout: 1}},
	{"timeout 2.5e3", `{"type":"a","meta":{"timeoutMs":2.5e3}}`, nil, found{typ: "a", timeout: 2500}},
	{"timeout 1e400", `{"type":"a","meta":{"timeoutMs":1e400}}`, nil, found{typ: "a", timeout: math.MaxInt64}},
	{"timeout 2^63", `{"type":"a","meta":{"timeoutMs":9223372036854775808}}`, nil, found{typ: "a", timeout: math.MaxInt64}},
	{"timeout of 400 digits", `{"type":"a","meta":{"timeoutMs":` + strings.Repeat("9", 400) + `}}`, nil, found{typ: "a", timeout: math.MaxInt64}},
	{"timeout string", `{"type":"a","meta":{"timeoutMs":"x"}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout number in a string", `{"type":"a","meta":{"timeoutMs":"5"}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout true", `{"type":"a","meta":{"timeoutMs":true}}`, envelope.ErrTimeout, found{typ: "a"}},
	{"timeout array", `{"type":"a","meta":{"timeoutMs":[5]}}`, envelope.ErrTimeout, found{typ: "a"}},
}

func TestPeek(t *testing.T) {
	var reused envelope.Peeker
	for _, c := range frames {
		t.Run(c.name, func(t *testing.T) {
			for name, p := range map[string]*envelope.Peeker{"a new Peeker": new(envelope.Peeker), "a used Peeker": &reused} {
				got, err := peek(t, p, c.frame)
				if err != c.err {
					t.Errorf("%s: error %v, want %v", name, err, c.err)
				}
				if got != c.want {
					t.Errorf("%s finds\n%+v, want\n%+v", name, got, c.want)
				}
			}
		})
	}
}

// The table holds only what the reference decoder agrees with.
func TestPeekTableAgreesWithDecoder(t *testing.T) {
	for _, c := range frames {
		if want, ok := reference([]byte(c.frame)); ok != (c.err == nil) {
			t.Errorf("%s: error %v, the decoder accepts: %v", c.name, c.err, ok)
		} else if ok {
			agrees(t, c.frame, c.want, want)
		}
	}
}

// A frame that was cut anywhere is no frame, and nothing is read beyond the cut.
func TestPeekTruncated(t *testing.T) {
	const whole = `{"ty\u0070e":"ch\u0061t.ü","meta":{"timestamp":17.5e3,"correlationId":"c\n","timeoutMs":5000},"x":[null,true,{}],"payload":{"a":"b"}}`
	var p envelope.Peeker
	for n := range len(whole) {
		// Without room behind it, reading on would panic.
		cut := append(make([]byte, 0, n), whole[:n]...)
		if _, err := p.Peek(cut); err != envelope.ErrSyntax {
			t.Errorf("%q: error %v", cut, err)
		}
	}
	if _, err := p.Peek([]byte(whole)); err != nil {
		t.Errorf("the whole frame: %v", err)
	}
}

func TestPeekAllocatesNothing(t *testing.T) {
	for _, c := range []struct{ name, frame string }{
		{"event", `{"type":"chat.send","meta":{"timestamp":1795228211391},"payload":{"room":"a","text":"hi","tags":[1,2,{"x":null}]}}`},
		{"payload before meta", `{"payload":{"room":"a","text":"hi"},"meta":{"correlationId":"02b7","timeoutMs":5000,"idempotencyKey":"k"},"type":"room.join"}`},
		{"payload after meta", `{"type":"room.join","meta":{"correlationId":"02b7","timeoutMs":5000,"idempotencyKey":"k"},"payload":{"room":"a","text":"hi"}}`},
		{"no payload, spaced", " { \"type\" : \"__heartbeat\" } "},
		{"large payload", `{"type":"a","payload":"` + strings.Repeat("x", 60<<10) + `"}`},
		{"escapes in names", `{"ty\u0070e":"a","payload":"\u0061\n"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := []byte(c.frame)
			var p envelope.Peeker
			n := testing.AllocsPerRun(200, func() {
				if _, err := p.Peek(frame); err != nil {
					t.Error(err)
				}
			})
			if n != 0 {
				t.Errorf("%v allocations for a valid frame", n)
			}
		})
	}
}

// What a Peeker has found stays valid while it reads other things of the frame.
func TestPeekSlicesAreTheFrames(t *testing.T) {
	frame := []byte(`{"payload":{"a":1},"type":"chat.send","meta":{"idempotencyKey":"k","correlationId":"c"}}`)
	var p envelope.Peeker
	e, err := p.Peek(frame)
	if err != nil {
		t.Fatal(err)
	}
	for name, slice := range map[string][]byte{
		"Type": e.Type, "CorrelationID": e.CorrelationID, "IdempotencyKey": e.IdempotencyKey, "Payload": e.Payload,
	} {
		if !within(slice, frame) {
			t.Errorf("%s is a copy", name)
		}
	}
}

// within reports whether part lies within whole in memory.
func within(part, whole []byte) bool {
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return p >= w && p+uintptr(len(part)) <= w+uintptr(len(whole))
}

// decoded is what the full decoder sees in a frame.
type decoded struct {
	Type string `json:"type"`
	Meta *struct {
		CorrelationID  string         `json:"correlationId"`
		IdempotencyKey string         `json:"idempotencyKey"`
		TimeoutMs      jsontext.Value `json:"timeoutMs"`
	} `json:"meta"`
	Payload jsontext.Value `json:"payload"`

	timeout int64
}

// reference decodes a frame in full and checks the bounds of its fields. It
// shares nothing with Peek but the grammar of JSON.
func reference(frame []byte) (d decoded, ok bool) {
	if err := json.Unmarshal(frame, &d); err != nil {
		return d, false
	}
	if d.Type == "" || len(d.Type) > envelope.MaxTypeLength { // includes the frame null
		return d, false
	}
	if d.Meta == nil {
		return d, true
	}
	if len(d.Meta.CorrelationID) > envelope.MaxIDLength || len(d.Meta.IdempotencyKey) > envelope.MaxIDLength {
		return d, false
	}
	if d.Meta.TimeoutMs == nil || string(d.Meta.TimeoutMs) == "null" {
		return d, true
	}
	d.timeout, ok = wholeMs(string(d.Meta.TimeoutMs))
	return d, ok
}

// wholeMs is a number without its fraction, at most the largest int64; ok if it
// is at least 1.
func wholeMs(number string) (ms int64, ok bool) {
	if i, whole := new(big.Int).SetString(number, 10); whole {
		if !i.IsInt64() {
			return math.MaxInt64, i.Sign() > 0
		}
		return i.Int64(), i.Sign() > 0
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false // no number
	}
	if f >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(max(f, 0)), f >= 1
}

func agrees(t *testing.T, frame string, got found, want decoded) {
	t.Helper()
	if got.typ != want.Type {
		t.Errorf("frame %q: type %q, the decoder reads %q", frame, got.typ, want.Type)
	}
	if got.payload != string(want.Payload) {
		t.Errorf("frame %q: payload %q, the decoder reads %q", frame, got.payload, want.Payload)
	}
	var id, key string
	if want.Meta != nil {
		id, key = want.Meta.CorrelationID, want.Meta.IdempotencyKey
	}
	if text := textOf(t, got.id); text != id {
		t.Errorf("frame %q: correlation id %q, the decoder reads %q", frame, text, id)
	}
	if text := textOf(t, got.key); text != key {
		t.Errorf("frame %q: idempotency key %q, the decoder reads %q", frame, text, key)
	}
	if got.timeout != want.timeout {
		t.Errorf("frame %q: timeout %d, the decoder reads %d", frame, got.timeout, want.timeout)
	}
}

// textOf is the text of a JSON string; "" for none.
func textOf(t *testing.T, quoted string) (text string) {
	t.Helper()
	if quoted == "" {
		return ""
	}
	if quoted == `""` {
		t.Error(`the empty id is reported as "", not as none`)
	}
	if err := json.Unmarshal([]byte(quoted), &text); err != nil {
		t.Errorf("%q is not ready to be sent back: %v", quoted, err)
	}
	return text
}

// FuzzPeek holds Peek against the full decoder: a frame that one of them accepts
// and the other refuses, or in which they see different things, lets a client be
// limited as one type and handled as another.
func FuzzPeek(f *testing.F) {
	for _, c := range frames {
		if len(c.frame) < 8<<10 {
			f.Add([]byte(c.frame), []byte(`{"type":"before"}`))
		}
	}
	f.Add([]byte(`{"type":"a"}`), []byte(`{"type":"\u0061","meta":{"correlationId":"`))
	f.Fuzz(func(t *testing.T, frame, before []byte) {
		unchanged := bytes.Clone(frame)
		frame = frame[:len(frame):len(frame)]

		var p envelope.Peeker
		_, _ = p.Peek(before) // leaves nothing behind
		e, err := p.Peek(frame)

		if !bytes.Equal(frame, unchanged) {
			t.Fatalf("Peek changed the frame %q to %q", unchanged, frame)
		}
		for name, slice := range map[string][]byte{"CorrelationID": e.CorrelationID, "IdempotencyKey": e.IdempotencyKey, "Payload": e.Payload} {
			if slice != nil && !within(slice, frame) {
				t.Errorf("frame %q: %s lies outside", frame, name)
			}
		}
		if len(e.Type) > envelope.MaxTypeLength {
			t.Errorf("frame %q: a type of %d bytes", frame, len(e.Type))
		}
		if len(frame) > 4<<10 && err != nil && strings.Contains(err.Error(), "is neither in the first nor in the last KiB") {
			return // rules for large frames alone, which the decoder does not have
		}
		membersAgree(t, &p, frame)
		if err == envelope.ErrMembers {
			return // likewise
		}
		switch err {
		case nil, envelope.ErrSyntax, envelope.ErrNotObject, envelope.ErrNoType, envelope.ErrTypeNotString, envelope.ErrTypeTooLong,
			envelope.ErrMetaNotObject, envelope.ErrCorrelationID, envelope.ErrIDTooLong, envelope.ErrTimeout, envelope.ErrIdempotencyKey:
		default:
			t.Errorf("frame %q: %v is none of the package's errors", frame, err)
		}

		want, ok := reference(frame)
		if ok != (err == nil) {
			t.Fatalf("frame %q: Peek says %v, the decoder accepts: %v", frame, err, ok)
		}
		if ok {
			agrees(t, string(frame), found{string(e.Type), string(e.CorrelationID), string(e.IdempotencyKey), e.TimeoutMs, string(e.Payload)}, want)
		}
	})
}

func BenchmarkPeek(b *testing.B) {
	for _, c := range []struct{ name, frame string }{
		{"small", `{"type":"chat.send","meta":{"timestamp":1795228211391},"payload":{"room":"a","text":"hi"}}`},
		{"16KiB", `{"type":"chat.send","payload":{"text":"` + strings.Repeat("x", 16<<10) + `"}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			frame := []byte(c.frame)
			var p envelope.Peeker
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Peek(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
