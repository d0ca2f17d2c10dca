package flat

import (
	"encoding"
	"math"
	"math/bits"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type (
	chat struct {
		Room string `json:"room"`
		Text string `json:"text"`
	}
	word    string
	numbers struct {
		A int8   `json:"a"`
		B uint16 `json:"b"`
		C bool
		D int64
		E uint64
		F word   `json:"f"`
		g string // is not in JSON
		H string `json:"-"`
		I int32  `json:"x-1"`
	}
)

var structs = map[reflect.Type]*Struct{
	reflect.TypeFor[chat]():    Of(reflect.TypeFor[chat]()),
	reflect.TypeFor[numbers](): Of(reflect.TypeFor[numbers]()),
}

// usual are values of these types, in the shape that encoders make.
var usual = []string{
	`{}`, `{"room":"lobby"}`, `{"room":"lobby","text":"hello"}`, `{"text":"hello, world","room":""}`, `{"room":"ü","text":"日本語 text"}`,
	`{"a":-128,"b":65535,"C":true,"D":-999999999999999999,"E":0,"f":"w","x-1":12}`, `{"x-1":2147483647,"C":false,"a":1}`,
}

// unusual are nearly of that shape.
var unusual = []string{
	``, `{`, `{"room":`, `{"room":"a"`, `{"room":"a",}`, `{"room":"a" }`, `{"room": "a"}`, ` {}`, `{ }`, `[]`, `null`, `{"room":null}`, `{"room":1}`,
	`{"room":"a","room":"b"}`, `{"room":"a\n"}`, `{"room":"\u0061"}`, "{\"room\":\"\x00\"}", "{\"room\":\"\xff\"}", "{\"room\":\"a\x7f\"}", `{"ro\u006fm":"a"}`,
	`{"Room":"a"}`, `{"other":1}`, `{"room":"a","other":{}}`, `{"room":"a"}x`, `{"room":"a"}}`, `{"room":"a""text":"b"}`, `{"room":"a",,"text":"b"}`,
	`{"a":128}`, `{"a":-129}`, `{"a":-0}`, `{"a":01}`, `{"a":1.0}`, `{"a":1e1}`, `{"a":-}`, `{"a":}`, `{"a":"1"}`, `{"b":-1}`, `{"b":65536}`, `{"C":1}`,
	`{"C":truefalse}`, `{"D":9223372036854775807}`, `{"D":1000000000000000000}`, `{"E":18446744073709551615}`, `{"g":"a"}`, `{"H":"a"}`, `{"-":"a"}`,
}

func TestDecodesTheUsualShape(t *testing.T) {
	for _, text := range usual {
		decoded := false
		for typ, s := range structs {
			_, ok := s.Decode([]byte(text), reflect.New(typ).Elem())
			decoded = decoded || ok
		}
		if !decoded {
			t.Errorf("%s is left to package json", text)
		}
	}
}

func TestDecodeAgrees(t *testing.T) {
	for _, text := range append(usual, unusual...) {
		agrees(t, []byte(text))
	}
}

// What differs in one byte from the usual shape: one is cut off, taken out, replaced, or put in.
func TestDecodeAgreesOnNeighbours(t *testing.T) {
	const telling = "\"\\{}[],: \n019-.eEnut\x00\x1f\x7f\x80\xc3\xff"
	for _, text := range usual {
		for i := range len(text) {
			before, after := text[:i], text[i+1:]
			agrees(t, []byte(before))
			agrees(t, []byte(before+after))
			for j := range len(telling) {
				agrees(t, []byte(before+telling[j:j+1]+after))
				agrees(t, []byte(before+telling[j:j+1]+text[i:]))
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range append(usual, unusual...) {
		f.Add([]byte(text))
	}
	f.Fuzz(agrees)
}

// agrees compares what is decoded, where it ends, and how it is encoded, with package json.
func agrees(t *testing.T, text []byte) {
	text = text[:len(text):len(text)] // reading beyond it panics
	for typ, s := range structs {
		got, want := reflect.New(typ), reflect.New(typ)
		rest, ok := s.Decode(text, got.Elem())
		if !ok {
			continue
		}
		value := text[:len(text)-len(rest)]
		if err := json.Unmarshal(value, want.Interface()); err != nil {
			t.Fatalf("%v: %q is decoded as %+v; package json: %v", typ, text, got.Elem(), err)
		}
		if got.Elem().Interface() != want.Elem().Interface() {
			t.Fatalf("%v: %q is decoded as %+v, want %+v", typ, text, got.Elem(), want.Elem())
		}
		appends(t, got.Elem())
	}
}

func appends(t *testing.T, v reflect.Value) {
	want, wantErr := json.Marshal(v.Interface())
	got, ok := structs[v.Type()].Append([]byte("before"), v)
	if ok && (wantErr != nil || string(got) != "before"+string(want)) {
		t.Fatalf("%+v is encoded as %q, want %q, error %v", v, got, want, wantErr)
	}
	if !ok && wantErr == nil {
		t.Fatalf("%+v is left to package json", v)
	}
}

func TestAppendAgrees(t *testing.T) {
	for _, text := range []string{"", "a", "hello, world", `"`, `\`, "\x00", "\x1f", "\x7f", "ü", "日本語", "\u2028<&>", "\xff", "a\xc3", strings.Repeat("x", 100) + `"`} {
		appends(t, reflect.ValueOf(chat{Room: text, Text: "and " + text}))
	}
	for _, v := range []numbers{{}, {A: math.MinInt8, B: math.MaxUint16, C: true, D: math.MinInt64, E: math.MaxUint64, F: "w", g: "g", H: "h", I: math.MinInt32}} {
		appends(t, reflect.ValueOf(v))
	}
}

type (
	upper  string
	stamps struct{ A upper }
	object struct{ A string }
)

func (u upper) MarshalText() ([]byte, error)           { return []byte(strings.ToUpper(string(u))), nil }
func (o *object) UnmarshalJSON(b []byte) error         { return nil }
func (u *upper) UnmarshalText(text []byte) error       { *u = upper(text); return nil }
func (o object) MarshalJSONTo(*jsontext.Encoder) error { return nil }

var _ encoding.TextMarshaler = upper("")

func TestOtherTypesAreLeftToPackageJSON(t *testing.T) {
	type embedded struct{ chat }
	for _, v := range []any{
		"", 1, struct{}{}, embedded{}, stamps{}, object{}, &chat{},
		struct{ A *string }{}, struct{ A []byte }{}, struct{ A float64 }{}, struct{ A time.Duration }{}, struct{ A time.Time }{}, struct{ A any }{}, struct{ A chat }{},
		struct {
			A string `json:"a,omitempty"`
		}{},
		struct {
			A int `json:",string"`
		}{},
		struct {
			A string `json:"ü"`
		}{},
		struct {
			A string `json:"'a b'"`
		}{},
	} {
		if Of(reflect.TypeOf(v)) != nil {
			t.Errorf("%T counts as flat", v)
		}
	}
}

// special is right for every byte in every place, whatever stands beside it.
func TestSpecial(t *testing.T) {
	plain := func(c byte) bool { return c >= ' ' && c < 0x80 && c != '"' && c != '\\' }
	for _, beside := range []byte{'a', ' ', '!', '#', '[', ']', '~', 0x7f, '"', '\\', 0, 0x1f, 0x80, 0xff} {
		for c := range 256 {
			for place := range 8 {
				var x uint64
				want := 8
				for i := 7; i >= 0; i-- {
					b := beside
					if i == place {
						b = byte(c)
					}
					x = x<<8 | uint64(b)
					if !plain(b) {
						want = i
					}
				}
				if got := bits.TrailingZeros64(special(x)) / 8; got != want {
					t.Fatalf("the first special byte of %#016x is %d, want %d", x, got, want)
				}
			}
		}
	}
}
