package contract

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// form is the JSON of a Go type.
type form struct {
	schema schema // of values that are not null; empty: any value
	ts     string // the type in TypeScript; defs are between zero bytes, by number
	// nilable says that null is a value of the type, such as a nil pointer. Other types accept
	// null for their zero value when they are decoded, if lenient is true; then null is in the
	// schema, and not in TypeScript.
	nilable, lenient bool
	// omissible payloads may be left out. empty ones are those of struct{}.
	omissible, empty bool
}

// payloadSchema is that of a whole payload.
func (f form) payloadSchema() schema {
	if f.nilable || f.omissible {
		return orNull(f.schema)
	}
	return f.schema
}

// payloadTS is the type of a whole payload.
func (f form) payloadTS() string {
	switch {
	case f.empty:
		return "undefined"
	case f.omissible:
		return f.orNullTS() + " | undefined"
	}
	return f.orNullTS()
}

func (f form) orNullTS() string {
	if f.nilable && f.ts != "unknown" {
		return f.ts + " | null"
	}
	return f.ts
}

// mode says what a form is for: the same Go type has several.
type mode struct {
	out     bool // the server sends it
	strict  bool // the server refuses unknown members
	checked bool // the rules of validate tags apply
}

// suffix distinguishes the forms of one type.
func (m mode) suffix() string {
	s := ""
	if !m.out {
		s = "Input"
	}
	if m.strict {
		s += "Strict"
	}
	if !m.checked {
		s += "Unchecked"
	}
	return s
}

// def is a form of a named Go type.
type def struct {
	t    reflect.Type
	mode mode
	id   int
	form form
}

func (d *def) tsRef() string { return "\x00" + strconv.Itoa(d.id) + "\x00" }

// basic returns the form of a type without parts.
func basic(t reflect.Type, quoted bool) form {
	switch k := t.Kind(); k {
	case reflect.Bool:
		return form{schema: schema{"type": "boolean"}, ts: "boolean"}
	case reflect.String:
		return form{schema: schema{"type": "string"}, ts: "string"}
	case reflect.Float32, reflect.Float64:
		if quoted {
			return form{schema: schema{"type": "string", "pattern": `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`}, ts: "string"}
		}
		if k == reflect.Float32 {
			// The nearest float32 of a larger number is infinite.
			return form{schema: schema{"type": "number", "exclusiveMinimum": jsontext.Value("-" + float32Bound), "exclusiveMaximum": jsontext.Value(float32Bound)}, ts: "number"}
		}
		return form{schema: schema{"type": "number"}, ts: "number"}
	}
	lo, hi := bounds(t)
	if quoted {
		return form{schema: schema{"type": "string", "pattern": integers(lo, hi)}, ts: "string"}
	}
	return form{schema: schema{"type": "integer", "minimum": jsontext.Value(lo), "maximum": jsontext.Value(hi)}, ts: "number"}
}

// float32Bound is half a step above the largest float32: 2¹²⁸ - 2¹⁰³.
const float32Bound = "340282356779733661637539395458142568448"

// bounds returns the least and the largest value of an integer type, as text.
func bounds(t reflect.Type) (lo, hi string) {
	if k := t.Kind(); k >= reflect.Uint && k <= reflect.Uintptr {
		return "0", strconv.FormatUint(1<<t.Bits()-1, 10)
	}
	n := int64(1) << (t.Bits() - 1)
	return strconv.FormatInt(-n, 10), strconv.FormatInt(n-1, 10)
}

// integers returns a pattern of the integers from lo to hi in decimal, where lo is 0 or -hi-1. -0
// is one of them only if there are negative ones.
func integers(lo, hi string) string {
	if lo == "0" {
		return "^(" + upTo(hi) + ")$"
	}
	return "^(" + upTo(hi) + "|-(" + upTo(lo[1:]) + "))$"
}

// upTo returns the alternatives of a pattern for the integers from 0 to n.
func upTo(n string) string {
	all := []string{"0"}
	if len(n) > 1 {
		all = append(all, "[1-9]"+upToDigits(len(n)-2))
	}
	for i := range len(n) {
		least := byte('0')
		if i == 0 {
			least = '1'
		}
		if n[i] > least {
			all = append(all, n[:i]+span(least, n[i]-1)+digits(len(n)-i-1))
		}
	}
	return strings.Join(append(all, n), "|")
}

func span(a, b byte) string {
	if a == b {
		return string(a)
	}
	return fmt.Sprintf("[%c-%c]", a, b)
}

func digits(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[0-9]"
	}
	return fmt.Sprintf("[0-9]{%d}", n)
}

func upToDigits(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("[0-9]{0,%d}", n)
}

// base64Pattern accepts standard base64 of n bytes, and of any number of bytes if n is negative.
func base64Pattern(n int) string {
	const c = "[A-Za-z0-9+/]"
	if n < 0 {
		return "^(?:" + c + "{4})*(?:" + c + "{2}==|" + c + "{3}=)?$"
	}
	tail := [...]string{"", c + "{2}==", c + "{3}="}[n%3]
	return fmt.Sprintf("^%s{%d}%s$", c, n/3*4, tail)
}

var timeType = reflect.TypeFor[time.Time]()

// timeForm is that of time.Time: RFC 3339, with days that exist.
func timeForm() form {
	const (
		days = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))` +
			`|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`
		clock = `(?:[01][0-9]|2[0-3]):[0-5][0-9]`
	)
	return form{
		schema:  schema{"type": "string", "format": "date-time", "pattern": "^" + days + "T" + clock + `:[0-5][0-9](?:\.[0-9]+)?(?:Z|[-+]` + clock + ")$"},
		ts:      "string",
		lenient: true,
	}
}
