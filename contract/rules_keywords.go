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
	if e.m.out && (e.kind == structKind || e.kind == listKind || e.kind == timeKind) {
		return nil, true
	}
	if z := e.zero(); z != nil {
		return schema{"not": z}, true
	}
	return nil, false
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
