package router

import (
	"github.com/go-playground/validator/v10"

	"github.com/wskit/wskit/router/internal/codec"
)

// RegisterValidation adds a validation that `validate` tags can name, or replaces one, for all
// routers of the process. Call it before the types that use the tag are registered, and from one
// goroutine at a time. It fails when the tag is empty or fn is nil, and panics when the tag is a
// part of the syntax of tags, such as "dive".
func RegisterValidation(tag string, fn validator.Func) error {
	return codec.RegisterValidation(tag, fn)
}

// FieldError is an entry of the details of a payload that was refused:
// {"fields": [{"path": "room", "rule": "required"}]}.
type FieldError struct {
	// Path leads to the field, such as items.0.name: names as on the wire, and indices. It is
	// empty for the payload itself.
	Path string `json:"path"`
	// Rule is the validation that failed, "type" when the JSON value is of
	// another type than the field, or "unknown" for a member that Strict does not allow.
	Rule string `json:"rule"`
	// Param is the rule's parameter, such as 280 for max=280.
	Param string `json:"param,omitempty"`
}

var _ = FieldError(codec.FieldError{}) // which is what is sent
