package api

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/router"
)

type object = map[string]any

// describe makes the OpenAPI document of the calls and of the events that the router declares.
func (h *handler) describe() ([]byte, error) {
	events, err := contract.Of(h.r)
	if err != nil {
		return nil, err
	}
	calls, err := contract.Of(h.types)
	if err != nil {
		return nil, err
	}
	schemas := object{}
	if err := addSchemas(schemas, "", events.JSONSchema()); err != nil {
		return nil, err
	}
	if err := addSchemas(schemas, "call.", calls.JSONSchema()); err != nil {
		return nil, err
	}
	h.describeData(schemas)
	schemas["call.problem"] = object{
		"description": "Problem details (RFC 9457).", "type": "object", "required": []string{"title", "status"},
		"properties": object{
			"title": object{"type": "string"}, "status": object{"type": "integer"}, "detail": object{"type": "string"},
			"code":         object{"type": "string", "description": "What to act on, such as INVALID_ARGUMENT."},
			"details":      object{"description": "Of a bad payload: {\"fields\": [{\"path\", \"rule\", \"param\"}]}."},
			"retryAfterMs": object{"type": "integer", "description": "After this time the same call may succeed."},
		},
	}
	paths := object{}
	for name, c := range h.calls {
		paths["/v1/"+name] = object{"post": operation(name, c.doc)}
	}
	paths["/v1/batch"] = object{"post": operation("batch", "Makes up to 1,000 calls in their order.")}
	return json.MarshalIndent(object{
		"openapi":           "3.1.0",
		"info":              object{"title": "Server API", "version": "1"},
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"paths":             paths,
		"security":          []object{{"secret": []string{}}},
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"secret": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", "  ")
}

func operation(name, doc string) object {
	body := func(schema string) object {
		return object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + schema}}}
	}
	return object{
		"operationId": name, "summary": doc,
		"parameters": []object{{
			"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": maxName},
			"description": "A request that is sent again with the same key gets the answer of the first.",
		}},
		"requestBody": object{"required": true, "content": body("call.event." + name)},
		"responses": object{
			"200": object{"description": "It is done.", "content": body("call.event." + resultOf(name))},
			"default": object{"description": "It is not done, or not known to be.", "content": object{
				"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/call.problem"}},
			}},
		},
	}
}

// describeData says which data events and questions have: a schema for each that is declared.
func (h *handler) describeData(schemas object) {
	declared := func(kind router.RouteKind) []string {
		names := []string{} // never null
		for _, rt := range h.r.Routes() {
			if rt.Kind == kind {
				names = append(names, rt.Type)
			}
		}
		slices.Sort(names)
		return names
	}
	events := declared(router.KindDeclared)
	for _, call := range []string{"publish", "send"} {
		describeMember(schemas, call, "event", events, !h.o.Undeclared)
	}
	describeMember(schemas, "ask", "question", declared(router.KindQuestion), true)
}

// describeMember says of a call which data it has by the type that a member names. only: it has one of these.
func describeMember(schemas object, call, member string, types []string, only bool) {
	key := "call.event." + call
	cases := []object{schemas[key].(object)}
	if only {
		cases = append(cases, object{"properties": object{member: object{"enum": types}}})
	}
	for _, typ := range types {
		data := object{"$ref": "#/components/schemas/" + schemaName(member+":"+typ)}
		cases = append(cases, object{
			"if":   object{"properties": object{member: object{"const": typ}}},
			"then": object{"properties": object{"data": data}},
		})
	}
	schemas[key] = object{"allOf": cases}
}

// addSchemas adds the definitions of a JSON Schema under names that OpenAPI allows.
func addSchemas(schemas object, prefix string, document []byte) error {
	var d struct {
		Defs object `json:"$defs"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Defs)) {
		schemas[schemaName(prefix+name)] = renamed(prefix, d.Defs[name])
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]`)

func schemaName(name string) string { return notInNames.ReplaceAllString(name, ".") }

// renamed is a schema whose references are those of the OpenAPI document.
func renamed(prefix string, v any) any {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			if ref, ok := e.(string); ok && k == "$ref" {
				v[k] = "#/components/schemas/" + schemaName(prefix+unescape(strings.TrimPrefix(ref, "#/$defs/")))
				continue
			}
			v[k] = renamed(prefix, e)
		}
	case []any:
		for i, e := range v {
			v[i] = renamed(prefix, e)
		}
	}
	return v
}

// unescape reads a part of a JSON pointer in a URL.
func unescape(ref string) string {
	return strings.NewReplacer("~1", "/", "~0", "~", "%7E", "~").Replace(ref)
}
