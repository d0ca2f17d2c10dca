package docs_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	code    = regexp.MustCompile("`[^`\n]*`")
)

// Every relative link of a page leads to a file, and every #anchor to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, _ := repository(t)
	anchors := map[string]map[string]bool{}
	for name, page := range pages {
		anchors[name] = anchorsOf(page)
	}
	links := 0
	for name, page := range pages {
		text := code.ReplaceAllString(fenced.ReplaceAllString(page, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			if err := leads(name, m[1], anchors); err != nil {
				t.Errorf("%s: the link %s: %v", name, m[1], err)
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// leads follows a link of a page.
func leads(from, to string, anchors map[string]map[string]bool) error {
	file, fragment, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(target))); err != nil {
		return err
	}
	if fragment != "" && anchors[target] != nil && !anchors[target][fragment] {
		return fmt.Errorf("%s has no heading for it", target)
	}
	return nil
}

// anchorsOf are the anchors that a page has where it is shown: those of its headings, and its own.
func anchorsOf(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		name := slug(m[1])
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", slug(m[1]), n)
		}
		all[name] = true
	}
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		all[m[1]] = true
	}
	return all
}

// slug is the anchor of a heading, as GitHub makes it.
func slug(text string) string {
	text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(text))
}

// Every page of the guide is in its index, and leads to it.
func TestIndexHasAllPages(t *testing.T) {
	pages, _ := repository(t)
	for name, text := range pages {
		dir, file := path.Split(name)
		if dir != "docs/" || file == "README.md" {
			continue
		}
		if !strings.Contains(pages["docs/README.md"], "("+file+")") {
			t.Errorf("docs/README.md has no link to %s", file)
		}
		if !strings.HasSuffix(text, "\n\n[All pages](README.md)\n") {
			t.Errorf("%s does not end with [All pages](README.md)", name)
		}
	}
}
