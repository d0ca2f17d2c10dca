package codec

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rules are the validate tags of a struct, as far as nearly all are: that a field is required, and how long a string
// or how large a whole number may be. Package validator, which has many more, takes for these ten times as long, so
// that it is called only for values that do not hold, for the error.
type rules []rule

type rule struct {
	index    int
	required bool
	min, max int64 // of a number, or of the characters of a string
}

// rulesOf returns nil if a struct has rules of other kinds, or none.
func rulesOf(t reflect.Type) rules {
	var all rules
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		tag := f.Tag.Get("validate")
		if tag == "" && !hasRules(f.Type, make(map[reflect.Type]bool)) {
			continue
		}
		r, ok := ruleOf(f.Type, tag)
		if !ok {
			return nil
		}
		r.index = f.Index[0]
		all = append(all, r)
	}
	return all
}

func ruleOf(t reflect.Type, tag string) (r rule, ok bool) {
	r = rule{min: math.MinInt64, max: math.MaxInt64}
	for part := range strings.SplitSeq(tag, ",") {
		name, limit, _ := strings.Cut(part, "=")
		if registered[name] {
			return r, false
		}
		n, err := strconv.ParseInt(limit, 10, 64)
		switch {
		case part == "required":
			r.required = true
		case err != nil || t.Kind() == reflect.Bool:
			return r, false
		case name == "min" || name == "gte":
			r.min = max(r.min, n)
		case name == "max" || name == "lte":
			r.max = min(r.max, n)
		default:
			return r, false
		}
	}
	return r, slices.Contains(ruledKinds, t.Kind())
}

var ruledKinds = []reflect.Kind{
	reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
}

// hold reports that a struct is valid. Otherwise it may be all the same.
func (all rules) hold(v reflect.Value) bool {
	for i := range all {
		r := &all[i]
		f := v.Field(r.index)
		var n int64
		switch f.Kind() {
		case reflect.String:
			s := f.String()
			if n = int64(len(s)); n > r.max || r.min > 1 { // there are no more characters than bytes
				n = int64(utf8.RuneCountInString(s))
			}
		case reflect.Bool:
			if !f.Bool() {
				return false
			}
			continue
		default:
			n = f.Int()
		}
		if r.required && n == 0 || n < r.min || n > r.max {
			return false
		}
	}
	return true
}
