package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var exampleLink = regexp.MustCompile("\\[`(\\w+)\\.(Example\\w*)`\\]\\(([^)]+)\\)")

// Examples that need a test or a Redis, which an example with an output does not have. Tests beside them do the same.
var withoutOutput = map[string]bool{"routertest": true, "redis": true}

// Each example of the list is in the file that it links to, and its output is checked when the tests run.
func TestListedExamplesExist(t *testing.T) {
	page := read(t, "examples.md")
	found := 0
	for _, m := range exampleLink.FindAllStringSubmatch(page, -1) {
		found++
		pkg, name, file := m[1], m[2], m[3]
		text := read(t, file)
		if !strings.Contains(text, "\npackage "+pkg+"_test\n") && !strings.HasPrefix(text, "package "+pkg+"_test\n") {
			t.Errorf("%s is not in package %s", file, pkg)
		}
		_, body, begins := strings.Cut(text, "\nfunc "+name+"() {\n")
		body, _, _ = strings.Cut(body, "\n}\n")
		switch {
		case !begins:
			t.Errorf("%s has no %s", path.Clean(file), name)
		case !strings.Contains(body, "// Output:") && !strings.Contains(body, "// Unordered output:") && !withoutOutput[pkg]:
			t.Errorf("%s is compiled and not run: it has no output", name)
		}
	}
	if rows := strings.Count(page, "\n| ") - strings.Count(page, "\n| **") - 1; found < 20 || found < rows {
		t.Errorf("%d examples in %d lines", found, rows)
	}
}
