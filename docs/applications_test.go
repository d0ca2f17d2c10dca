package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All Go code of applications.md is in one of the examples, as it stands there.
func TestApplicationsShowsTheExamples(t *testing.T) {
	page, err := os.ReadFile("applications.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, name := range []string{"dashboard", "messenger"} {
		source, err := os.ReadFile(filepath.Join("..", "examples", name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, oneSpace(string(source)))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(strings.Join(sources, "\n"), oneSpace(code)) {
			t.Errorf("no example has\n%s", code)
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks of code were found", len(blocks))
	}
}

// oneSpace has one space in place of each indentation, alignment and end of a line.
func oneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }
