package router

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/flat"
	"github.com/wskit/wskit/internal/jsontype"
)

// shape holds what decoding and validation need to know about a type.
type shape struct {
	empty     bool // struct{}: there is no payload
	optional  bool // a frame needs no payload
	validated bool
	pointer   bool
	flat      *flat.Struct   // nil: package json decodes and encodes it
	rules     rules          // nil: package validator checks all values
	options   []json.Options // nil for nearly all
}

// decodedShape is that of what clients send. It panics if it can never be decoded, and if the
// type's validate tags are not valid, as the validator would at the first message.
func decodedShape(t reflect.Type, what, typ string, strict bool) shape {
	if err := jsontype.Check(t, jsontype.Decode); err != nil {
		panic(fmt.Sprintf("router: %s of %q can never be decoded: %v", what, typ, err))
	}
	s, zeroIsValid := shapeOf(t, what, typ)
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		s.optional = true
	case reflect.Struct:
		s.optional = s.empty || zeroIsValid && jsontype.Optional(t)
	}
	if strict {
		s.options = []json.Options{json.RejectUnknownMembers(true)}
	}
	return s
}

// encodedShape is that of replies and declared events. It panics if they can never be
// encoded.
func encodedShape(t reflect.Type, what, typ string) shape {
	mustEncode(t, what, typ)
	s, _ := shapeOf(t, what, typ)
	return s
}

func mustEncode(t reflect.Type, what, typ string) {
	if err := jsontype.Check(t, jsontype.Encode); err != nil {
		panic(fmt.Sprintf("router: %s of %q can never be encoded: %v", what, typ, err))
	}
}

func shapeOf(t reflect.Type, what, typ string) (s shape, zeroIsValid bool) {
	s.empty, zeroIsValid = isEmptyStruct(t), true
	for t.Kind() == reflect.Pointer {
		t, s.pointer = t.Elem(), true
	}
	s.validated = t.Kind() == reflect.Struct && hasRules(t, make(map[reflect.Type]bool))
	if s.validated {
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

// decode fills v, a pointer, from a payload and validates it.
func (s *shape) decode(v any, payload []byte) error {
	if payload == nil || string(payload) == "null" {
		if s.optional {
			return nil
		}
		return errNoPayload
	}
	if err := json.Unmarshal(payload, v, s.options...); err != nil {
		return decodeError(err)
	}
	return s.check(v)
}

// decodeFlat is decode for a payload at the beginning of b, without check. It returns what follows the payload. With
// false the payload has to be decoded otherwise, into another value.
func (s *shape) decodeFlat(v any, b []byte) (rest []byte, ok bool) {
	if s.flat == nil {
		return nil, false
	}
	return s.flat.Decode(b, reflect.ValueOf(v).Elem())
}

// check validates what v, a pointer, points to.
func (s *shape) check(v any) error {
	if !s.validated {
		return nil
	}
	if err := s.validate(v); err != nil {
		return validationError(v, err)
	}
	return nil
}

// appendPayload appends the key and what v, a pointer, points to.
func (s *shape) appendPayload(out *bytes.Buffer, v any) error {
	if appendFlat(out, s.flat, reflect.ValueOf(v).Elem()) {
		return nil
	}
	return appendPayload(out, v)
}

// validate checks what v, a pointer, points to. A nil pointer there is valid.
func (s *shape) validate(v any) error {
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
