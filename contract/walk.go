package contract

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
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

	route router.RouteInfo // of the payload at hand
	what  string           // "the payload" and so on
	path  []string         // of the member at hand
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

// within calls f for a part of the value at hand.
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
	f, zeroIsValid := w.ruled(key, m, rules, true)
	_ = zeroIsValid // a key is always there
	r := maps.Clone(f.schema)
	if r["type"] == "string" {
		delete(r, "type")
	}
	return and(s, r)
}

// object returns the form of a struct.
func (w *walker) object(t reflect.Type, m mode) form {
	fields, _ := jsontype.Fields(t)
	slices.SortStableFunc(fields, func(a, b jsontype.Field) int { return slices.Compare(indexes(a.Path), indexes(b.Path)) })
	if m.checked && !m.out {
		w.checkHidden(t, fields)
	}
	s := schema{"type": "object"}
	properties := schema{}
	var required []any
	var ts strings.Builder
	ts.WriteString("{")
	closed := m.strict
	groups := make(map[string]*embedded)
	var order []*embedded
	for _, f := range fields {
		field := f.Path[len(f.Path)-1]
		fm, optional := m, f.Omits
		var group *embedded
		for i, e := range f.Path[:len(f.Path)-1] {
			if skipsFields(e) {
				fm.checked = false
			}
			if e.Type.Kind() == reflect.Pointer {
				key := fmt.Sprint(indexes(f.Path[:i+1]))
				if group = groups[key]; group == nil {
					group = &embedded{}
					groups[key], order = group, append(order, group)
				}
				group.names = append(group.names, f.Name)
				optional = true
			}
		}
		rules := rulesOf(field, fm)
		if f.Name == "" { // the members that no other field has
			closed = false
			var v form
			if t := deref(f.Type); t.Kind() == reflect.Map {
				w.within("[]", func() { v = w.element(t.Elem(), fm, nil) })
				if e := v.memberSchema(m); len(e) > 0 {
					s["additionalProperties"] = e
				}
			}
			ts.WriteString("\n  [key: string]: unknown;")
			continue
		}
		var v form
		var zeroIsValid bool
		w.within(f.Name, func() {
			if skipsFields(field) {
				fm.checked = false
			}
			v, zeroIsValid = w.ruled(f.Type, fm, rules, f.Quoted)
		})
		if f.Omits {
			v.ts = strings.TrimSuffix(v.ts, orEmptyText)
		}
		null := v.nilable && zeroIsValid
		v.lenient = v.lenient && zeroIsValid
		if null && f.Type.Kind() == reflect.Pointer {
			optional = optional || !m.out
		}
		v.nilable = null && !(m.out && f.Omits)
		if !zeroIsValid {
			optional = optional && group != nil
		}
		properties[f.Name] = v.memberSchema(m)
		switch {
		case group != nil && !zeroIsValid && !m.out:
			group.required = append(group.required, f.Name)
		case group != nil:
		case m.out && !optional, !m.out && !zeroIsValid:
			required = append(required, f.Name)
		}
		mark := ""
		if optional {
			mark = "?"
		}
		fmt.Fprintf(&ts, "\n  %s%s: %s;", propertyName(f.Name), mark, v.orNullTS())
	}
	if ts.Len() > 1 {
		ts.WriteString("\n")
	}
	ts.WriteString("}")
	if len(properties) > 0 {
		s["properties"] = map[string]any(properties)
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if closed {
		s["additionalProperties"] = false
	}
	for _, g := range order {
		s = and(s, g.schema())
	}
	if len(properties) == 0 && !closed && s["additionalProperties"] == nil {
		return form{schema: s, ts: "{ [key: string]: unknown }", lenient: true}
	}
	return form{schema: s, ts: ts.String(), lenient: true}
}

// embedded has the members of an embedded pointer to a struct. If one of them comes, there is a
// struct, and its rules apply.
type embedded struct {
	names    []string
	required []any
}

func (e *embedded) schema() schema {
	if len(e.required) == 0 {
		return nil
	}
	absent := make([]any, len(e.names))
	for i, name := range e.names {
		absent[i] = schema{"required": []any{name}}
	}
	return either(schema{"not": schema{"anyOf": absent}}, schema{"required": e.required})
}

func indexes(path []reflect.StructField) (all []int) {
	for _, f := range path {
		all = append(all, f.Index...)
	}
	return all
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// checkHidden finds fields that have rules, which hold for all messages, and no name in JSON, so
// that they are always zero.
func (w *walker) checkHidden(t reflect.Type, fields []jsontype.Field) {
	inJSON := make(map[string]bool)
	for _, f := range fields {
		inJSON[fmt.Sprint(indexes(f.Path))] = true
	}
	var visit func(t reflect.Type, path []reflect.StructField)
	visit = func(t reflect.Type, path []reflect.StructField) {
		for f := range t.Fields() {
			at := append(slices.Clip(path), f)
			switch {
			case !f.IsExported() && !f.Anonymous, f.Tag.Get("validate") == "-", inJSON[fmt.Sprint(indexes(at))]:
			case f.Anonymous && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct:
				if !skipsFields(f) {
					visit(f.Type, at)
				}
			default:
				if !w.zeroIsValid(f) {
					w.within(f.Name, func() {
						w.fault(f.Type, "is not in JSON, but its rules refuse its zero value: no message can be valid; remove the rule or give the field a name of its own")
					})
				}
			}
		}
	}
	visit(t, nil)
}

// zeroIsValid reports whether the rules of a field accept its zero value.
func (w *walker) zeroIsValid(f reflect.StructField) bool {
	quiet := newWalker(w.given)
	_, ok := quiet.ruled(f.Type, mode{checked: true}, rulesOf(f, mode{checked: true}), false)
	return ok
}
