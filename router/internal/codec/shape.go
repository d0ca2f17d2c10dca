// Package codec decodes, checks and encodes payloads of registered types.
//
// What it needs to know of a type is found once, when it is registered, as a [Shape]; a type that cannot work panics
// then. Promised: a value is decoded and checked in one pass where its shape allows that, with the result that
// encoding/json v2 and package validator have; an error names at most 16 fields, by their names in JSON, and no value
// that a client sent. A Shape may be used by any number of goroutines.
package codec

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/flat"
	"github.com/wskit/wskit/internal/jsontype"
)

// Shape holds what decoding and validation need to know about a type.
type Shape struct {
	Empty     bool // struct{}: there is no payload
	Optional  bool // a frame needs no payload
	Validated bool
	pointer   bool
	flat      *flat.Struct   // nil: package json decodes and encodes it
	rules     rules          // nil: package validator checks all values
	options   []json.Options // nil for nearly all
}

// Decoded is the shape of what clients send: what is a word for it, typ the message's type, both for panics. It panics
// if the Go type can never be decoded, and if its validate tags are not valid, as the validator would at the first
// message.
func Decoded(t reflect.Type, what, typ string, strict bool) Shape {
	if err := jsontype.Check(t, jsontype.Decode); err != nil {
		panic(fmt.Sprintf("router: %s of %q can never be decoded: %v", what, typ, err))
	}
	s, zeroIsValid := shapeOf(t, what, typ)
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		s.Optional = true
	case reflect.Struct:
		s.Optional = s.Empty || zeroIsValid && jsontype.Optional(t)
	}
	if strict {
		s.options = []json.Options{json.RejectUnknownMembers(true)}
	}
	return s
}

// Encoded is the shape of replies and declared events. It panics if they can never be encoded.
func Encoded(t reflect.Type, what, typ string) Shape {
	MustEncode(t, what, typ)
	s, _ := shapeOf(t, what, typ)
	return s
}

// MustEncode panics if a Go type can never be encoded.
func MustEncode(t reflect.Type, what, typ string) {
	if err := jsontype.Check(t, jsontype.Encode); err != nil {
		panic(fmt.Sprintf("router: %s of %q can never be encoded: %v", what, typ, err))
	}
}

func shapeOf(t reflect.Type, what, typ string) (s Shape, zeroIsValid bool) {
	s.Empty, zeroIsValid = isEmptyStruct(t), true
	for t.Kind() == reflect.Pointer {
		t, s.pointer = t.Elem(), true
	}
	s.Validated = t.Kind() == reflect.Struct && hasRules(t, make(map[reflect.Type]bool))
	if s.Validated {
		zeroIsValid = checkRules(t, what, typ)
	}
	if !s.pointer {
		s.flat, s.rules = flat.Of(t), rulesOf(t)
	}
	return s, zeroIsValid
}

func isEmptyStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 0
}

var errNoPayload = errors.InvalidArgument.New("message has no payload")

// Decode fills v, a pointer, from a payload and validates it.
func (s *Shape) Decode(v any, payload []byte) error {
	if payload == nil || string(payload) == "null" {
		if s.Optional {
			return nil
		}
		return errNoPayload
	}
	if err := json.Unmarshal(payload, v, s.options...); err != nil {
		return decodeError(v, err)
	}
	return s.Check(v)
}

// DecodeFlat is Decode for a payload at the beginning of b, without Check. It returns what follows the payload. With
// false the payload has to be decoded otherwise, into another value.
func (s *Shape) DecodeFlat(v any, b []byte) (rest []byte, ok bool) {
	if s.flat == nil {
		return nil, false
	}
	return s.flat.Decode(b, reflect.ValueOf(v).Elem())
}

// Check validates what v, a pointer, points to.
func (s *Shape) Check(v any) error {
	if !s.Validated {
		return nil
	}
	if err := s.Validate(v); err != nil {
		return validationError(v, err)
	}
	return nil
}

// AppendPayload appends the key and what v, a pointer, points to.
func (s *Shape) AppendPayload(out *bytes.Buffer, v any) error {
	if appendFlat(out, s.flat, reflect.ValueOf(v).Elem()) {
		return nil
	}
	return AppendPayload(out, v)
}

// Validate checks what v, a pointer, points to. A nil pointer there is valid.
func (s *Shape) Validate(v any) error {
	if s.rules != nil && s.rules.hold(reflect.ValueOf(v).Elem()) {
		return nil
	}
	if s.pointer {
		// v points to the pointers that lead to the struct.
		rv := reflect.ValueOf(v).Elem()
		for rv.Kind() == reflect.Pointer && rv.Elem().Kind() == reflect.Pointer {
			rv = rv.Elem()
		}
		if rv.IsNil() {
			return nil
		}
		v = rv.Interface()
	}
	return validate.Struct(v)
}

// Strict reports whether members that the type does not have are refused.
func (s *Shape) Strict() bool { return s.options != nil }
