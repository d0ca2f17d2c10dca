package router

import (
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/jsontype"
)

// shape holds what decoding and validation need to know about a type.
type shape struct {
	empty     bool // struct{}: there is no payload
	optional  bool // a frame needs no payload
	validated bool
	pointer   bool
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
	if !s.validated {
		return nil
	}
	if err := s.validate(v); err != nil {
		return validationError(v, err)
	}
	return nil
}

// validate checks what v, a pointer, points to. A nil pointer there is valid.
func (s *shape) validate(v any) error {
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
