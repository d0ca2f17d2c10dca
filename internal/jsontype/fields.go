package jsontype

import (
	"reflect"
	"slices"
	"strings"
)

// field is a member of a struct's JSON object.
type field struct {
	Name string // in JSON; empty for the map that takes the members no other field has
	Type reflect.Type
	// optional fields may be left out: they are pointers, or their tag says omitempty or
	// omitzero.
	optional bool
	quoted   bool // the tag has the option string
	sealed   bool // behind an embedded pointer that cannot be set
	tagged   bool // the tag has the name
	depth    int
}

// Optional reports whether an object may be decoded into t that has none of its members,
// because all are optional.
func Optional(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || implements(t, unmarshalers) {
		return false
	}
	fields, _ := fieldsOf(t)
	return !slices.ContainsFunc(fields, func(f field) bool { return !f.optional })
}

// fieldsOf lists the members of a struct, of embedded structs too: of several with one name
// the outermost, and of those the one whose tag has the name. Names for which that leaves
// more than one are lost.
func fieldsOf(t reflect.Type) (fields []field, lost []string) {
	type level struct {
		t        reflect.Type
		depth    int
		sealed   bool
		descends bool
	}
	seen := map[reflect.Type]bool{t: true}
	best := make(map[string][]field)
	var names []string
	for queue := []level{{t: t, descends: true}}; len(queue) > 0; queue = queue[1:] {
		l := queue[0]
		for sf := range l.t.Fields() {
			tag, hasTag := sf.Tag.Lookup("json")
			if tag == "-" || !sf.IsExported() && !sf.Anonymous {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			f := field{Name: sf.Name, Type: sf.Type, depth: l.depth, sealed: l.sealed, tagged: hasTag && name != ""}
			if f.tagged {
				f.Name = name
			}
			has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
			f.optional = has("omitempty") || has("omitzero") || sf.Type.Kind() == reflect.Pointer
			f.quoted = has("string")
			inner, pointer := sf.Type, sf.Type.Kind() == reflect.Pointer
			if pointer {
				inner = inner.Elem()
			}
			switch {
			case has("embed") || sf.Anonymous && !f.tagged:
				if inner.Kind() != reflect.Struct {
					f.Name, f.optional = "", true
					break
				}
				if l.descends {
					queue = append(queue, level{inner, l.depth + 1, l.sealed || pointer && !sf.IsExported(), !seen[inner]})
				}
				seen[inner] = true
				continue
			}
			if len(best[f.Name]) == 0 {
				names = append(names, f.Name)
			}
			best[f.Name] = append(best[f.Name], f)
		}
	}
	for _, name := range names {
		all := best[name]
		slices.SortStableFunc(all, func(a, b field) int {
			if a.depth != b.depth {
				return a.depth - b.depth
			}
			if a.tagged == b.tagged {
				return 0
			} else if a.tagged {
				return -1
			}
			return 1
		})
		if len(all) > 1 && all[0].depth == all[1].depth && all[0].tagged == all[1].tagged {
			lost = append(lost, name)
			continue
		}
		fields = append(fields, all[0])
	}
	return fields, lost
}
