package rules

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// refuseNull returns an error for a null anywhere: its meaning is not clear.
func refuseNull(document []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(document))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return nil // the decoder has the better error
		}
		if token.Kind() == 'n' {
			return &json.SemanticError{JSONPointer: d.StackPointer(), Err: problem("is null; leave it out instead")}
		}
	}
}

// decodeError makes a Error of an error of the JSON library.
func decodeError(document []byte, err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at := pathOf(e.JSONPointer)
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return at.wrong("is there twice")
		}
		line := 1 + bytes.Count(document[:min(int(e.ByteOffset), len(document))], []byte{'\n'})
		return at.wrong("is not valid JSON in line %d: %v", line, e.Err)
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return path("").wrong("cannot be read: %v", err)
	}
	at := pathOf(e.JSONPointer)
	switch p, ok := e.Err.(problem); {
	case ok:
		return at.wrong("%s", p)
	case errors.Is(e, json.ErrUnknownName):
		return at.wrong("is not a name of the rules; the names are %s", strings.Join(namesOf(e.GoType), ", "))
	case e.GoType != nil:
		return at.wrong("must be %s", expected(e.GoType))
	}
	return at.wrong("cannot be read: %v", e)
}

// expected names the kind of JSON value that becomes a Go type.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// namesOf lists the names of the members that a type has.
func namesOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// pathOf is the place of a JSON pointer. Only lists have numbers: those at the top, and limits.
func pathOf(p jsontext.Pointer) (at path) {
	depth := 0
	for token := range p.Tokens() {
		i, err := strconv.Atoi(token)
		if err == nil && (depth == 1 && (at == atOverrides || at == atAllow || at == atDeny) || strings.HasSuffix(string(at), ".limits")) {
			at = at.index(i)
		} else {
			at = at.name(token)
		}
		depth++
	}
	return at
}
