package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A problem is an entry of the pages on troubleshooting.
type problem struct {
	page, heading string
	texts         []string // lines of its blocks of text, in which "…" stands for anything
	prose         string
}

// problems reads the pages.
func problems(t *testing.T) (all []problem) {
	t.Helper()
	pages, err := filepath.Glob("troubleshooting/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "troubleshooting.md") {
		for _, section := range strings.Split("\n"+read(t, page), "\n### ")[1:] {
			section, _, _ = strings.Cut(section, "\n## ")
			heading, body, _ := strings.Cut(section, "\n")
			p := problem{page: page, heading: heading}
			for i, part := range strings.Split(body, "```") {
				if lines, ok := strings.CutPrefix(part, "text\n"); ok && i%2 == 1 {
					p.texts = append(p.texts, strings.Split(strings.TrimSpace(lines), "\n")...)
				} else if i%2 == 0 {
					p.prose += part
				}
			}
			all = append(all, p)
		}
	}
	return all
}

// inOthers are texts that are seen within other texts only.
var inOthers = []string{
	"the payload", "the reply", "the progress", "the answer", "the event …", "the call", "the question …", "the group …", "the history of …", "the handling of …",
	"the broker's Subscribe", "the broker's …", "the presence's Watch", "a message that decodes itself", "Refund, which Settle needs", "TakeMany, which Settle needs",
	"WebSocket API", "wskit ticket key ", "GET, HEAD", "text/plain; charset=utf-8", "unexpected option", "HTTP/1.1 101 Switching Protocols\r", "an array", "an object", "true or false", ", retry after …",
	"{ [key: string]: … }", "{ [key: string]: unknown }",
	"Authorization: Bearer TOKEN, or the subprotocol bearer.TOKEN where headers cannot be set, as in browsers",
	"A WebSocket. Each message is a JSON object, see PROTOCOL.md of wskit.", "before the reply, any number of times",
	"a message without a correlation id was refused or has failed", "the message with this correlation id was refused or has failed",
	"one of those of PROTOCOL.md, or the application's own", "the type of the message that failed, in an ERROR",
	"write the messages of this server to the standard output, as `ts`, schema or asyncapi, and exit",
	"compare `file` (.ts, or .json with asyncapi or schema in its name) with what -contract writes, and exit with 1 if it differs",
	"bucket, pacer, fixedWindow, calendar, slidingWindow or log", "… (…: …, capped by the maximum)",
}

// saysWhatToChange matches texts that end in what to do, such as "; set it to …".
var saysWhatToChange = regexp.MustCompile(`[;:] (?:add|declare|give|make|merge|name|pass|put|register|remove|set|use) `)

// Each text of the packages for users has an entry in the pages on troubleshooting, unless it says itself what to
// change, and the pages have no texts that the packages do not have.
func TestEachTextHasARemedy(t *testing.T) {
	all, known := texts(t), problems(t)
	patterns := make(linePatterns)
	clear := 0                    // texts without an entry
	used := make(map[string]bool) // by lines of the pages, and by entries of inOthers
	for _, s := range all {
		if slices.Contains(inOthers, s.text) {
			used[s.text] = true
			continue
		}
		found := false
		for _, p := range known {
			for _, line := range p.texts {
				if patterns.covers(line, s.text) {
					used[line], found = true, true
				}
			}
		}
		if !found && !s.log && saysWhatToChange.MatchString(s.text) {
			clear++
		} else if !found {
			t.Errorf("%s: the pages on troubleshooting have no entry for this text; add it to one of docs/troubleshooting/, with cause and remedy, or say in it what to change:\n%s", s.place, s.text)
		}
	}
	for _, p := range known {
		for _, line := range p.texts {
			if !used[line] {
				t.Errorf("%s, %q: no package has this text any more:\n%s", p.page, p.heading, line)
			}
			if len(strings.ReplaceAll(line, "…", "")) < 9 {
				t.Errorf("%s, %q: this text could be any:\n%s", p.page, p.heading, line)
			}
		}
	}
	for _, s := range inOthers {
		if !used[s] {
			t.Errorf("inOthers has %q, which no package has", s)
		}
	}
	if len(all) < 400 || clear > len(all)/10 {
		t.Errorf("%d texts were found, of which %d have no entry because they say what to change", len(all), clear)
	}
}

// linePatterns are the expressions for lines of the pages.
type linePatterns map[string]*regexp.Regexp

// covers reports whether a line of a page stands for a text.
func (l linePatterns) covers(line, text string) bool {
	if l[line] == nil {
		l[line] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
	}
	return l[line].MatchString(text)
}

// Each entry can be linked to, and says what the cause is and what to do.
func TestEachProblemHasCauseAndRemedy(t *testing.T) {
	seen := make(map[string]string)
	for _, p := range problems(t) {
		if seen[p.heading] == p.page {
			t.Errorf("%s has two headings %q", p.page, p.heading)
		}
		seen[p.heading] = p.page
		for _, what := range []string{"Cause: ", "Remedy: "} {
			if !strings.Contains(p.prose, "\n"+what) {
				t.Errorf("%s, %q: no line begins with %q", p.page, p.heading, what)
			}
		}
	}
}

// The codes of PROTOCOL.md, of errors, handshakes and close frames, have an entry each.
func TestEachCodeHasARemedy(t *testing.T) {
	var headings []string
	for _, p := range problems(t) {
		if p.page == "troubleshooting.md" {
			headings = append(headings, p.heading)
		}
	}
	protocol, codes := read(t, filepath.Join("..", "PROTOCOL.md")), 0
	for _, table := range []string{"| code | retryable | when |", "| status | when |", "| code | meaning | reconnect |"} {
		_, rows, found := strings.Cut(protocol, table)
		if !found {
			t.Fatalf("PROTOCOL.md has no table %s", table)
		}
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, row := range strings.Split(rows, "\n")[2:] {
			for _, code := range strings.Split(strings.TrimSpace(strings.Split(row, "|")[1]), ", ") {
				codes++
				if !slices.ContainsFunc(headings, func(h string) bool { return regexp.MustCompile(`\b` + code + `\b`).MatchString(h) }) {
					t.Errorf("troubleshooting.md has no heading with %s", code)
				}
			}
		}
	}
	if codes < 30 {
		t.Errorf("only %d codes were found", codes)
	}
}
