package page

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A section renders as Markdown: its code fences are balanced, and blank lines separate what is a block of its own.
func TestSectionIsMarkdown(t *testing.T) {
	old := flag.CommandLine
	defer func() { flag.CommandLine = old }()
	flag.CommandLine = flag.NewFlagSet("c", flag.ContinueOnError)
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	s := Section{Title: "T", Command: "c", About: "What was measured.", Table: [][]string{{"a", "b"}, {"1", "2"}}, Notes: "A note."}
	if err := s.Show(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(strings.TrimPrefix(string(text), head), "\n\n")
	want := []string{"\n## T", "```\ngo run ./cmd/c\n```", "What was measured.", "| a | b |\n| - | - |\n| 1 | 2 |", "A note."}
	for i, w := range want {
		if i >= len(blocks) || blocks[i] != w {
			t.Fatalf("block %d of %q, want %q", i, blocks, w)
		}
	}
	if last := blocks[len(blocks)-1]; !strings.HasPrefix(last, "- CPU:") {
		t.Errorf("%q is last, want the machine", last)
	}
	s.Libraries = []string{"a: example.com/a v1", "b: example.com/b v2"}
	if want := "\n\nLibraries:\n\n- a: example.com/a v1\n- b: example.com/b v2"; !strings.HasSuffix(s.text(), want) {
		t.Errorf("%q does not end with the libraries", s.text())
	}
}
