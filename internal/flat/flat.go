// Package flat decodes and encodes JSON of the shape that nearly all payloads have: an object of strings, whole
// numbers and booleans, without white space, as encoders write it.
//
//	{"room":"lobby","text":"hello","size":12}
//
// That takes a fraction of the time of reading tokens. Like the scanner of package envelope, it says only what
// package json would say, or that the value is of another shape: then nothing has been found out, and package json
// is to be used. A test compares both.
package flat

import (
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
	r := Reader{Bytes: b}
	if !r.Skip("{") {
		return nil, false
	}
	if r.Skip("}") {
		return b[r.At:], true
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
		if r.Skip("}") {
			return b[r.At:], true
		}
		if !r.Skip(",") {
			return nil, false
		}
	}
}

// find reads a name and returns which field has it. Most objects have all of them, in order.
func (s *Struct) find(r *Reader, next int) int {
	for range s.fields {
		if next >= len(s.fields) {
			next = 0
		}
		if r.Skip(s.fields[next].name) {
			return next
		}
		next++
	}
	return -1
}

// value reads the value of a field into v.
func (r *Reader) value(f *field, v reflect.Value) bool {
	switch f.kind {
	case reflect.String:
		text, ok := r.text()
		if ok {
			v.SetString(string(text))
		}
		return ok
	case reflect.Bool:
		if r.Skip("true") {
			v.SetBool(true)
			return true
		}
		return r.Skip("false")
	case reflect.Int64:
		minus := r.Skip("-")
		n, ok := r.Digits()
		if minus {
			n = -n
		}
		if ok = ok && !v.OverflowInt(n); ok {
			v.SetInt(n)
		}
		return ok
	default:
		n, ok := r.Digits()
		if ok = ok && !v.OverflowUint(uint64(n)); ok {
			v.SetUint(uint64(n))
		}
		return ok
	}
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
	if plain(b[start+1:]) == len(text) {
		return append(b, '"'), nil
	}
	return jsontext.AppendQuote(b[:start], text)
}
