package jsontype_test

import (
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/wskit/wskit/internal/jsontype"
)

type (
	tree struct {
		Name string `json:"name"`
		Kids []tree `json:"kids"`
	}
	list[T any] struct {
		Value T        `json:"value"`
		Next  *list[T] `json:"next"`
	}
	color struct{ R, G, B byte }
	hex   [2]byte
	named interface{ Name() string }

	hidden   struct{ a, b int }
	inner    struct{ A int }
	Inner    struct{ A int }
	Other    struct{ A int }
	outer    struct{ Inner }
	pointing struct{ *inner }
	pair     struct {
		Inner
		Other
	}
	shadowed struct {
		Hides
		C int
	}
	Hides       struct{ C chan int }
	tagShadowed struct {
		Names
		C int
	}
	Names struct {
		X chan int `json:"C"`
	}
	left struct {
		C chan int `json:"-"`
		F func()   `json:"-"`
		A int
	}
	rest struct {
		A    int
		More map[string]int `json:",embed"`
	}
	badRest struct {
		More map[string]chan int `json:",embed"`
	}
	onlyOut struct{ _ chan int }
	onlyIn  struct{ _ chan int }
	timed   struct {
		At   time.Time
		Took time.Duration
	}
	formatted struct {
		Took time.Duration `json:",format:milli"`
	}
	quotedNumber struct {
		N int64 `json:"n,string"`
	}
	deep struct {
		Items []map[string]*list[chan int] `json:"items"`
	}
)

// Structs that linters refuse.
var (
	twice = reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	unexportedTag = reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int]()},
		{Name: "b", PkgPath: "test", Type: reflect.TypeFor[int](), Tag: `json:"b"`},
	})
	quotedMap = reflect.StructOf([]reflect.StructField{
		{Name: "M", Type: reflect.TypeFor[map[string]int](), Tag: `json:"m,string"`},
	})
	mistyped = reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a,omitEmpty"`},
	})
)

func (c color) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d-%d-%d", c.R, c.G, c.B), nil }
func (c *color) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%d-%d-%d", &c.R, &c.G, &c.B)
	return err
}
func (onlyOut) MarshalJSON() ([]byte, error) { return []byte(`1`), nil }
func (*onlyIn) UnmarshalJSON([]byte) error   { return nil }

// A type is refused if and only if the library itself fails, with a value that has something
// in every part of it, and with its JSON.
func TestCheckAgreesWithTheLibrary(t *testing.T) {
	for _, tc := range []struct {
		value any
		json  string
	}{
		{1, `1`},
		{"a", `"a"`},
		{struct{}{}, `{}`},
		{[]byte("a"), `"YQ=="`},
		{tree{Kids: []tree{{}}}, `{"kids":[{"kids":[]}]}`},
		{&tree{}, `{}`},
		{list[int]{1, &list[int]{}}, `{"value":1,"next":{}}`},
		{list[color]{}, `{"value":"1-2-3"}`},
		{list[chan int]{Value: make(chan int)}, `{"value":1}`},
		{deep{Items: []map[string]*list[chan int]{{"a": {}}}}, `{"items":[{"a":{"value":1}}]}`},
		{color{1, 2, 3}, `"1-2-3"`},
		{hidden{1, 2}, `{}`},
		{outer{}, `{"A":1}`},
		{pointing{&inner{1}}, `{"A":1}`},
		{shadowed{}, `{"C":1}`},
		{tagShadowed{}, `{"C":1}`},
		{left{}, `{"A":1}`},
		{rest{More: map[string]int{"b": 1}}, `{"A":1,"b":2}`},
		{badRest{map[string]chan int{"a": nil}}, `{"a":1}`},
		{onlyOut{}, `{}`},
		{onlyIn{}, `{}`},
		{time.Time{}, `"2026-01-01T00:00:00Z"`},
		{time.Second, `1`},
		{timed{}, `{"Took":1}`},
		{formatted{time.Second}, `{"Took":1}`},
		{reflect.Zero(twice).Interface(), `{}`},
		{reflect.Zero(unexportedTag).Interface(), `{}`},
		{quotedNumber{1}, `{"n":"1"}`},
		{reflect.Zero(quotedMap).Interface(), `{"m":{"a":1}}`},
		{reflect.Zero(mistyped).Interface(), `{}`},
		{map[int]int{1: 1}, `{"1":1}`},
		{map[float64]int{1: 1}, `{"1":1}`},
		{map[bool]int{true: 1}, `{"true":1}`},
		{map[color]int{{}: 1}, `{"1-2-3":1}`},
		{map[hex]int{{}: 1}, `{"AAA=":1}`},
		{map[inner]int{{}: 1}, `{"a":1}`},
		{map[time.Duration]int{1: 1}, `{"1":1}`},
		{map[*int]int{new(int): 1}, `{"1":1}`},
		{map[any]int{"a": 1}, `{"a":1}`},
		{[]any{1}, `[1]`},
		{[]named{who("a")}, `[{}]`},
		{[]error{fmt.Errorf("a")}, `["a"]`},
		{complex(1, 1), `1`},
		{func() {}, `1`},
		{struct{ F func() }{func() {}}, `{"F":1}`},
		{uintptr(1), `1`},
		{jsontext.Value(`1`), `1`},
		{*big.NewInt(1), `1`},
		{netip.IPv6Loopback(), `"::1"`},
	} {
		typ := reflect.TypeOf(tc.value)
		_, encodes := json.Marshal(tc.value)
		if typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Interface {
			encodes = nil // depends on what it holds
		}
		compare(t, "encoding", typ, encodes, jsontype.Check(typ, jsontype.Encode))
		decodes := json.Unmarshal([]byte(tc.json), reflect.New(typ).Interface())
		compare(t, "decoding", typ, decodes, jsontype.Check(typ, jsontype.Decode))
	}
}

type who string

func (w who) Name() string { return string(w) }

func compare(t *testing.T, what string, typ reflect.Type, library, check error) {
	t.Helper()
	if (library == nil) != (check == nil) {
		t.Errorf("%s %v: the library says %v, Check says %v", what, typ, library, check)
	}
}

// Structs of random fields, tags and nesting: Check and the library agree on all.
func TestCheckAgreesWithTheLibraryOnRandomTypes(t *testing.T) {
	leaves := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[float64](), reflect.TypeFor[color](), reflect.TypeFor[time.Time](), reflect.TypeFor[any](),
		reflect.TypeFor[chan int](), reflect.TypeFor[complex64](), reflect.TypeFor[time.Duration](), reflect.TypeFor[hex](),
	}
	tags := []string{``, ``, ``, `json:"x"`, `json:"y"`, `json:"-"`, `json:",omitzero"`, `json:",string"`, `json:"z,format:hex"`}
	var draw func(*rapid.T, int) reflect.Type
	draw = func(rt *rapid.T, depth int) reflect.Type {
		switch kind := rapid.IntRange(0, 9).Draw(rt, "kind"); {
		case depth == 0 || kind < 4:
			// What cannot be encoded is rare enough for most types to be good.
			return leaves[min(rapid.IntRange(0, 60).Draw(rt, "leaf"), rapid.IntRange(0, len(leaves)-1).Draw(rt, "other"))]
		case kind == 4:
			return reflect.PointerTo(draw(rt, depth-1))
		case kind == 5:
			return reflect.SliceOf(draw(rt, depth-1))
		case kind == 6:
			if key := draw(rt, 0); key.Comparable() {
				return reflect.MapOf(key, draw(rt, depth-1))
			}
			fallthrough
		default:
			var fields []reflect.StructField
			for i := range rapid.IntRange(1, 3).Draw(rt, "fields") {
				fields = append(fields, reflect.StructField{
					Name: string(rune('A' + i)), Type: draw(rt, depth-1),
					Tag: reflect.StructTag(tags[rapid.IntRange(0, len(tags)-1).Draw(rt, "tag")]),
				})
			}
			return reflect.StructOf(fields)
		}
	}
	good := 0
	rapid.Check(t, func(rt *rapid.T) {
		typ := draw(rt, 3)
		v := reflect.New(typ)
		fill(v.Elem())
		b, encodes := json.Marshal(v.Interface())
		check := jsontype.Check(typ, jsontype.Encode)
		if (encodes == nil) != (check == nil) {
			rt.Fatalf("encoding %v: the library says %v, Check says %v", typ, encodes, check)
		}
		if encodes != nil {
			return
		}
		good++
		if err := json.Unmarshal(b, reflect.New(typ).Interface()); err != nil {
			rt.Fatalf("%v does not decode what it encodes: %v", typ, err)
		}
		if err := jsontype.Check(typ, jsontype.Decode); err != nil {
			rt.Fatalf("decoding %v: %v", typ, err)
		}
	})
	if good == 0 {
		t.Error("no type was good")
	}
}

// fill puts something into every part of a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf("a"))
	case reflect.String:
		v.SetString("a")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Complex64:
		v.SetComplex(1)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Chan:
		v.Set(reflect.MakeChan(v.Type(), 0))
	}
}

// The error names the part and what to change.
func TestErrorsSayWhatToChange(t *testing.T) {
	for _, tc := range []struct {
		typ  reflect.Type
		use  jsontype.Use
		says []string
	}{
		{reflect.TypeFor[deep](), jsontype.Encode, []string{"items[][].value: chan int", `json:"-"`}},
		{reflect.TypeFor[timed](), jsontype.Decode, []string{"Took: time.Duration", "milliseconds"}},
		{reflect.TypeFor[formatted](), jsontype.Decode, []string{"format"}},
		{reflect.TypeFor[map[inner]int](), jsontype.Encode, []string{"key of a map", "a string or a number"}},
		{reflect.TypeFor[named](), jsontype.Decode, []string{"interface with methods", "jsontext.Value"}},
		{twice, jsontype.Decode, []string{"A and B conflict", `"x"`}},
		{reflect.TypeFor[pair](), jsontype.Encode, []string{`two fields with the JSON name "A"`, "rename"}},
		{reflect.TypeFor[pair](), jsontype.Decode, []string{`two fields with the JSON name "A"`, "rename"}},
		{reflect.TypeFor[hidden](), jsontype.Encode, []string{"no exported fields"}},
		{reflect.TypeFor[pointing](), jsontype.Decode, []string{"embed the struct itself"}},
		{mistyped, jsontype.Encode, []string{"omitempty"}},
	} {
		err := jsontype.Check(tc.typ, tc.use)
		if err == nil {
			t.Errorf("%v: no error", tc.typ)
			continue
		}
		for _, s := range tc.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v: %q does not say %q", tc.typ, err, s)
			}
		}
	}
}

func TestOptional(t *testing.T) {
	type flags struct {
		A int  `json:"a,omitempty"`
		B *int `json:"b"`
	}
	for _, tc := range []struct {
		typ  reflect.Type
		want bool
	}{
		{reflect.TypeFor[struct{}](), true},
		{reflect.TypeFor[flags](), true},
		{reflect.TypeFor[struct {
			flags
			C int `json:",omitzero"`
		}](), true},
		{reflect.TypeFor[struct {
			flags
			C int
		}](), false},
		{reflect.TypeFor[inner](), false},
		{reflect.TypeFor[left](), false},
		{reflect.TypeFor[onlyIn](), false},
		{reflect.TypeFor[int](), false},
	} {
		if got := jsontype.Optional(tc.typ); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.typ, got, tc.want)
		}
	}
}
