package contract

import (
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// ruled returns the form of a value with rules, and whether they accept its zero value, which it
// has where nothing or null comes.
func (w *walker) ruled(t reflect.Type, m mode, rules []rule, quoted bool) (f form, zeroIsValid bool) {
	e := w.evaluation(t, m, quoted)
	f = e.form(rules)
	if len(e.unmapped) > 0 {
		f.schema = and(f.schema, schema{"x-validate": strings.Join(e.unmapped, ",")})
	}
	zeroIsValid = e.zeroIsValid(rules)
	f.lenient = f.lenient && zeroIsValid
	f.nilable = (f.nilable || e.pointer) && zeroIsValid
	if t.Kind() == reflect.Interface && !zeroIsValid {
		f.schema = and(f.schema, schema{"not": schema{"type": "null"}})
	}
	return f, zeroIsValid
}

func (w *walker) evaluation(t reflect.Type, m mode, quoted bool) *evaluation {
	e := &evaluation{w: w, t: deref(t), m: m, quoted: quoted}
	e.pointer = t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
	e.kind = w.kindOf(e.t, m, quoted)
	return e
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
	for i, r := range rules {
		switch r.name {
		case "omitempty", "omitzero", "omitnil":
			if e.kind == structKind {
				plain.checked = false // a struct that is skipped
			}
			f := e.with(e.base(plain), rules[:i])
			if r.name == "omitnil" && !e.nilable() { // skips nothing
				return e.form(rules[i+1:]).and(f.schema)
			}
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
