package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// types is the command types: the messages of a contract, one in a line, or those of one type.
func (c *command) types(ctx context.Context, args []string) int {
	defs, err := readContract(ctx, args[0])
	if err != nil {
		return c.failed(err)
	}
	m := messages{defs: defs}
	only := ""
	if len(args) > 1 {
		only = args[1]
	}
	var lines [][3]string
	for _, direction := range []string{"request", "reply", "progress", "send", "event", "question", "answer"} {
		for def, text := range defs {
			if typ, ok := strings.CutPrefix(def, direction+":"); ok && (only == "" || typ == only) {
				lines = append(lines, [3]string{typ, direction, m.form(text, 0)})
			}
		}
	}
	if len(lines) == 0 {
		return c.failed(fmt.Errorf("the contract has no message %s; it has %s", only, strings.Join(m.names(), ", ")))
	}
	slices.SortStableFunc(lines, func(a, b [3]string) int { return strings.Compare(a[0], b[0]) })
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	for _, l := range lines {
		fmt.Fprintf(c.out, "%-*s %-8s %s\n", width, l[0], l[1], l[2])
	}
	return done
}

// form is a schema in short, such as {room: string 1..24, after?: string}.
func (m messages) form(text json.RawMessage, depth int) string {
	s, err := m.schema(text, 0)
	if err != nil || depth > maxDepth/2 {
		return "…"
	}
	switch kind := s.kind(); {
	case s.Const != nil:
		return fmt.Sprint(s.Const)
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		return strings.Join(values, "|")
	case kind == "object" && len(s.Properties) > 0:
		var members []string
		for name, of := range s.Properties {
			if !slices.Contains(s.Required, name) {
				name += "?"
			}
			members = append(members, name+": "+m.form(of, depth+1))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ", ") + "}"
	case kind == "array":
		return "[" + m.form(s.Items, depth+1) + span(s.MinItems, s.MaxItems) + "]"
	case kind == "string":
		return "string" + span(s.MinLength, s.MaxLength)
	case kind == "integer" && s.Maximum != nil && *s.Maximum < 1<<53 && s.Minimum != nil:
		return fmt.Sprintf("integer %g..%g", *s.Minimum, *s.Maximum)
	case kind == "":
		return "any"
	default:
		return kind
	}
}

// span is a range of lengths, or nothing.
func span(least int, most *int) string {
	switch {
	case most != nil:
		return fmt.Sprintf(" %d..%d", least, *most)
	case least > 0:
		return fmt.Sprintf(" %d..", least)
	}
	return ""
}

// complete prints what may come next in a command line, for a shell: complete -C wskit wskit. Types come from the contract
// that -contract or WSKIT_CONTRACT names.
func (c *command) complete(ctx context.Context, line, contract string) int {
	words := strings.Split(line, " ")
	last := words[len(words)-1]
	var candidates []string
	switch {
	case len(words) <= 2:
		for name := range commands {
			candidates = append(candidates, name)
		}
	case strings.HasPrefix(last, "-"):
		for _, f := range c.flagNames(words[1]) {
			candidates = append(candidates, "-"+f)
		}
	default:
		if i := slices.Index(words, "-contract"); i >= 0 && i+1 < len(words)-1 {
			contract = words[i+1]
		}
		if defs, err := readContract(ctx, contract); err == nil {
			candidates = messages{defs: defs}.names()
		}
	}
	slices.Sort(candidates)
	for _, word := range candidates {
		if strings.HasPrefix(word, last) {
			fmt.Fprintln(c.out, word)
		}
	}
	return done
}
