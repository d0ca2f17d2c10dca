// Skill writes what an assistant that writes code needs: docs/skill/SKILL.md, the pages that an application is written
// from in one file, and llms.txt, the list of all pages. Both are made of the pages, whose code is tested.
//
//	go generate ./docs/skill
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:generate go run . -root ../..

func main() {
	root := flag.String("root", ".", "the folder of the repository")
	flag.Parse()
	files, err := written(*root)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(*root, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// pages are those that an application is written from, in the order of the skill.
var pages = []string{
	"docs/messages.md", "docs/requests.md", "docs/topics.md", "docs/delivery.md", "docs/authentication.md", "docs/rate-limits.md",
	"docs/several-servers.md", "docs/testing.md", "clients/typescript/README.md",
}

const head = `---
name: wskit
description: Write realtime WebSocket servers in Go with wskit, and their clients. Typed handlers, rooms, history, presence, exact rate limits.
---

`

// written returns what is to be written, by the name of the file.
func written(root string) (map[string]string, error) {
	readme, err := read(root, "README.md")
	if err != nil {
		return nil, err
	}
	skill := head + plain(between(readme, "# wskit", "## Beside others"))
	for _, page := range pages {
		text, err := read(root, page)
		if err != nil {
			return nil, err
		}
		skill += "\n" + plain(deeper(text))
	}
	all, err := list(root, readme)
	return map[string]string{"docs/skill/SKILL.md": skill, "llms.txt": all}, err
}

func read(root, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	return string(b), err
}

// between is the part of a text from one line to another, without that.
func between(text, from, to string) string {
	text = text[strings.Index(text, from):]
	return text[:strings.Index(text, to)]
}

var (
	picture = regexp.MustCompile(`(?m)^!\[.*\n\n?`)
	link    = regexp.MustCompile(`\[([^\]]*)\]\([^)\s]*\)`)
	footer  = regexp.MustCompile(`(?m)^\[All pages\].*\n`)
	heading = regexp.MustCompile(`(?m)^#`)
)

// plain is a page without pictures and links.
func plain(text string) string {
	text = footer.ReplaceAllString(picture.ReplaceAllString(text, ""), "")
	return strings.TrimSpace(eachText(text, func(s string) string { return link.ReplaceAllString(s, "$1") })) + "\n"
}

// deeper is a page whose headings are one level lower.
func deeper(text string) string {
	return eachText(text, func(s string) string { return heading.ReplaceAllString(s, "##") })
}

// eachText changes what is no block of code.
func eachText(text string, change func(string) string) string {
	parts := strings.Split(text, "```")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = change(parts[i])
	}
	return strings.Join(parts, "```")
}

// list is llms.txt: what wskit is, and each page with its first sentence.
func list(root, readme string) (string, error) {
	paragraphs := strings.Split(readme, "\n\n")
	text := "# wskit\n\n> " + strings.ReplaceAll(paragraphs[1], "\n", "\n> ") + "\n\n## Pages\n\n"
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return "", err
	}
	all := []string{"docs/skill/SKILL.md", "clients/typescript/README.md", "PROTOCOL.md", "CHANGELOG.md"}
	for _, name := range names {
		all = append(all, path.Join("docs", filepath.Base(name)))
	}
	slices.Sort(all[4:])
	for _, name := range all {
		if name == "docs/skill/SKILL.md" {
			text += "- [All that an application is written from](docs/skill/SKILL.md): the pages marked with * in one file\n"
			continue
		}
		page, err := read(root, name)
		if err != nil {
			return "", err
		}
		mark := ""
		if slices.Contains(pages, name) {
			mark = " *"
		}
		text += fmt.Sprintf("- [%s](%s)%s: %s\n", title(page), name, mark, sentence(page))
	}
	return text, nil
}

func title(page string) string {
	line, _, _ := strings.Cut(page, "\n")
	return strings.TrimPrefix(line, "# ")
}

var end = regexp.MustCompile(`[.:](\s|$)`)

// sentence is the first one of a page, below its title.
func sentence(page string) string {
	for _, paragraph := range strings.Split(page, "\n\n")[1:] {
		if strings.HasPrefix(paragraph, "!") || strings.HasPrefix(paragraph, "```") {
			continue
		}
		text := plain(strings.ReplaceAll(paragraph, "\n", " "))
		if at := end.FindStringIndex(text); at != nil {
			text = text[:at[0]]
		}
		return strings.TrimSpace(text)
	}
	return ""
}
