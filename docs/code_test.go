package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pages whose code the browser tests save and run, in module e2e.
var runByBrowserTests = map[string]bool{"README.md": true, "docs/first-steps.md": true}

// All Go code of the pages is in a Go file of the repository, as it stands there: tests and examples compile it and run
// it. A line "…" in a block stands for code that is left out.
func TestCodeOfThePagesIsCompiled(t *testing.T) {
	pages, sources := repository(t)
	blocks := 0
	for name, page := range pages {
		if runByBrowserTests[name] {
			continue
		}
		for _, block := range strings.Split(page, "\n```go\n")[1:] {
			code, _, _ := strings.Cut(block, "\n```")
			blocks++
			if !compiled(code, sources) {
				t.Errorf("%s: no Go file has\n%s", name, code)
			}
		}
	}
	if blocks < 30 {
		t.Errorf("%d blocks of code were found", blocks)
	}
}

// compiled reports whether one of the sources has all parts of a block.
func compiled(code string, sources []string) bool {
	var parts []string
	for _, part := range strings.Split(code, "\n…\n") {
		parts = append(parts, oneSpace(part))
	}
	for _, source := range sources {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(source, part)
		}
		if found {
			return true
		}
	}
	return false
}

// oneSpace has one space in place of each indentation, alignment and end of a line.
func oneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

// repository reads all pages, by path, and all Go files, with one space in place of each indentation.
func repository(t *testing.T) (pages map[string]string, sources []string) {
	t.Helper()
	pages = make(map[string]string)
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "screenshots" || name == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if path == "docs/skill/SKILL.md" { // it is made of the other pages
			return nil
		}
		switch filepath.Ext(path) {
		case ".md":
			text, err := os.ReadFile(filepath.Join("..", path))
			pages[path] = string(text)
			return err
		case ".go":
			text, err := os.ReadFile(filepath.Join("..", path))
			sources = append(sources, oneSpace(string(text)))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, sources
}
