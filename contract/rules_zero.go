package contract

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/wskit/wskit/internal/jsontype"
)

// zeroIsValid reports whether rules accept the zero value of a type that is no pointer: the value
// that it has where nothing or null comes. Rules without keywords count as accepting it.
func (e *evaluation) zeroIsValid(rules []rule) bool {
	isNil := e.t.Kind() == reflect.Slice || e.t.Kind() == reflect.Map
	for _, r := range rules {
		switch r.name {
		case "omitempty", "omitzero":
			return true
		case "omitnil":
			if isNil {
				return true
			}
			continue
		case "dive":
			return e.t.Kind() != reflect.Array || e.t.Len() == 0 || e.elementZeroIsValid(rules)
		case "structonly", "nostructlevel":
			return true
		}
		if !e.ruleAcceptsZero(r) && !(e.m.out && isNil && r.name == "required") {
			return false
		}
	}
	return e.kind != structKind || !e.m.checked || e.w.structZeroIsValid(e.t, e.m)
}

func (e *evaluation) elementZeroIsValid(rules []rule) bool {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == "dive" })
	quiet := newWalker(e.w.given)
	_, ok := quiet.ruled(e.t.Elem(), e.m, rules[i+1:], false)
	return ok
}

func (e *evaluation) ruleAcceptsZero(r rule) bool {
	if len(r.or) > 0 {
		return slices.ContainsFunc(r.or, e.ruleAcceptsZero)
	}
	if r.name == "required" {
		return false
	}
	if r.name == "isdefault" {
		return true
	}
	s, ok := e.keywords(r)
	if !ok {
		return true
	}
	n, isNumber := e.limit(r.param)
	switch e.kind {
	case textKind:
		return acceptsEmptyText(s)
	case intKind, floatKind, listKind, mapKind:
		length := e.kind == listKind || e.kind == mapKind
		if !isNumber && r.name != "oneof" && r.name != "noneof" {
			return true
		}
		zero := 0.0
		if length && e.t.Kind() == reflect.Array {
			zero = float64(e.t.Len())
		}
		switch r.name {
		case "min", "gte":
			return zero >= n
		case "max", "lte":
			return zero <= n
		case "gt":
			return zero > n
		case "lt":
			return zero < n
		case "len", "eq":
			return zero == n
		case "ne":
			return zero != n
		case "oneof", "noneof":
			has := slices.ContainsFunc(e.listed(r.param), func(v any) bool { return union([]any{v}) == "0" })
			return has == (r.name == "oneof")
		}
	case boolKind:
		switch r.name {
		case "eq", "ne":
			b, _ := strconv.ParseBool(r.param)
			return b == (r.name == "ne")
		}
	}
	return true
}

func (e *evaluation) limit(param string) (float64, bool) {
	if e.kind == floatKind {
		n, err := strconv.ParseFloat(param, 64)
		return n, err == nil
	}
	if n, err := strconv.ParseInt(param, 0, 64); err == nil {
		return float64(n), true
	}
	n, err := strconv.ParseUint(param, 0, 64)
	return float64(n), err == nil
}

// structZeroIsValid reports whether a struct without any member is valid.
func (w *walker) structZeroIsValid(t reflect.Type, m mode) bool {
	for f := range t.Fields() {
		if !f.IsExported() && !f.Anonymous || f.Tag.Get("validate") == "-" {
			continue
		}
		fm := m
		fm.checked = !skipsFields(f)
		quiet := newWalker(w.given)
		if _, ok := quiet.ruled(f.Type, fm, rulesOf(f, m), false); !ok {
			return false
		}
	}
	return true
}

// zeroStruct is a schema of the objects that decode into the zero value of a struct.
func (w *walker) zeroStruct(t reflect.Type, m mode) schema {
	fields, _ := jsontype.Fields(t)
	properties := make(map[string]any)
	for _, f := range fields {
		behindPointer := slices.ContainsFunc(f.Path[:len(f.Path)-1], func(e reflect.StructField) bool { return e.Type.Kind() == reflect.Pointer })
		switch {
		case f.Name == "":
			return nil
		case behindPointer:
			properties[f.Name] = schema{"not": schema{}}
			continue
		}
		z := schema{"type": "null"}
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
			if w.opaque(f.Type, m) {
				return nil
			}
		default:
			k := w.kindOf(f.Type, m, f.Quoted)
			v := w.zero(f.Type, m, k)
			if k == opaqueKind || k == listKind || k == bytesKind || v == nil && k == structKind && f.Type.NumField() > 0 {
				return nil
			}
			z = either(z, v)
			if v == nil {
				z = nil
			}
		}
		if z != nil {
			properties[f.Name] = z
		}
	}
	return schema{"properties": properties}
}
