package contract

import (
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/router"
)

// schema is a JSON Schema with the keywords that draft 7 and draft 2020-12 share. The value of
// $ref is a *def until it is rendered.
type schema map[string]any

// and returns a schema of what both accept. Neither is changed.
func and(a, b schema) schema {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	_, refA := a["$ref"]
	_, refB := b["$ref"]
	merges := !refA && !refB // draft 7 ignores what is next to $ref
	for k, v := range b {
		if old, both := a[k]; both && !reflect.DeepEqual(old, v) {
			merges = false
		}
	}
	if merges {
		both := maps.Clone(a)
		maps.Copy(both, b)
		return both
	}
	if all, ok := a["allOf"].([]any); ok && len(a) == 1 {
		return schema{"allOf": append(slices.Clip(all), b)}
	}
	return schema{"allOf": []any{a, b}}
}

// either returns a schema of what at least one accepts.
func either(all ...schema) schema {
	list := make([]any, 0, len(all))
	for _, s := range all {
		if len(s) == 0 {
			return nil
		}
		list = append(list, s)
	}
	return schema{"anyOf": list}
}

// ignoresNull are the keywords that accept null, apart from type.
var ignoresNull = []string{
	"type", "format", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"items", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties", "propertyNames",
	"minProperties", "maxProperties", "contentEncoding", "x-validate",
}

// orNull returns a schema that also accepts null.
func orNull(s schema) schema {
	if len(s) == 0 {
		return s
	}
	if t, ok := s["type"].(string); ok {
		others := false
		for k := range s {
			others = others || !slices.Contains(ignoresNull, k)
		}
		if !others {
			both := maps.Clone(s)
			both["type"] = []any{t, "null"}
			return both
		}
	}
	return either(s, schema{"type": "null"})
}

// render replaces each *def by what name returns for it.
func render(v any, name func(*def) string) any {
	switch v := v.(type) {
	case schema:
		return renderMap(v, name)
	case map[string]any:
		return renderMap(v, name)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = render(v[i], name)
		}
		return list
	case *def:
		return name(v)
	}
	return v
}

func renderMap(m map[string]any, name func(*def) string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = render(v, name)
	}
	return out
}

// encode writes a document with its names sorted, so that it is the same each time.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// payloadKey names the definition of a payload.
func payloadKey(part, typ string) string { return part + ":" + typ }

// parts lists the payloads of a message with the words that name them.
func (m *message) parts() map[string]form {
	switch m.Kind {
	case router.KindRequest:
		all := map[string]form{"request": m.payload, "reply": m.reply}
		if m.progress != nil {
			all["progress"] = *m.progress
		}
		return all
	case router.KindQuestion:
		return map[string]form{"question": m.payload, "answer": m.reply}
	case router.KindEvent:
		return map[string]form{"send": m.payload}
	}
	return map[string]form{"event": m.payload}
}

// definitions returns the schemas of all payloads, and of the types in them. Others refer to them
// by their names behind the prefix.
func (c *Contract) definitions(prefix string, names func(*def) string) map[string]any {
	defs := make(object)
	var ref func(d *def) string
	ref = func(d *def) string {
		name := names(d)
		if _, seen := defs[name]; !seen {
			defs[name] = nil
			defs[name] = render(d.form.schema, ref)
		}
		return prefix + name
	}
	for i := range c.messages {
		m := &c.messages[i]
		for part, f := range m.parts() {
			s := f.payloadSchema()
			if part == mainPart[m.Kind] && m.Doc != "" {
				s = and(s, schema{"description": m.Doc})
			}
			defs[payloadKey(part, m.Type)] = render(s, ref)
		}
	}
	return defs
}

// mainPart names what is sent by the type of a message itself.
var mainPart = map[router.RouteKind]string{
	router.KindRequest: "request", router.KindEvent: "send", router.KindDeclared: "event", router.KindQuestion: "question",
}

// schemaNames returns the names of the types in schemas.
func (c *Contract) schemaNames() func(*def) string {
	return c.names(func(d *def, name func(*def) string) string {
		b, err := json.Marshal(render(d.form.schema, name), json.Deterministic(true))
		if err != nil {
			return err.Error() // reported when the document is encoded
		}
		return string(b)
	})
}

func (c *Contract) renderSchema() ([]byte, error) {
	return encode(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   c.opts.Title,
		"$defs":   c.definitions("#/$defs/", c.schemaNames()),
	})
}
