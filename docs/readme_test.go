package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// The README is read to its end: at most 180 lines, and a program of at most 25, without imports.
func TestReadmeIsShort(t *testing.T) {
	text := read(t, "../README.md")
	if n := strings.Count(text, "\n"); n > 180 {
		t.Errorf("the README has %d lines; the most is 180", n)
	}
	program := regexp.MustCompile("(?s)```go\npackage main\n.*?\n\\)\n(.*?)```").FindStringSubmatch(text)
	if program == nil {
		t.Fatal("the README has no program")
	}
	lines := 0
	for line := range strings.Lines(program[1]) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > 25 {
		t.Errorf("the program of the README has %d lines; the most is 25", lines)
	}
}
