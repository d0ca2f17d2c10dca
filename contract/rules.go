package contract

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rule is one rule of a validate tag, such as max=5, or several alternatives: rgb|rgba.
type rule struct {
	name, param string
	text        string // as in the tag
	or          []rule
}

// rulesOf parses the validate tag of a field; nil: it has none, or they do not apply.
func rulesOf(f reflect.StructField, m mode) []rule {
	tag := f.Tag.Get("validate")
	if !m.checked || tag == "" || tag == "-" {
		return nil
	}
	var rules []rule
	for text := range strings.SplitSeq(tag, ",") {
		all := strings.Split(text, "|")
		r := parseRule(text, all[0])
		if len(all) > 1 {
			for _, a := range all {
				r.or = append(r.or, parseRule(a, a))
			}
		}
		rules = append(rules, r)
	}
	return rules
}

func parseRule(text, one string) rule {
	name, param, _ := strings.Cut(one, "=")
	return rule{name: name, param: strings.NewReplacer("0x2C", ",", "0x7C", "|").Replace(param), text: text}
}

// skipsFields reports whether the rules of a struct's own fields do not apply where it is the
// type of this field.
func skipsFields(f reflect.StructField) bool {
	tags := strings.Split(f.Tag.Get("validate"), ",")
	return tags[0] == "-" || slices.Contains(tags, "nostructlevel") || slices.Contains(tags, "structonly")
}

// kinds of values, as rules see them
type kind uint8

const (
	opaqueKind kind = iota // rules have no keywords
	textKind
	intKind
	floatKind
	boolKind
	listKind
	mapKind
	structKind
	quotedKind // a number as a string
	timeKind
	bytesKind
)

type valuer interface{ ValidatorValue() any } // of package validator: rules see another value

func (w *walker) kindOf(t reflect.Type, m mode, quoted bool) kind {
	if v := reflect.TypeFor[valuer](); t.Implements(v) || reflect.PointerTo(t).Implements(v) {
		return opaqueKind
	}
	if _, given := w.given[t]; t == timeType && !given {
		return timeKind
	}
	if w.opaque(t, m) {
		return opaqueKind
	}
	switch t.Kind() {
	case reflect.String:
		return textKind
	case reflect.Bool:
		return boolKind
	case reflect.Float32: // rules see the rounded number
		return opaqueKind
	case reflect.Float64:
		if quoted {
			return opaqueKind
		}
		return floatKind
	case reflect.Slice, reflect.Array:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && e.PkgPath() == "" {
			return bytesKind
		}
		return listKind
	case reflect.Map:
		return mapKind
	case reflect.Struct:
		return structKind
	case reflect.Interface:
		return opaqueKind
	}
	if quoted {
		return quotedKind
	}
	return intKind
}

// ruled returns the form of a value with rules, and whether they accept its zero value, which it
// has where nothing or null comes.
func (w *walker) ruled(t reflect.Type, m mode, rules []rule, quoted bool) (f form, zeroIsValid bool) {
	e := evaluation{w: w, t: deref(t), m: m, quoted: quoted}
	pointer := t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
	e.pointer = pointer
	e.kind = w.kindOf(e.t, m, quoted)
	f = e.form(rules)
	if len(e.unmapped) > 0 {
		f.schema = and(f.schema, schema{"x-validate": strings.Join(e.unmapped, ",")})
	}
	if !pointer {
		return f, e.zeroIsValid(rules)
	}
	f.nilable = true
	return f, len(rules) == 0 || slices.Contains([]string{"omitempty", "omitnil", "omitzero", "isdefault"}, rules[0].name)
}

// evaluation makes the schema of a value's rules.
type evaluation struct {
	w        *walker
	t        reflect.Type
	m        mode
	kind     kind
	quoted   bool
	pointer  bool
	unmapped []string
}

// form returns the form of values that are not null.
func (e *evaluation) form(rules []rule) form {
	plain := e.m
	if e.kind == structKind && len(rules) > 0 && !e.m.checked {
		rules = nil
	}
	for i, r := range rules {
		switch r.name {
		case "omitempty", "omitzero", "omitnil":
			if e.kind == structKind {
				plain.checked = false // a struct that is skipped
			}
			f := e.with(e.base(plain), rules[:i])
			skipped := e.skipped(r.name)
			if skipped == nil && !e.nilable() {
				for _, r := range rules[i:] {
					e.unmapped = append(e.unmapped, r.text)
				}
				return f
			}
			rest := e.form(rules[i+1:])
			if skipped == nil {
				return rest.and(f.schema)
			}
			if e.kind == textKind && rest.ts != f.ts {
				rest.ts += orEmptyText
			}
			rest.schema = either(skipped, rest.schema)
			return rest.and(f.schema)
		case "dive":
			return e.with(e.dive(rules[i+1:]), rules[:i])
		case "structonly", "nostructlevel":
			plain.checked = false
			return e.with(e.base(plain), rules[:i])
		}
	}
	return e.with(e.base(plain), rules)
}

const orEmptyText = ` | ""`

// and returns the form of values that a schema accepts, too.
func (f form) and(s schema) form {
	f.schema = and(s, f.schema)
	return f
}

// nilable reports whether a rule like omitempty skips null and nothing else.
func (e *evaluation) nilable() bool {
	return e.pointer || e.t.Kind() == reflect.Slice || e.t.Kind() == reflect.Map
}

// base is the form without rules of the value itself.
func (e *evaluation) base(m mode) form {
	return e.w.form(e.t, m, e.quoted)
}

// with adds rules to a form.
func (e *evaluation) with(f form, rules []rule) form {
	for _, r := range rules {
		s, ok := e.keywords(r)
		if !ok {
			e.unmapped = append(e.unmapped, r.text)
			continue
		}
		f.schema = and(f.schema, s)
		if list, is := s["enum"].([]any); is && (r.name == "oneof") {
			f.ts = union(list)
		}
	}
	return f
}

func union(list []any) string {
	all := make([]string, len(list))
	for i, v := range list {
		b, _ := json.Marshal(v)
		all[i] = string(b)
	}
	return strings.Join(all, " | ")
}

// skipped is a schema of the values for which a rule like omitempty skips the rest; nil: none but
// null.
func (e *evaluation) skipped(name string) schema {
	empty := schema{"maxItems": 0}
	if e.kind == mapKind {
		empty = schema{"maxProperties": 0}
	}
	switch {
	case e.kind == listKind && e.t.Kind() == reflect.Slice, e.kind == mapKind:
		// What is nil is encoded as what is empty.
		if name == "omitzero" || e.m.out {
			return empty
		}
		return nil
	case name == "omitnil", name == "omitempty" && e.pointer:
		return nil
	}
	return e.zero()
}

// dive returns the form of a list or a map whose elements have rules.
func (e *evaluation) dive(rules []rule) form {
	var keys []rule
	if len(rules) > 0 && rules[0].name == "keys" {
		end := slices.IndexFunc(rules, func(r rule) bool { return r.name == "endkeys" })
		if end < 0 {
			end = len(rules)
		}
		keys, rules = rules[1:end], rules[min(end+1, len(rules)):]
	}
	if rules == nil {
		rules = []rule{}
	}
	switch e.kind {
	case listKind:
		return e.w.list(e.t, e.m, rules)
	case mapKind:
		return e.w.mapping(e.t, e.m, keys, rules)
	}
	e.unmapped = append(e.unmapped, "dive")
	return e.base(e.m)
}

// zero is a schema of the JSON of the zero value, without null.
func (e *evaluation) zero() schema { return e.w.zero(e.t, e.m, e.kind) }

func (w *walker) zero(t reflect.Type, m mode, k kind) schema {
	switch k {
	case textKind:
		return schema{"const": ""}
	case intKind, floatKind:
		return schema{"const": 0}
	case boolKind:
		return schema{"const": false}
	case quotedKind:
		return schema{"enum": []any{"0", "-0"}}
	case timeKind:
		return schema{"pattern": `^0001-01-01T00:00:00(\.0+)?Z$`}
	case structKind:
		if m.out || t.NumField() == 0 {
			break
		}
		return w.zeroStruct(t, m)
	}
	return nil
}

// keywords returns the schema of a rule for values that are not null. ok is false if no keywords
// mean the same.
func (e *evaluation) keywords(r rule) (s schema, ok bool) {
	if len(r.or) > 0 {
		var all []schema
		for _, a := range r.or {
			s, ok := e.keywords(a)
			if !ok {
				return nil, false
			}
			all = append(all, s)
		}
		return either(all...), true
	}
	switch r.name {
	case "required":
		return e.required()
	case "isdefault":
		if z := e.zero(); z != nil && !e.pointer {
			return z, true
		}
		return nil, false
	case "min", "gte", "max", "lte", "gt", "lt", "len", "eq", "ne":
		return e.compare(r.name, r.param)
	case "oneof", "noneof":
		list := e.listed(r.param)
		if list == nil {
			return nil, false
		}
		if r.name == "noneof" {
			return schema{"not": schema{"enum": list}}, true
		}
		return schema{"enum": list}, true
	case "unique":
		return e.unique(r.param)
	}
	if e.kind != textKind {
		return nil, false
	}
	return textRule(r.name, r.param)
}

func (e *evaluation) required() (schema, bool) {
	switch {
	case e.pointer, e.kind == listKind && e.t.Kind() == reflect.Slice, e.kind == mapKind, e.kind == bytesKind && e.t.Kind() == reflect.Slice:
		return nil, true // null is not accepted, see zeroIsValid
	case e.kind == textKind:
		return schema{"minLength": 1}, true
	case e.kind == boolKind:
		return schema{"const": true}, true
	}
	if z := e.zero(); z != nil {
		return schema{"not": z}, true
	}
	return nil, e.kind == structKind && e.m.out
}

// compare is for the rules that compare a number, or the length of something.
func (e *evaluation) compare(name, param string) (schema, bool) {
	if name == "eq" || name == "ne" {
		v, ok := e.constant(param)
		if !ok {
			return nil, false
		}
		if name == "ne" {
			return schema{"not": v}, true
		}
		return v, true
	}
	switch e.kind {
	case intKind, floatKind:
		if _, ok := e.number(param); !ok {
			return nil, false
		}
		n, _ := e.number(param)
		key := map[string]string{"min": "minimum", "gte": "minimum", "max": "maximum", "lte": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "len": "const"}[name]
		return schema{key: n}, true
	}
	least, most := "minLength", "maxLength"
	switch e.kind {
	case textKind:
	case listKind:
		least, most = "minItems", "maxItems"
	case mapKind:
		least, most = "minProperties", "maxProperties"
	default:
		return nil, false
	}
	n, err := strconv.ParseInt(param, 0, 64)
	if err != nil {
		return nil, false
	}
	switch name {
	case "gt":
		name, n = "min", n+1
	case "lt":
		name, n = "max", n-1
	}
	if n < 0 {
		if name == "min" || name == "gte" {
			return nil, true
		}
		return schema{"not": schema{}}, true
	}
	switch name {
	case "min", "gte":
		return schema{least: n}, true
	case "max", "lte":
		return schema{most: n}, true
	}
	return schema{least: n, most: n}, true
}

// number is the parameter of a rule for a number.
func (e *evaluation) number(param string) (jsontext.Value, bool) {
	if e.kind == floatKind {
		n, err := strconv.ParseFloat(param, 64)
		b, bad := json.Marshal(n)
		return b, err == nil && bad == nil
	}
	if e.t.Kind() >= reflect.Uint && e.t.Kind() <= reflect.Uintptr {
		n, err := strconv.ParseUint(param, 0, 64)
		return strconv.AppendUint(nil, n, 10), err == nil
	}
	n, err := strconv.ParseInt(param, 0, 64)
	return strconv.AppendInt(nil, n, 10), err == nil
}

// constant is a schema of the values that are equal to a parameter.
func (e *evaluation) constant(param string) (schema, bool) {
	switch e.kind {
	case textKind:
		return schema{"const": param}, true
	case intKind, floatKind:
		n, ok := e.number(param)
		return schema{"const": n}, ok
	case boolKind:
		b, err := strconv.ParseBool(param)
		return schema{"const": b}, err == nil
	case listKind, mapKind:
		return e.compare("len", param)
	}
	return nil, false
}

var words = regexp.MustCompile(`'[^']*'|\S+`)

// listed parses the parameter of oneof; nil: there are no keywords for it.
func (e *evaluation) listed(param string) (list []any) {
	for _, word := range words.FindAllString(param, -1) {
		word = strings.ReplaceAll(word, "'", "")
		var v any = word
		if e.kind == intKind {
			// Only a number's own decimal form is found.
			n := jsontext.Value(word)
			if i, err := strconv.ParseInt(word, 10, 64); (err != nil || strconv.FormatInt(i, 10) != word) && !isUint(word) {
				continue
			}
			v = n
		} else if e.kind != textKind {
			return nil
		}
		if !slices.ContainsFunc(list, func(o any) bool { return reflect.DeepEqual(o, v) }) {
			list = append(list, v)
		}
	}
	return list
}

func isUint(s string) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// unique: of elements that are equal in JSON if and only if they are equal in Go.
func (e *evaluation) unique(param string) (schema, bool) {
	if e.kind != listKind || param != "" {
		return nil, false
	}
	elem := e.t.Elem()
	k := e.w.kindOf(deref(elem), e.m, false)
	if k != textKind && k != intKind && k != floatKind && k != boolKind || elem.Kind() == reflect.Pointer && elem.Elem().Kind() == reflect.Pointer {
		return nil, false
	}
	s := schema{"uniqueItems": true}
	if e.m.out || elem.Kind() == reflect.Pointer {
		return s, true
	}
	// null is the zero value, too.
	zero := e.w.zero(elem, e.m, k)
	return schema{"uniqueItems": true, "not": schema{"allOf": []any{
		schema{"contains": schema{"type": "null"}}, schema{"contains": zero},
	}}}, true
}
