package codec

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/go-playground/validator/v10"
)

type (
	ruledWord string
	ruled     struct {
		Room  string    `validate:"required"`
		Text  ruledWord `validate:"required,min=2,max=5"`
		Note  string    `validate:"max=3"`
		Name  string    `validate:"gte=2,lte=4"`
		Size  int8      `validate:"required,gte=-3,lte=100"`
		Count int64     `validate:"min=0,max=9"`
		Agree bool      `validate:"required"`
		Free  []string
	}
)

var texts = []string{"", "a", "ab", "abc", "abcd", "abcde", "abcdef", "ü", "üü", "üüü", "日本語の文章", strings.Repeat("日", 5), "\xff\xff"}

// Rules say what package validator says.
func TestRulesAgreeWithTheValidator(t *testing.T) {
	t.Parallel()
	valid := ruled{Room: "a", Text: "abc", Name: "abc", Size: 1, Agree: true}
	all := rulesOf(reflect.TypeFor[ruled]())
	if !all.hold(reflect.ValueOf(valid)) {
		t.Fatal("the rules do not hold for a valid value, so that nothing would be gained")
	}
	agree := func(change func(*ruled)) {
		v := valid
		change(&v)
		err := validate.Struct(&v)
		if holds := all.hold(reflect.ValueOf(v)); holds != (err == nil) {
			t.Errorf("%+v: the rules hold: %v; the validator: %v", v, holds, err)
		}
	}
	for _, s := range texts {
		agree(func(v *ruled) { v.Room = s })
		agree(func(v *ruled) { v.Text = ruledWord(s) })
		agree(func(v *ruled) { v.Note = s })
		agree(func(v *ruled) { v.Name = s })
	}
	for _, n := range []int64{math.MinInt64, -4, -3, -1, 0, 1, 9, 10, 100, 101, 127, math.MaxInt64} {
		agree(func(v *ruled) { v.Size = int8(n) })
		agree(func(v *ruled) { v.Count = n })
	}
	agree(func(v *ruled) { v.Agree = false })
}

func TestOtherRulesAreLeftToTheValidator(t *testing.T) {
	if err := RegisterValidation("ruled", func(validator.FieldLevel) bool { return false }); err != nil {
		t.Fatal(err)
	}
	type inner struct {
		A string `validate:"required"`
	}
	for _, v := range []any{
		struct {
			A string `validate:"email"`
		}{},
		struct {
			A string `validate:"required|email"`
		}{},
		struct {
			A string `validate:"omitempty,min=3"`
		}{},
		struct {
			A string `validate:"ruled"`
		}{},
		struct {
			A *string `validate:"required"`
		}{},
		struct {
			A []string `validate:"min=1"`
		}{},
		struct {
			A float64 `validate:"min=1"`
		}{},
		struct {
			A uint `validate:"min=1"`
		}{},
		struct {
			A int `validate:"eqfield=B"`
			B int
		}{},
		struct{ A inner }{},
		struct{ inner }{},
		struct {
			A string `validate:"required"`
			B any
		}{},
	} {
		if rulesOf(reflect.TypeOf(v)) != nil {
			t.Errorf("%T is not left to the validator", v)
		}
	}
}
