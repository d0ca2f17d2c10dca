package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
)

// messages are those that clients send: what the contract of a server has, and payloads that were given.
type messages struct {
	defs    map[string]json.RawMessage   // of the JSON Schema
	given   map[string]string            // payloads by type; {{n}} is the number of the connection
	samples map[string][]json.RawMessage // payloads that were made from the schema
}

// samplesOf is how many payloads of a type are made.
const samplesOf = 64

// maxContract bounds a contract, in bytes.
const maxContract = 16 << 20

// readContract reads the JSON Schema that contract.Of makes, from a file or a URL.
func readContract(ctx context.Context, from string) (defs map[string]json.RawMessage, err error) {
	var text []byte
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		text, err = fetch(ctx, from)
	} else {
		text, err = os.ReadFile(from)
	}
	if err != nil {
		return nil, fmt.Errorf("the contract cannot be read: %w", err)
	}
	var document struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(text, &document); err != nil || len(document.Defs) == 0 {
		return nil, fmt.Errorf("%s is no JSON Schema of a server; write one with its flag -contract schema, or use its schema.json", from)
	}
	return document.Defs, nil
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, maxContract))
}

// The directions of what clients send, in a contract and on the command line.
const requests, sends = "request:", "send:"

// find says whether a type is answered, and whether there is a payload for it. A type may have its direction in front.
func (m messages) find(typ string) (name string, answered bool, err error) {
	name = strings.TrimPrefix(strings.TrimPrefix(typ, sends), requests)
	answered = !strings.HasPrefix(typ, sends)
	if m.defs != nil {
		_, request := m.defs[requests+name]
		_, send := m.defs[sends+name]
		if !request && !send {
			return name, false, fmt.Errorf("the contract has no message %s; use one of %s", name, strings.Join(m.names(), ", "))
		}
		answered = request
	}
	if _, given := m.given[name]; !given && m.defs == nil {
		return name, false, fmt.Errorf("there is no payload for %s; give -contract, or -payload '%s={…}'", name, name)
	}
	if _, given := m.given[name]; given {
		return name, answered, nil
	}
	for range samplesOf {
		payload, err := m.make(name)
		if err != nil {
			return name, answered, err
		}
		m.samples[name] = append(m.samples[name], payload)
	}
	return name, answered, nil
}

// names are all types that the contract has for clients.
func (m messages) names() (names []string) {
	for def := range m.defs {
		for _, direction := range []string{requests, sends} {
			if name, ok := strings.CutPrefix(def, direction); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// payload is one for a message of a connection, by its number.
func (m messages) payload(name string, connection int) json.RawMessage {
	if text, given := m.given[name]; given {
		return json.RawMessage(numbered(text, connection))
	}
	return m.samples[name][rand.IntN(samplesOf)]
}

// make makes a payload from the schema of a type.
func (m messages) make(name string) (json.RawMessage, error) {
	def, ok := m.defs[requests+name]
	if !ok {
		def = m.defs[sends+name]
	}
	s, err := m.schema(def, 0)
	if err != nil {
		return nil, err
	}
	v, err := m.sample(s, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; give -payload '%s={…}'", name, err, name)
	}
	return json.Marshal(v)
}

// schema is what is used of a JSON Schema of a contract.
type schema struct {
	Ref        string                     `json:"$ref"`
	AllOf      []json.RawMessage          `json:"allOf"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	Type       any                        `json:"type"`
	Enum       []any                      `json:"enum"`
	Const      any                        `json:"const"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	Minimum    *float64                   `json:"minimum"`
	Maximum    *float64                   `json:"maximum"`
	Above      *float64                   `json:"exclusiveMinimum"`
	Below      *float64                   `json:"exclusiveMaximum"`
	MinLength  int                        `json:"minLength"`
	MaxLength  *int                       `json:"maxLength"`
	MinItems   int                        `json:"minItems"`
	MaxItems   *int                       `json:"maxItems"`
	Pattern    string                     `json:"pattern"`
	Rules      string                     `json:"x-validate"`
	patterns   []string
}

// maxDepth bounds how deep a payload is.
const maxDepth = 12

// schema reads a schema together with those that it refers to.
func (m messages) schema(text json.RawMessage, depth int) (s schema, err error) {
	if depth > maxDepth {
		return s, fmt.Errorf("the payload is too deep")
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, err
	}
	if s.Pattern != "" {
		s.patterns = append(s.patterns, s.Pattern)
	}
	parts := s.AllOf
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		parts = append(parts, m.defs[name])
	}
	for _, part := range s.AnyOf { // the first that is not null
		if !strings.Contains(string(part), `"null"`) || len(s.AnyOf) == 1 {
			parts = append(parts, part)
			break
		}
	}
	for _, part := range parts {
		more, err := m.schema(part, depth+1)
		if err != nil {
			return s, err
		}
		s.merge(more)
	}
	return s, nil
}

// merge adds what another schema asks for.
func (s *schema) merge(o schema) {
	if s.Type == nil {
		s.Type = o.Type
	}
	if s.Enum == nil {
		s.Enum = o.Enum
	}
	if s.Const == nil {
		s.Const = o.Const
	}
	if s.Items == nil {
		s.Items = o.Items
	}
	if s.Properties == nil {
		s.Properties, s.Required = o.Properties, o.Required
	}
	tighter := func(a, b *float64, sign float64) *float64 {
		if a == nil || b != nil && *b*sign > *a*sign {
			return b
		}
		return a
	}
	s.Minimum, s.Maximum = tighter(s.Minimum, o.Minimum, 1), tighter(s.Maximum, o.Maximum, -1)
	s.Above, s.Below = tighter(s.Above, o.Above, 1), tighter(s.Below, o.Below, -1)
	s.MinLength, s.MinItems = max(s.MinLength, o.MinLength), max(s.MinItems, o.MinItems)
	if s.MaxLength == nil {
		s.MaxLength = o.MaxLength
	}
	if s.MaxItems == nil {
		s.MaxItems = o.MaxItems
	}
	s.patterns, s.Rules = append(s.patterns, o.patterns...), s.Rules+","+o.Rules
}

// kind is the type of a value; the first that is not null.
func (s schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if one != "null" {
				return fmt.Sprint(one)
			}
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}
