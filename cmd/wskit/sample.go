package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

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
