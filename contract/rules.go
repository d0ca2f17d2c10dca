package contract

import (
	"reflect"
	"slices"
	"strings"
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
