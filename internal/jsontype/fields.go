package jsontype

import (
	"reflect"
	"slices"
	"strings"
)

// Field is a member of a struct's JSON object.
type Field struct {
	Name string // in JSON; empty for the map that takes the members no other field has
	Type reflect.Type
	// Path has the embedded structs that lead to the field, and the field itself at its end.
	Path   []reflect.StructField
	Omits  bool // the tag says omitempty or omitzero
	Quoted bool // the tag has the option string
	sealed bool // behind an embedded pointer that cannot be set
	tagged bool // the tag has the name
}

// optional fields may be left out of what is decoded.
func (f Field) optional() bool {
	return f.Omits || f.Name == "" || f.Type.Kind() == reflect.Pointer
}

// Optional reports whether an object may be decoded into t that has none of its members,
// because all are optional.
func Optional(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || implements(t, unmarshalers) {
		return false
	}
	fields, _ := Fields(t)
	return !slices.ContainsFunc(fields, func(f Field) bool { return !f.optional() })
}

// Fields lists the members of a struct, of embedded structs too: of several with one name
// the outermost, and of those the one whose tag has the name. Names for which that leaves
// more than one are lost.
func Fields(t reflect.Type) (fields []Field, lost []string) {
	type level struct {
		t        reflect.Type
		path     []reflect.StructField
		sealed   bool
		descends bool
	}
	seen := map[reflect.Type]bool{t: true}
	best := make(map[string][]Field)
	var names []string
	for queue := []level{{t: t, descends: true}}; len(queue) > 0; queue = queue[1:] {
		l := queue[0]
		for sf := range l.t.Fields() {
			tag, hasTag := sf.Tag.Lookup("json")
			if tag == "-" || !sf.IsExported() && !sf.Anonymous {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			path := append(slices.Clip(l.path), sf)
			f := Field{Name: sf.Name, Type: sf.Type, Path: path, sealed: l.sealed, tagged: hasTag && name != ""}
			if f.tagged {
				f.Name = name
			}
			has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
			f.Omits = has("omitempty") || has("omitzero")
			f.Quoted = has("string")
			inner, pointer := sf.Type, sf.Type.Kind() == reflect.Pointer
			if pointer {
				inner = inner.Elem()
			}
			switch {
			case has("embed") || sf.Anonymous && !f.tagged:
				if inner.Kind() != reflect.Struct {
					f.Name = ""
					break
				}
				if l.descends {
					queue = append(queue, level{inner, path, l.sealed || pointer && !sf.IsExported(), !seen[inner]})
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
		slices.SortStableFunc(all, func(a, b Field) int {
			if len(a.Path) != len(b.Path) {
				return len(a.Path) - len(b.Path)
			}
			if a.tagged == b.tagged {
				return 0
			} else if a.tagged {
				return -1
			}
			return 1
		})
		if len(all) > 1 && len(all[0].Path) == len(all[1].Path) && all[0].tagged == all[1].tagged {
			lost = append(lost, name)
			continue
		}
		fields = append(fields, all[0])
	}
	return fields, lost
}
