package contract

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// names returns the names of definitions. Several forms of a Go type have one name if they are
// the same, that is if what body returns is the same.
func (c *Contract) names(body func(d *def, name func(*def) string) string) func(*def) string {
	class := make(map[*def]string)
	for _, d := range c.defs {
		class[d] = fmt.Sprint(slices.IndexFunc(c.defs, func(o *def) bool { return o.t == d.t }))
	}
	for n := 0; ; {
		next, seen := make(map[*def]string), make(map[string]string)
		for _, d := range c.defs {
			key := class[d] + " " + body(d, func(o *def) string { return class[o] })
			if seen[key] == "" {
				seen[key] = fmt.Sprint(d.id)
			}
			next[d] = seen[key]
		}
		class = next
		if len(seen) == n {
			break
		}
		n = len(seen)
	}
	bases := baseNames(c.defs)
	ordered := slices.Clone(c.defs)
	slices.SortStableFunc(ordered, func(a, b *def) int { return cmp.Compare(a.mode.rank(), b.mode.rank()) })
	byClass, first, taken := make(map[string]string), make(map[reflect.Type]bool), make(map[string]bool)
	for _, base := range bases {
		taken[base] = true
	}
	for _, d := range ordered {
		if byClass[class[d]] != "" {
			continue
		}
		name := bases[d.t]
		if first[d.t] {
			for name += d.mode.suffix(); taken[name]; {
				name += "_"
			}
			taken[name] = true
		}
		byClass[class[d]], first[d.t] = name, true
	}
	return func(d *def) string { return byClass[class[d]] }
}

// rank puts the form first that has the name of the type.
func (m mode) rank() (n int) {
	for _, yes := range []bool{!m.checked, m.strict, !m.out} {
		n *= 2
		if yes {
			n++
		}
	}
	return n
}

// baseNames returns the names of Go types without their packages, and with them where several
// types would have the same name.
func baseNames(defs []*def) map[reflect.Type]string {
	var types []reflect.Type
	for _, d := range defs {
		if !slices.Contains(types, d.t) {
			types = append(types, d.t)
		}
	}
	names := make(map[reflect.Type]string)
	for _, qualify := range []func(reflect.Type) string{
		func(t reflect.Type) string { return identifier(t.Name(), false) },
		func(t reflect.Type) string { return lastOf(t.PkgPath(), 1) + identifier(t.Name(), false) },
		func(t reflect.Type) string { return lastOf(t.PkgPath(), 100) + identifier(t.Name(), true) },
	} {
		count := make(map[string]int)
		for _, name := range names {
			count[name]++
		}
		for _, t := range types {
			if names[t] == "" || count[names[t]] > 1 {
				names[t] = qualify(t)
			}
		}
	}
	// What is left are types of functions, in the order of the routes.
	taken := map[string]bool{"Contract": true}
	for _, t := range types {
		base := names[t]
		for n := 2; taken[names[t]]; n++ {
			names[t] = fmt.Sprint(base, n)
		}
		taken[names[t]] = true
	}
	return names
}

// identifier makes a name of that of a Go type: of Page[example.com/shop.Order] PageOrder.
func identifier(name string, qualified bool) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("[],* {};\"", r) }) {
		if i := strings.LastIndexByte(word, '/'); i >= 0 && !qualified {
			word = word[i+1:]
		}
		if i := strings.LastIndexByte(word, '.'); i >= 0 && !qualified {
			word = word[i+1:]
		}
		word, _, _ = strings.Cut(word, "·") // and a number: a type of a function
		b.WriteString(camel(word))
	}
	return b.String()
}

// lastOf makes a name of the last n parts of a package's path.
func lastOf(path string, n int) string {
	parts := strings.Split(path, "/")
	var b strings.Builder
	for _, p := range parts[max(0, len(parts)-n):] {
		b.WriteString(camel(strings.ReplaceAll(p, "_", "-")))
	}
	return b.String()
}

// camel makes one word of the letters and digits of s.
func camel(s string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
		r := []rune(word)
		b.WriteRune(unicode.ToUpper(r[0]))
		b.WriteString(string(r[1:]))
	}
	return b.String()
}
