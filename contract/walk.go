package contract

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/jsontype"
	"github.com/wskit/wskit/router"
)

// walker makes forms of Go types.
type walker struct {
	given  map[reflect.Type]Type
	defs   []*def
	byType map[defKey]*def
	faults []error

	route router.RouteInfo // of this payload
	what  string           // "the payload" and so on
	path  []string         // of this member
}

type defKey struct {
	t    reflect.Type
	mode mode
}

func newWalker(given map[reflect.Type]Type) *walker {
	return &walker{given: given, byType: make(map[defKey]*def)}
}

// top returns the form of a payload.
func (w *walker) top(i router.RouteInfo, what string, t reflect.Type, m mode, omissible bool) form {
	w.route, w.what, w.path = i, what, nil
	s := t
	for s.Kind() == reflect.Pointer {
		s = s.Elem()
	}
	m.checked = s.Kind() == reflect.Struct
	f := w.form(t, m, false)
	f.lenient, f.omissible = false, omissible
	if t.Kind() == reflect.Struct && t.NumField() == 0 {
		f.empty = true
	}
	return f
}

// fault records that the type cannot be described.
func (w *walker) fault(t reflect.Type, why string) form {
	at := ""
	if len(w.path) > 0 {
		at = strings.Join(w.path, ".") + " in "
	}
	w.faults = append(w.faults, fmt.Errorf("contract: %s%s of %q (%s): %v %s", at, w.what, w.route.Type, w.route.Place, t, why))
	return form{ts: "unknown"}
}

// within calls f for a part of this value.
func (w *walker) within(name string, f func()) {
	w.path = append(w.path, name)
	f()
	w.path = w.path[:len(w.path)-1]
}

func (m mode) use() jsontype.Use {
	if m.out {
		return jsontype.Encode
	}
	return jsontype.Decode
}

var anyJSON = map[reflect.Type]bool{
	reflect.TypeFor[jsontext.Value]():     true,
	reflect.TypeFor[stdjson.RawMessage](): true,
}

// opaque reports whether the form of a type does not depend on its parts, because it is
// described, or because its methods make it.
func (w *walker) opaque(t reflect.Type, m mode) bool {
	_, given := w.given[t]
	return given || anyJSON[t] || t == timeType || jsontype.Custom(t, m.use())
}

// form returns the form of a type. quoted says that its numbers are strings.
func (w *walker) form(t reflect.Type, m mode, quoted bool) form {
	if g, ok := w.given[t]; ok {
		f := form{schema: schema(g.Schema), ts: g.TypeScript, nilable: t.Kind() == reflect.Interface}
		f.lenient = !jsontype.Custom(t, m.use()) || jsontype.Text(t, m.use())
		if f.ts == "" {
			f.ts = "unknown"
		}
		return f
	}
	switch {
	case anyJSON[t]:
		return form{ts: "unknown", nilable: true}
	case t == timeType:
		return timeForm()
	case t == reflect.TypeFor[time.Duration]():
		return w.fault(t, "has no form in JSON")
	case jsontype.Text(t, m.use()):
		return form{schema: schema{"type": "string"}, ts: "string", lenient: true}
	case jsontype.Custom(t, m.use()):
		return w.fault(t, "has methods that make its JSON; describe it in Options.Types")
	}
	switch t.Kind() {
	case reflect.Pointer:
		f := w.form(t.Elem(), m, quoted)
		f.nilable = true
		return f
	case reflect.Interface:
		return form{ts: "unknown", nilable: true}
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		if t.Name() == "" {
			return w.composite(t, m)
		}
		return w.ref(t, m)
	}
	f := basic(t, quoted)
	f.lenient = true
	return f
}

// ref returns the form of a named type, as a reference to its definition.
func (w *walker) ref(t reflect.Type, m mode) form {
	if t.Kind() != reflect.Struct {
		m.checked = false // rules of elements belong to the field that says dive
	}
	d := w.byType[defKey{t, m}]
	if d == nil {
		d = &def{t: t, mode: m, id: len(w.defs)}
		w.defs, w.byType[defKey{t, m}] = append(w.defs, d), d
		d.form = w.composite(t, m)
	}
	return form{schema: schema{"$ref": d}, ts: d.tsRef(), lenient: true}
}

func (w *walker) composite(t reflect.Type, m mode) form {
	switch t.Kind() {
	case reflect.Struct:
		return w.object(t, m)
	case reflect.Map:
		return w.mapping(t, m, nil, nil)
	}
	return w.list(t, m, nil)
}

// list returns the form of a slice or an array whose elements have rules.
func (w *walker) list(t reflect.Type, m mode, rules []rule) form {
	n := -1
	if t.Kind() == reflect.Array {
		n = t.Len()
	}
	if e := t.Elem(); e.Kind() == reflect.Uint8 && e.PkgPath() == "" {
		return form{schema: schema{"type": "string", "contentEncoding": "base64", "pattern": base64Pattern(n)}, ts: "string", lenient: true}
	}
	var f form
	w.within("[]", func() { f = w.element(t.Elem(), m, rules) })
	s := schema{"type": "array"}
	if items := f.memberSchema(m); len(items) > 0 {
		s["items"] = items
	}
	if n >= 0 {
		s["minItems"], s["maxItems"] = n, n
	}
	ts := f.orNullTS()
	if strings.ContainsAny(ts, "|&") {
		ts = "(" + ts + ")"
	}
	return form{schema: s, ts: ts + "[]", lenient: true}
}

// element returns the form of an element of a list or a map.
func (w *walker) element(t reflect.Type, m mode, rules []rule) form {
	if rules == nil {
		m.checked = false
	}
	f, _ := w.ruled(t, m, rules, false)
	return f
}

// memberSchema is that of a value within another.
func (f form) memberSchema(m mode) schema {
	if f.nilable || f.lenient && !m.out {
		return orNull(f.schema)
	}
	return f.schema
}

// mapping returns the form of a map whose keys and elements have rules.
func (w *walker) mapping(t reflect.Type, m mode, keys, rules []rule) form {
	var f form
	w.within("[]", func() { f = w.element(t.Elem(), m, rules) })
	s := schema{"type": "object"}
	if elem := f.memberSchema(m); len(elem) > 0 {
		s["additionalProperties"] = elem
	}
	key := t.Key()
	for key.Kind() == reflect.Pointer {
		key = key.Elem()
	}
	if names := w.names(key, m, keys); len(names) > 0 {
		s["propertyNames"] = names
	}
	switch key.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if !m.out && !w.opaque(key, m) { // two names of one key
			s["not"] = schema{"required": []any{"0", "-0"}}
		}
	}
	return form{schema: s, ts: "{ [key: string]: " + f.orNullTS() + " }", lenient: true}
}

// names returns the schema of a map's keys.
func (w *walker) names(key reflect.Type, m mode, rules []rule) schema {
	var s schema
	if !w.opaque(key, m) && key.Kind() != reflect.String && key.Kind() != reflect.Interface {
		s = schema{"pattern": basic(key, true).schema["pattern"]}
	}
	if rules == nil {
		return s
	}
	f, _ := w.ruled(key, m, rules, true)
	r := maps.Clone(f.schema)
	if r["type"] == "string" {
		delete(r, "type")
	}
	return and(s, r)
}
