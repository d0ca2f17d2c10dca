// Package flat decodes and encodes JSON of the shape that nearly all payloads have: an object of strings, whole
// numbers and booleans, without white space, as encoders write it.
//
//	{"room":"lobby","text":"hello","size":12}
//
// That takes a fraction of the time of reading tokens. Like the scanner of package envelope, it says only what
// package json would say, or that the value is of another shape: then nothing has been found out, and package json
// is to be asked. A test compares both.
package flat

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/jsontype"
)

// Struct is a struct of which all values are flat. Any goroutine may use it.
type Struct struct{ fields []field }

type field struct {
	index int
	kind  reflect.Kind // String, Bool, Int64 or Uint64, which stand for all sizes
	name  string       // quoted, with the colon
}

// maxFields is how many fields a mask has bits for.
const maxFields = 64

// Of returns nil if t is no struct whose fields are strings, whole numbers and booleans, with a name as their only
// option in JSON.
func Of(t reflect.Type) *Struct {
	if t.Kind() != reflect.Struct || custom(t) {
		return nil
	}
	all, lost := jsontype.Fields(t)
	if len(all) == 0 || len(all) > maxFields || len(lost) > 0 {
		return nil
	}
	s := &Struct{}
	for _, f := range all {
		kind := kindOf(f.Type)
		quoted := strconv.Quote(f.Name)
		own := f.Path[0]
		switch {
		case len(f.Path) > 1, own.Anonymous, strings.Contains(own.Tag.Get("json"), ","), kind == reflect.Invalid, custom(f.Type), f.Type == duration:
			return nil
		case quoted != `"`+f.Name+`"`, len(f.Name) == 0, !ascii(f.Name), strings.ContainsAny(f.Name, "'"):
			return nil // escaped, or quoted in the tag
		}
		s.fields = append(s.fields, field{own.Index[0], kind, quoted + ":"})
	}
	return s
}

// duration has a form of its own, or none.
var duration = reflect.TypeFor[time.Duration]()

func custom(t reflect.Type) bool {
	return jsontype.Custom(t, jsontype.Decode) || jsontype.Custom(t, jsontype.Encode)
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func kindOf(t reflect.Type) reflect.Kind {
	switch t.Kind() {
	case reflect.String, reflect.Bool:
		return t.Kind()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return reflect.Int64
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return reflect.Uint64
	}
	return reflect.Invalid
}

// Decode fills v, a zero struct that can be set, from an object at the beginning of b, and returns what follows
// that. With false b is of another shape, and v is not to be used.
func (s *Struct) Decode(b []byte, v reflect.Value) (rest []byte, ok bool) {
	r := reader{b: b}
	if !r.skip("{") {
		return nil, false
	}
	if r.skip("}") {
		return r.b, true
	}
	seen := uint64(0)
	for next := 0; ; next++ {
		i := s.find(&r, next)
		if i < 0 || seen&(1<<i) != 0 {
			return nil, false
		}
		seen |= 1 << i
		next = i
		if !r.value(&s.fields[i], v.Field(s.fields[i].index)) {
			return nil, false
		}
		if r.skip("}") {
			return r.b, true
		}
		if !r.skip(",") {
			return nil, false
		}
	}
}

// find reads a name and returns which field has it. Most objects have all of them, in order.
func (s *Struct) find(r *reader, next int) int {
	for range s.fields {
		if next >= len(s.fields) {
			next = 0
		}
		if r.skip(s.fields[next].name) {
			return next
		}
		next++
	}
	return -1
}

type reader struct{ b []byte }

func (r *reader) skip(what string) bool {
	if len(r.b) >= len(what) && string(r.b[:len(what)]) == what {
		r.b = r.b[len(what):]
		return true
	}
	return false
}

func (r *reader) value(f *field, v reflect.Value) bool {
	switch f.kind {
	case reflect.String:
		text, ok := r.text()
		if ok {
			v.SetString(string(text))
		}
		return ok
	case reflect.Bool:
		if r.skip("true") {
			v.SetBool(true)
			return true
		}
		return r.skip("false")
	case reflect.Int64:
		minus := r.skip("-")
		n, ok := r.digits()
		if minus {
			n = -n
		}
		if ok = ok && !v.OverflowInt(n); ok {
			v.SetInt(n)
		}
		return ok
	default:
		n, ok := r.digits()
		if ok = ok && !v.OverflowUint(uint64(n)); ok {
			v.SetUint(uint64(n))
		}
		return ok
	}
}

// text reads a string that has no escapes.
func (r *reader) text() (text []byte, ok bool) {
	if !r.skip(`"`) {
		return nil, false
	}
	ascii := Plain(r.b)
	n := ascii
	for n < len(r.b) && !ends(r.b[n]) {
		n++
	}
	text, r.b = r.b[:n], r.b[n:]
	return text, r.skip(`"`) && (n == ascii || utf8.Valid(text))
}

// maxDigits is how many digits an int64 holds whatever they are.
const maxDigits = 18

func (r *reader) digits() (n int64, ok bool) {
	i := 0
	for ; i < len(r.b) && i <= maxDigits && r.b[i]-'0' <= 9; i++ {
		n = n*10 + int64(r.b[i]-'0')
	}
	ok = i > 0 && i <= maxDigits && (i == 1 || r.b[0] != '0')
	r.b = r.b[i:]
	return n, ok
}

// Plain counts the bytes of b up to the first that is a quote, a backslash, a control character, or no ASCII.
func Plain(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		if found := special(binary.LittleEndian.Uint64(b[n:])); found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(b) && b[n] < utf8.RuneSelf && !ends(b[n]) {
		n++
	}
	return n
}

func ends(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// special marks in eight bytes those at which Plain ends. The lowest bit that is set belongs to the first of them;
// those above it may be wrong, because a subtraction carries out of the byte that it finds.
func special(x uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := x^('"'*ones), x^('\\'*ones) // 0 where there is one
	return ((quote - ones) | (backslash - ones) | (x - ' '*ones) | x) & high
}

// Append appends the JSON of a struct to b. With false nothing can be said, such as for text that is not UTF-8.
func (s *Struct) Append(b []byte, v reflect.Value) ([]byte, bool) {
	b = append(b, '{')
	for i := range s.fields {
		f := &s.fields[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, f.name...)
		value := v.Field(f.index)
		switch f.kind {
		case reflect.String:
			var err error
			if b, err = appendString(b, value.String()); err != nil {
				return nil, false
			}
		case reflect.Bool:
			b = strconv.AppendBool(b, value.Bool())
		case reflect.Int64:
			b = strconv.AppendInt(b, value.Int(), 10)
		default:
			b = strconv.AppendUint(b, value.Uint(), 10)
		}
	}
	return append(b, '}'), true
}

func appendString(b []byte, text string) ([]byte, error) {
	start := len(b)
	b = append(append(b, '"'), text...)
	if Plain(b[start+1:]) == len(text) {
		return append(b, '"'), nil
	}
	return jsontext.AppendQuote(b[:start], text)
}
