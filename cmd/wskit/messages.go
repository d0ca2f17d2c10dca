package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
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

// sample is a value that a schema admits, a random one where there are several.
func (m messages) sample(s schema, depth int) (any, error) {
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("the payload is too deep")
	case s.Const != nil:
		return s.Const, nil
	case len(s.Enum) > 0:
		return s.Enum[rand.IntN(len(s.Enum))], nil
	}
	switch s.kind() {
	case "object":
		return m.object(s, depth)
	case "array":
		return m.array(s, depth)
	case "string":
		return s.text()
	case "boolean":
		return rand.IntN(2) == 0, nil
	case "integer", "number":
		return s.number(), nil
	default:
		return nil, nil
	}
}

func (m messages) object(s schema, depth int) (any, error) {
	o := make(map[string]any)
	for name, text := range s.Properties {
		required := slices.Contains(s.Required, name)
		if !required && (depth > 2 || rand.IntN(2) == 0) {
			continue
		}
		of, err := m.schema(text, depth)
		if err == nil {
			o[name], err = m.sample(of, depth+1)
		}
		if err != nil && required {
			return nil, fmt.Errorf("%s: %w", name, err)
		} else if err != nil {
			delete(o, name)
		}
	}
	return o, nil
}

func (m messages) array(s schema, depth int) (any, error) {
	n := max(s.MinItems, 1)
	if s.MaxItems != nil {
		n = min(max(s.MinItems, min(*s.MaxItems, 1)), *s.MaxItems)
	}
	list := make([]any, 0, n)
	for range n {
		of, err := m.schema(s.Items, depth)
		if err != nil {
			return nil, err
		}
		v, err := m.sample(of, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// number is a whole number of the range, which every kind of number admits.
func (s schema) number() int64 {
	low, high := 0.0, 100.0
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if s.Above != nil {
		low = max(low, *s.Above+1)
	}
	high = max(high, low)
	if s.Maximum != nil {
		high = min(*s.Maximum, max(high, low))
	}
	if s.Below != nil {
		high = min(high, *s.Below-1)
	}
	low = max(low, min(high, 0)-100) // of a range that begins far below
	return int64(low) + rand.Int64N(max(1, int64(high)-int64(low)+1))
}

// shapes are texts of the forms that rules ask for.
var shapes = []string{
	"2026-11-28T10:00:00Z", "2026-11-28", "10:00", "ann@example.com", "https://example.com/", "example.com", "127.0.0.1", "::1",
	"d9428888-122b-41e1-b85c-61cdcbb3210a", "D9428888122B41E1B85C61CDCBB3210A", "YWJjZA==", "+4930123456", "#a1b2c3", "1.2.3", "aB3$aB3$", "ff", "1.5", "-1",
}

// ruled are texts for rules that a schema only names.
var ruled = map[string]string{
	"email": "ann@example.com", "url": "https://example.com/", "http_url": "https://example.com/", "https_url": "https://example.com/",
	"uri": "https://example.com/", "hostname": "example.com", "fqdn": "example.com", "ip": "127.0.0.1", "ipv4": "127.0.0.1", "ipv6": "::1",
	"e164": "+4930123456", "uppercase": "ABC", "json": "{}", "base64": "YWJjZA==", "timezone": "Europe/Berlin", "hexcolor": "#a1b2c3",
}

// text is a text that fits the length and the patterns.
func (s schema) text() (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	length := max(s.MinLength, 1)
	if s.MaxLength != nil {
		length = min(max(s.MinLength, 8), *s.MaxLength)
	} else {
		length = max(length, 8)
	}
	word := make([]byte, length)
	for i := range word {
		word[i] = letters[rand.IntN(len(letters))]
	}
	digits := strings.Repeat("7", length)
	candidates := []string{string(word), strings.ToUpper(string(word)), digits, "a1" + digits}
	for rule := range strings.SplitSeq(s.Rules, ",") {
		if text, known := ruled[rule]; known {
			candidates = append([]string{text}, candidates...)
		}
	}
	for _, text := range append(candidates, shapes...) {
		if s.admits(text) {
			return text, nil
		}
	}
	return "", fmt.Errorf("no text is known that matches %s", strings.Join(s.patterns, " and "))
}

func (s schema) admits(text string) bool {
	if len(text) < s.MinLength || s.MaxLength != nil && len(text) > *s.MaxLength {
		return false
	}
	for _, pattern := range s.patterns {
		r, err := regexp.Compile(pattern)
		if err != nil || !r.MatchString(text) {
			return false
		}
	}
	return true
}
