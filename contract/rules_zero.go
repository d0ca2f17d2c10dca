package contract

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/wskit/wskit/internal/jsontype"
)

// zeroIsValid reports whether rules accept the zero value: the value that there is where nothing
// or null comes. Rules without keywords count as accepting it.
func (e *evaluation) zeroIsValid(rules []rule) bool {
	if e.pointer {
		return len(rules) == 0 || slices.Contains([]string{"omitempty", "omitnil", "omitzero", "isdefault"}, rules[0].name)
	}
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
	return e.w.evaluation(e.t.Elem(), e.m, false).zeroIsValid(rules[i+1:])
}

func (e *evaluation) ruleAcceptsZero(r rule) bool {
	if len(r.or) > 0 {
		return slices.ContainsFunc(r.or, e.ruleAcceptsZero)
	}
	if r.name == "required" {
		return e.m.out && e.kind == timeKind // a zero time in a zone is not the zero value, and is sent like it
	}
	if r.name == "isdefault" {
		return true
	}
	if r.name == "unique" && e.t.Kind() == reflect.Array {
		return e.t.Len() < 2
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
		if !w.evaluation(f.Type, m, false).zeroIsValid(rulesOf(f, m)) {
			return false
		}
	}
	return true
}

// zeroStruct is a schema of the objects that decode into the zero value of a struct; nil: there is
// none.
func (w *walker) zeroStruct(t reflect.Type, m mode) schema {
	fields, _ := jsontype.Fields(t)
	properties := make(object)
	for _, f := range fields {
		behindPointer := slices.ContainsFunc(f.Path[:len(f.Path)-1], func(e reflect.StructField) bool { return e.Type.Kind() == reflect.Pointer })
		z := schema{"not": schema{}}
		if !behindPointer {
			z = w.zeroOrNull(f.Type, m, f.Quoted)
		}
		if z == nil || f.Name == "" {
			return nil
		}
		properties[f.Name] = z
	}
	return schema{"properties": properties}
}

// zeroOrNull is a schema of the JSON that decodes into the zero value of a type; nil: there is none.
func (w *walker) zeroOrNull(t reflect.Type, m mode, quoted bool) schema {
	null := schema{"type": "null"}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if w.opaque(t, m) {
			return nil
		}
		return null
	}
	z := w.zero(t, m, w.kindOf(t, m, quoted))
	if z == nil {
		return nil
	}
	return either(null, z)
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
		if !m.out { // null and what is nil are sent like what is empty
			return w.zeroStruct(t, m)
		}
	case listKind:
		if t.Kind() == reflect.Array && !m.out {
			if z := w.zeroOrNull(t.Elem(), m, false); z != nil {
				return schema{"items": z}
			}
		}
	}
	return nil
}
