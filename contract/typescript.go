package contract

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/router"
)

var tsReference = regexp.MustCompile("\x00([0-9]+)\x00")

func (c *Contract) renderTypeScript() []byte {
	var used []string // names of definitions, in the order of their use
	resolve := func(ts string, name func(*def) string) string {
		return tsReference.ReplaceAllStringFunc(ts, func(m string) string {
			id, _ := strconv.Atoi(strings.Trim(m, "\x00"))
			return name(c.defs[id])
		})
	}
	names := c.names(func(d *def, name func(*def) string) string { return resolve(d.form.ts, name) })
	byName := make(map[string]*def)
	for _, d := range slices.Backward(c.defs) {
		byName[names(d)] = d
	}
	use := func(d *def) string {
		if name := names(d); !slices.Contains(used, name) {
			used = append(used, name)
		}
		return names(d)
	}

	var sections [4]strings.Builder
	for i := range c.messages {
		m := &c.messages[i]
		payload, reply := resolve(m.payload.payloadTS(), use), resolve(m.reply.payloadTS(), use)
		s, text := 0, ""
		switch m.Kind {
		case router.KindRequest:
			progress := "never"
			if m.progress != nil {
				progress = resolve(m.progress.payloadTS(), use)
			}
			text = fmt.Sprintf("{ request: %s; reply: %s; progress: %s }", payload, reply, progress)
		case router.KindEvent:
			s, text = 1, payload
		case router.KindDeclared:
			s, text = 2, payload
		case router.KindQuestion:
			s, text = 3, fmt.Sprintf("{ question: %s; answer: %s }", payload, reply)
		}
		entry := comment(m.Doc) + quoted(m.Type) + ": " + text + ";"
		sections[s].WriteString("\n    " + strings.ReplaceAll(entry, "\n", "\n    "))
	}

	var b strings.Builder
	b.WriteString("// Code generated from the routes of the server by wskit/contract. DO NOT EDIT.\n\n")
	b.WriteString("/** The messages of this server, by type. */\nexport interface Contract {\n")
	for i, section := range []struct{ name, doc string }{
		{"requests", "from the client, and answered"},
		{"sends", "from the client, and not answered"},
		{"events", "from the server"},
		{"questions", "from the server, and answered by the client"},
	} {
		fmt.Fprintf(&b, "  /** %s */\n  %s: ", section.doc, section.name)
		if sections[i].Len() == 0 {
			b.WriteString("Record<never, never>;\n")
			continue
		}
		b.WriteString("{" + sections[i].String() + "\n  };\n")
	}
	b.WriteString("}\n")
	for i := 0; i < len(used); i++ { // grows
		d := byName[used[i]]
		body := resolve(d.form.ts, use)
		if d.t.Kind() == reflect.Struct && strings.HasSuffix(body, "}") && strings.HasPrefix(body, "{") {
			fmt.Fprintf(&b, "\nexport interface %s %s\n", used[i], body)
		} else {
			fmt.Fprintf(&b, "\nexport type %s = %s;\n", used[i], body)
		}
	}
	return []byte(b.String())
}

// comment is the documentation of what follows.
func comment(doc string) string {
	if doc == "" {
		return ""
	}
	return "/** " + strings.Join(strings.Fields(strings.ReplaceAll(doc, "*/", "*\\/")), " ") + " */\n"
}

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

func propertyName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return quoted(name)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
