// Package jsontype lists the members of a struct in JSON, and says whether values of a Go type can
// be encoded as JSON and decoded from it, by the rules of the second version of encoding/json. The rules of struct tags
// are the library's own: the library decides.
package jsontype

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// Use is what is done with values of a type.
type Use uint8

const (
	Decode Use = iota
	Encode
)

// Check returns an error if values of t can never be decoded or encoded, or if parts of them
// are always lost. It names the part and says what to change.
func Check(t reflect.Type, use Use) error {
	return (&walk{use: use, seen: make(map[reflect.Type]bool)}).check(t, "")
}

// walk visits each type once: a type that refers to itself is no problem.
type walk struct {
	use  Use
	seen map[reflect.Type]bool
}

const methods = "give the type the methods MarshalText and UnmarshalText"

func (w *walk) check(t reflect.Type, path string) error {
	if w.seen[t] || w.custom(t) {
		return nil
	}
	w.seen[t] = true
	if t == reflect.TypeFor[time.Duration]() {
		return fault(t, path, "has no form in JSON; use a number of milliseconds (int64), or a type of your own with the methods MarshalText and UnmarshalText")
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fault(t, path, `has no form in JSON; leave the field out with the tag json:"-", or `+methods)
	case reflect.Pointer:
		return w.check(t.Elem(), path)
	case reflect.Slice, reflect.Array:
		return w.check(t.Elem(), path+"[]")
	case reflect.Map:
		if err := w.checkKey(t.Key(), path); err != nil {
			return err
		}
		return w.check(t.Elem(), path+"[]")
	case reflect.Interface:
		if w.use == Decode && t.NumMethod() > 0 {
			return fault(t, path, "is an interface with methods, and JSON does not say which type to decode into; use a type that is no interface, any, or jsontext.Value")
		}
	case reflect.Struct:
		return w.checkStruct(t, path)
	}
	return nil
}

// checkKey makes the library encode a map with such a key. Keys that it can encode by
// itself, it can decode.
func (w *walk) checkKey(key reflect.Type, path string) error {
	for key.Kind() == reflect.Pointer {
		key = key.Elem()
	}
	if w.custom(key) {
		return nil
	}
	if key.Kind() == reflect.Interface {
		return w.check(key, path+"[key]")
	}
	m := reflect.MakeMap(reflect.MapOf(key, reflect.TypeFor[bool]()))
	m.SetMapIndex(reflect.Zero(key), reflect.ValueOf(true))
	if _, err := json.Marshal(m.Interface()); err != nil {
		return fault(key, path, "is the key of a map, and names in JSON are strings; use a string or a number, or "+methods)
	}
	return nil
}

func (w *walk) checkStruct(t reflect.Type, path string) error {
	if err := w.checkTags(t); err != nil {
		return fault(t, path, "cannot be used: "+reason(err)+"; correct its fields or their tags")
	}
	fields, lost := Fields(t)
	if len(lost) > 0 {
		return fault(t, path, fmt.Sprintf(`has two fields with the JSON name %q, so that neither is used; rename one of them, or leave one out with the tag json:"-"`, lost[0]))
	}
	for _, f := range fields {
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		if f.sealed && w.use == Decode {
			return fault(f.Type, at, "is a field of an embedded pointer to a struct that is not exported, so it cannot be set; embed the struct itself, or export it")
		}
		if f.Quoted {
			if err := w.checkQuoted(f.Type); err != nil {
				return fault(f.Type, at, "cannot have the option string in its tag: "+reason(err)+"; remove the option")
			}
		}
		if err := w.check(f.Type, at); err != nil {
			return err
		}
	}
	return nil
}

// checkTags calls the library, which looks at the tags of a struct before its first member.
func (w *walk) checkTags(t reflect.Type) error {
	if w.use == Decode {
		return json.Unmarshal([]byte("{}"), reflect.New(t).Interface())
	}
	inside := false
	_, err := json.Marshal(reflect.New(t).Interface(), json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, _ any) error {
		if !inside {
			inside = true
			return errors.ErrUnsupported
		}
		return e.WriteToken(jsontext.Null) // a member's methods are not called
	})))
	return err
}

// checkQuoted finds out from the library whether a field of this type may have the option string.
func (w *walk) checkQuoted(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if w.custom(t) && t != reflect.TypeFor[time.Time]() {
		return nil // its methods would be called, and do with the option what they like
	}
	one := reflect.StructOf([]reflect.StructField{{Name: "F", Type: t, Tag: `json:"f,string"`}})
	return json.Unmarshal([]byte(`{"f":null}`), reflect.New(one).Interface())
}

var (
	marshalers = []reflect.Type{
		reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[json.Marshaler](),
		reflect.TypeFor[encoding.TextAppender](), reflect.TypeFor[encoding.TextMarshaler](),
	}
	unmarshalers = []reflect.Type{
		reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// custom reports whether a type does by itself what is to be done with it.
func (w *walk) custom(t reflect.Type) bool {
	return Custom(t, w.use)
}

// Custom reports whether methods of the type decode or encode its values.
func Custom(t reflect.Type, use Use) bool {
	if use == Decode {
		return implements(t, unmarshalers)
	}
	return implements(t, marshalers)
}

// Text reports whether these methods are those of package encoding, so that the values are
// strings.
func Text(t reflect.Type, use Use) bool {
	if use == Decode {
		return Custom(t, use) && !implements(t, unmarshalers[:2])
	}
	return Custom(t, use) && !implements(t, marshalers[:2])
}

// implements reports whether the library calls a method of the type, on a value or on a
// pointer to it. Of pointers and interfaces it looks at what they lead to.
func implements(t reflect.Type, interfaces []reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return false
	}
	for _, i := range interfaces {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

func fault(t reflect.Type, path, is string) error {
	if path == "" {
		return errors.New(fmt.Sprintf("%v %s", t, is))
	}
	return errors.New(fmt.Sprintf("%s: %v %s", path, t, is))
}

// reason is what the library says, without where.
func reason(err error) string {
	if s, ok := errors.AsType[*json.SemanticError](err); ok && s.Err != nil {
		err = s.Err
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
