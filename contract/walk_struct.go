package contract

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/wskit/wskit/internal/jsontype"
)

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
			if field.Tag.Get("validate") == "-" {
				fm.checked = false
			}
			v, zeroIsValid = w.ruled(f.Type, fm, rules, f.Quoted)
		})
		if f.Omits {
			v.ts = strings.TrimSuffix(v.ts, orEmptyText)
		}
		if v.nilable && f.Type.Kind() == reflect.Pointer {
			optional = optional || !m.out
		}
		v.nilable = v.nilable && !(m.out && f.Omits)
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
	in := mode{checked: true}
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
				if !w.evaluation(f.Type, in, false).zeroIsValid(rulesOf(f, in)) {
					w.within(f.Name, func() {
						w.fault(f.Type, "is not in JSON, but its rules refuse its zero value: no message can be valid; remove the rule or give the field a name of its own")
					})
				}
			}
		}
	}
	visit(t, nil)
}
