package codec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-playground/validator/v10"

	"github.com/wskit/wskit/errors"
)

// validate is shared by all routers: it caches what it finds of a type.
var validate = newValidator()

func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	// Fields have the names for clients that they have on the wire.
	v.RegisterTagNameFunc(func(f reflect.StructField) string {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name != "" && name != "-":
			return name
		case f.Anonymous:
			return embedded
		default:
			return f.Name
		}
	})
	return v
}

// embedded is, in the validator's paths, the name of a struct whose fields are, on the
// wire, its parent's.
const embedded = "\x00"

// wirePath makes the validator's path of a field one of names and indices as on the
// wire: of "Order.items[0].id", "items.0.id".
var wirePath = strings.NewReplacer("."+embedded, "", "[", ".", "]", "")

// RegisterValidation is router.RegisterValidation.
func RegisterValidation(tag string, fn validator.Func) error {
	registered[tag] = true
	return validate.RegisterValidation(tag, fn)
}

// registered has the tags of RegisterValidation.
var registered = make(map[string]bool)

// FieldError is router.FieldError.
type FieldError struct {
	Path  string `json:"path"`
	Rule  string `json:"rule"`
	Param string `json:"param,omitempty"`
}

type fieldErrors struct {
	Fields []FieldError `json:"fields"`
}

// maxFieldErrors bounds how many fields an answer names.
const maxFieldErrors = 16

func decodeError(v any, err error) error {
	e := errors.InvalidArgument.Wrap(err, "payload does not decode")
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		path := strings.ReplaceAll(strings.TrimPrefix(string(s.JSONPointer), "/"), "/", ".")
		rule := "type"
		if errors.Is(err, json.ErrUnknownName) {
			rule = "unknown"
		}
		// The first name is that of a field. All others may be the client's, and messages are logged.
		first, _, _ := strings.Cut(path, ".")
		if isStruct := reflect.TypeOf(v).Elem().Kind() == reflect.Struct; isStruct && rule == "type" && first != "" {
			e.Message += ", see the field " + first
		}
		e.Details = fieldErrors{[]FieldError{{Path: path, Rule: rule}}}
	}
	return e
}

// validationError makes the answer of what the validator says of a value, which is a struct or
// leads to one.
func validationError(v any, err error) error {
	fails, ok := errors.AsType[validator.ValidationErrors](err)
	if !ok {
		return errors.Internal.Wrap(err, "internal error")
	}
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	// A path begins with the name of the struct, if it has one. That of a generic type has dots.
	onWire := func(path string) string {
		return strings.TrimPrefix(wirePath.Replace("."+strings.TrimPrefix(path, t.Name()+".")), ".")
	}
	var d fieldErrors
	for _, f := range fails[:min(len(fails), maxFieldErrors)] {
		d.Fields = append(d.Fields, FieldError{Path: onWire(f.Namespace()), Rule: f.Tag(), Param: f.Param()})
	}
	// An index may be a key that the client has made up: it is in the details, which are not logged.
	first, _, _ := strings.Cut(strings.TrimPrefix(fails[0].Namespace(), t.Name()+"."), "[")
	e := errors.InvalidArgument.Wrap(err, "payload is not valid: "+onWire(first)+" does not pass "+fails[0].Tag())
	e.Details = d
	return e
}

// checkRules panics if the validator cannot use a struct's tags, and reports whether the zero
// value is valid.
func checkRules(t reflect.Type, what, typ string) (zeroIsValid bool) {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("router: the validate tags of %v, %s of %q, cannot be used: %v; correct the tag, or add the rule with RegisterValidation first", t, what, typ, v))
		}
	}()
	return validate.Struct(reflect.New(t).Interface()) == nil
}

// hasRules reports whether a type may have anything to validate: the validator
// visits, and allocates for, every field of a struct, whether it has rules or not.
func hasRules(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true // whatever it holds
	case reflect.Pointer:
		return hasRules(t.Elem(), seen)
	case reflect.Struct:
	default:
		return false // elements are visited only where a tag says dive
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	for f := range t.Fields() {
		if f.Tag.Get("validate") != "" || hasRules(f.Type, seen) {
			return true
		}
	}
	return false
}
