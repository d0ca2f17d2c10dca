package contract_test

import (
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/router"
)

// A route of the server under test, with a Go type of its own.
type route struct {
	name     string
	of       reflect.Type
	register func(*router.Router)
	strict   bool
}

func on[T any](name string, opts ...router.RouteOptions) route {
	return route{name: name, of: reflect.TypeFor[T](), strict: len(opts) > 0 && opts[0].Strict, register: func(r *router.Router) {
		router.RPC(r, name, func(_ *router.Context, v T) (T, error) { return v, nil }, opts...)
	}}
}

var strict = router.RouteOptions{Strict: true}

type (
	base struct {
		ID   string `json:"id" validate:"required,max=3"`
		Note string `json:"note" validate:"max=2"`
	}
	Base  base
	Inner struct {
		N int    `json:"n" validate:"gte=2"`
		S string `json:"s"`
	}
	Easy struct {
		N int     `json:"n" validate:"lte=2"`
		P *string `json:"p"`
		L []int   `json:"l"`
	}
	Tree struct {
		V    int     `json:"v" validate:"max=9"`
		Kids []Tree  `json:"kids" validate:"max=2,dive"`
		Next *Tree   `json:"next"`
		Free []*Tree `json:"free"`
	}
	Text  string
	Upper string
	Octet byte
	Words []string
)

func (u *Upper) UnmarshalText(b []byte) error { *u = Upper(b); return nil }
func (u Upper) MarshalText() ([]byte, error)  { return []byte(u), nil }

// routes are the types of this file and random ones.
var routes = append(written, random...)

// The types whose schema is compared with the server. Each mapped rule is in at least one of
// them, for each kind of value that has keywords for it.
var written = []route{
	// kinds
	on[struct{ A string }]("text"),
	on[struct{ A bool }]("boolean"),
	on[struct{ A int8 }]("int8"),
	on[struct{ A uint16 }]("uint16"),
	on[struct{ A int64 }]("int64"),
	on[struct{ A uint64 }]("uint64"),
	on[struct{ A float64 }]("float64"),
	on[struct{ A float32 }]("float32"),
	on[struct {
		A int8 `json:",string"`
	}]("quoted int8"),
	on[struct {
		A uint32 `json:",string"`
	}]("quoted uint32"),
	on[struct {
		A int64 `json:",string"`
	}]("quoted int64"),
	on[struct {
		A uint64 `json:",string"`
	}]("quoted uint64"),
	on[struct {
		A float64 `json:",string"`
	}]("quoted float64"),
	on[struct {
		A *int16 `json:",string"`
	}]("quoted pointer"),
	on[struct{ A time.Time }]("time"),
	on[struct{ A []byte }]("bytes"),
	on[struct{ A [4]byte }]("byte array"),
	on[struct{ A [2]byte }]("small byte array"),
	on[struct{ A []Octet }]("named bytes"),
	on[struct{ A []int }]("list"),
	on[struct{ A [2]string }]("array"),
	on[struct{ A map[string]int }]("map"),
	on[struct{ A map[int8]string }]("map of int8"),
	on[struct{ A map[uint16]bool }]("map of uint16"),
	on[struct{ A *string }]("pointer"),
	on[struct{ A **int }]("pointer to a pointer"),
	on[struct{ A any }]("any"),
	on[struct{ A jsontext.Value }]("raw"),
	on[struct{ A Upper }]("text methods"),
	on[struct {
		A Words
		B Text
	}]("named types"),
	on[struct{ A Inner }]("a struct, with rules"),
	on[struct{ A []Inner }]("a list without dive"),
	on[struct{ A *Inner }]("a pointer to a struct"),
	on[Tree]("recursion"),
	on[struct {
		Base
		N int
	}]("embedded"),
	on[struct {
		base
		N int
	}]("embedded, not exported"),
	on[struct {
		*Base
		N int `validate:"required"`
	}]("embedded pointer"),
	on[struct {
		Base `validate:"-"`
	}]("embedded without its rules"),
	on[struct {
		Base `json:"b"`
	}]("embedded with a name"),
	on[struct {
		A    int
		More map[string]int `json:",embed"`
	}]("members without a field"),
	on[struct {
		A    int
		More map[string]int `json:",embed"`
	}]("members without a field, strict", strict),
	on[struct {
		A Inner
		B string
	}]("strict", strict),

	// payloads
	on[struct{}]("no payload"),
	on[struct{}]("no payload, strict", strict),
	on[[]int]("a list as payload"),
	on[map[string]Inner]("a map as payload"),
	on[string]("text as payload"),
	on[*Inner]("a pointer as payload"),
	on[any]("any as payload"),
	on[struct {
		A string `json:"a,omitempty"`
		B *int   `json:"b"`
	}]("a payload that may be left out"),
	on[struct {
		A string `json:"a,omitempty" validate:"required"`
	}]("a payload that may not be left out"),

	// required, isdefault
	on[struct {
		A string `validate:"required"`
	}]("required text"),
	on[struct {
		A int `validate:"required"`
	}]("required int"),
	on[struct {
		A float64 `validate:"required"`
	}]("required float"),
	on[struct {
		A bool `validate:"required"`
	}]("required boolean"),
	on[struct {
		A int `json:",string" validate:"required"`
	}]("required quoted"),
	on[struct {
		A []int `validate:"required"`
	}]("required list"),
	on[struct {
		A []byte `validate:"required"`
	}]("required bytes"),
	on[struct {
		A map[string]int `validate:"required"`
	}]("required map"),
	on[struct {
		A *int `validate:"required"`
	}]("required pointer"),
	on[struct {
		A any `validate:"required"`
	}]("required any"),
	on[struct {
		A Easy `validate:"required"`
	}]("required struct"),
	on[struct {
		A Inner `validate:"required"`
	}]("required struct with rules"),
	on[struct {
		A *Inner `validate:"required"`
	}]("required pointer to a struct"),
	on[struct {
		A time.Time `validate:"required"`
	}]("required time"),
	on[struct {
		A string  `validate:"isdefault"`
		B int     `validate:"isdefault"`
		C bool    `validate:"isdefault"`
		D float64 `validate:"isdefault"`
	}]("isdefault"),

	// sizes
	on[struct {
		A string `validate:"min=2,max=4"`
	}]("text min max"),
	on[struct {
		A string `validate:"gt=2,lt=5"`
	}]("text gt lt"),
	on[struct {
		A string `validate:"gte=0x2,lte=4"`
	}]("text gte lte"),
	on[struct {
		A string `validate:"len=3"`
	}]("text len"),
	on[struct {
		A string `validate:"eq=abc"`
	}]("text eq"),
	on[struct {
		A string `validate:"ne=abc"`
	}]("text ne"),
	on[struct { // what is missing is accepted
		A int     `validate:"min=0"`
		B float64 `validate:"gte=0,lte=9"`
		C int     `validate:"max=0"`
	}]("limits of zero"),
	on[struct {
		A int `validate:"min=-3,max=4"`
	}]("int min max"),
	on[struct {
		A int `validate:"gt=2,lt=5"`
	}]("int gt lt"),
	on[struct {
		A uint8 `validate:"gte=2,lte=4"`
	}]("uint gte lte"),
	on[struct {
		A int `validate:"len=3"`
	}]("int len"),
	on[struct {
		A int `validate:"eq=3"`
	}]("int eq"),
	on[struct {
		A int `validate:"ne=3"`
	}]("int ne"),
	on[struct {
		A int64 `validate:"max=9007199254740993"`
	}]("int beyond doubles"),
	on[struct {
		A float64 `validate:"min=-0.5,max=1.25"`
	}]("float min max"),
	on[struct {
		A float64 `validate:"gt=0.1,lt=3"`
	}]("float gt lt"),
	on[struct {
		A float64 `validate:"gte=1,lte=1e3"`
	}]("float gte lte"),
	on[struct {
		A float64 `validate:"eq=0.3"`
	}]("float eq"),
	on[struct {
		A float64 `validate:"ne=0.3"`
	}]("float ne"),
	on[struct {
		A bool `validate:"eq=true"`
	}]("boolean eq"),
	on[struct {
		A bool `validate:"ne=true"`
	}]("boolean ne"),
	on[struct {
		A []int `validate:"min=1,max=3"`
	}]("list min max"),
	on[struct {
		A []int `validate:"gt=1,lt=4"`
	}]("list gt lt"),
	on[struct {
		A []int `validate:"len=2"`
	}]("list len"),
	on[struct {
		A []int `validate:"ne=2"`
	}]("list ne"),
	on[struct {
		A []int `validate:"eq=0"`
	}]("list eq"),
	on[struct {
		A [2]int `validate:"min=1,max=3"`
	}]("array min max"),
	on[struct {
		A map[string]int `validate:"min=1,max=2"`
	}]("map min max"),
	on[struct {
		A map[string]int `validate:"len=1"`
	}]("map len"),
	on[struct {
		A *string `validate:"min=2"`
	}]("pointer min"),
	on[struct {
		A *[]int `validate:"omitempty,min=2"`
	}]("pointer to a list"),
	on[struct {
		A *int `validate:"omitempty,min=2"`
	}]("pointer omitempty"),

	// skipping
	on[struct {
		A string `validate:"omitempty,min=2"`
	}]("text omitempty"),
	on[struct {
		A int `validate:"omitempty,min=2"`
	}]("int omitempty"),
	on[struct {
		A float64 `validate:"omitzero,min=2"`
	}]("float omitzero"),
	on[struct {
		A bool `validate:"omitempty,eq=true"`
	}]("boolean omitempty"),
	on[struct {
		A []int `validate:"omitempty,min=2"`
	}]("list omitempty"),
	on[struct {
		A []int `validate:"omitzero,min=2"`
	}]("list omitzero"),
	on[struct {
		A []int `validate:"omitnil,min=2"`
	}]("list omitnil"),
	on[struct {
		A map[string]int `validate:"omitzero,min=2"`
	}]("map omitzero"),
	on[struct {
		A string `validate:"omitnil,min=2"`
	}]("text omitnil"),
	on[struct {
		A *string `validate:"omitnil,min=2"`
	}]("pointer omitnil"),
	on[struct {
		A *string `validate:"omitzero,min=2"`
	}]("pointer omitzero"),
	on[struct {
		A string `validate:"max=6,omitempty,min=2"`
	}]("omitempty in between"),
	on[struct {
		A Inner `validate:"omitempty"`
	}]("struct omitempty"),
	on[struct {
		A Inner `validate:"structonly"`
		B Inner `validate:"required,nostructlevel"`
		C Inner `validate:"-"`
	}]("structs without their rules"),
	on[struct {
		A any `validate:"omitempty"`
	}]("any omitempty"),

	// choices
	on[struct {
		A string `validate:"oneof=red green 'light blue'"`
	}]("text oneof"),
	on[struct {
		A int `validate:"oneof=1 2 -3"`
	}]("int oneof"),
	on[struct {
		A uint64 `validate:"oneof=0 18446744073709551615"`
	}]("uint oneof"),
	on[struct {
		A string `validate:"noneof=red green"`
		B int    `validate:"noneof=0 1"`
	}]("noneof"),
	on[struct {
		A string `validate:"omitempty,oneof=red green"`
	}]("text omitempty oneof"),
	on[struct {
		A string `validate:"eq=|len=3|uuid"`
	}]("alternatives"),
	on[struct {
		A string `validate:"required,alpha|numeric,max=4"`
	}]("alternatives in between"),
	on[struct {
		A string `validate:"hexcolor|eq=none"`
	}]("a rule or a value"),

	// elements
	on[struct {
		A []string `validate:"dive,min=2"`
	}]("elements"),
	on[struct {
		A []string `validate:"required,min=1,dive,required,oneof=a b c"`
	}]("required elements"),
	on[struct {
		A []*int `validate:"dive,required"`
	}]("required pointers"),
	on[struct {
		A []*int `validate:"dive,omitempty,min=2"`
	}]("pointers omitempty"),
	on[struct {
		A []Inner `validate:"dive"`
	}]("structs"),
	on[struct {
		A []*Inner `validate:"dive"`
	}]("pointers to structs"),
	on[struct {
		A []Inner `validate:"dive,required"`
	}]("required structs"),
	on[struct {
		A [2]string `validate:"dive,min=1"`
	}]("elements of an array"),
	on[struct {
		A [][]int `validate:"max=2,dive,max=1,dive,max=3"`
	}]("elements of elements"),
	on[struct {
		A map[string]int `validate:"dive,min=2"`
	}]("elements of a map"),
	on[struct {
		A map[string]Inner `validate:"dive"`
	}]("structs in a map"),
	on[struct {
		A map[string]int `validate:"dive,keys,max=2,alpha,endkeys,min=2"`
	}]("keys and elements of a map"),
	on[struct {
		A map[string]int `validate:"dive,keys,oneof=a b,endkeys"`
	}]("keys of a map"),
	on[struct {
		A map[string]Inner `validate:"dive,keys,max=1,endkeys"`
	}]("keys of a map of structs"),
	on[struct {
		A []string `validate:"unique"`
	}]("unique text"),
	on[struct {
		A []int `validate:"unique,max=5"`
	}]("unique int"),
	on[struct {
		A []float64 `validate:"unique"`
	}]("unique float"),
	on[struct {
		A []bool `validate:"unique"`
	}]("unique boolean"),
	on[struct {
		A []*string `validate:"unique"`
	}]("unique pointers"),
	on[struct {
		A [3]int `validate:"unique"`
	}]("unique in an array"),

	// text
	on[struct {
		A string `validate:"alpha"`
	}]("alpha"),
	on[struct {
		A string `validate:"alphaspace"`
	}]("alphaspace"),
	on[struct {
		A string `validate:"alphanum"`
	}]("alphanum"),
	on[struct {
		A string `validate:"alphanumspace"`
	}]("alphanumspace"),
	on[struct {
		A string `validate:"alphaunicode"`
	}]("alphaunicode"),
	on[struct {
		A string `validate:"alphanumunicode"`
	}]("alphanumunicode"),
	on[struct {
		A string `validate:"numeric"`
	}]("numeric"),
	on[struct {
		A string `validate:"number"`
	}]("number"),
	on[struct {
		A string `validate:"hexadecimal"`
	}]("hexadecimal"),
	on[struct {
		A string `validate:"hexcolor"`
	}]("hexcolor"),
	on[struct {
		A string `validate:"ascii"`
	}]("ascii"),
	on[struct {
		A string `validate:"printascii"`
	}]("printascii"),
	on[struct {
		A string `validate:"uuid"`
	}]("uuid"),
	on[struct {
		A string `validate:"uuid3"`
	}]("uuid3"),
	on[struct {
		A string `validate:"uuid4"`
	}]("uuid4"),
	on[struct {
		A string `validate:"uuid5"`
	}]("uuid5"),
	on[struct {
		A string `validate:"uuid7"`
	}]("uuid7"),
	on[struct {
		A string `validate:"md5"`
	}]("md5"),
	on[struct {
		A string `validate:"sha256"`
	}]("sha256"),
	on[struct {
		A string `validate:"sha384"`
	}]("sha384"),
	on[struct {
		A string `validate:"sha512"`
	}]("sha512"),
	on[struct {
		A string `validate:"base64"`
	}]("base64"),
	on[struct {
		A string `validate:"e164"`
	}]("e164"),
	on[struct {
		A string `validate:"contains=a.b"`
	}]("contains"),
	on[struct {
		A string `validate:"startswith=a."`
	}]("startswith"),
	on[struct {
		A string `validate:"endswith=.b"`
	}]("endswith"),
	on[struct {
		A string `validate:"excludes=a.b"`
	}]("excludes"),
	on[struct {
		A string `validate:"startsnotwith=a."`
	}]("startsnotwith"),
	on[struct {
		A string `validate:"endsnotwith=.b"`
	}]("endsnotwith"),
}
