package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	folderOfTests = regexp.MustCompile("`([a-z/]+)`:([^`;]*)")
	testName      = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
)

// TestInvariantsHaveTests checks docs/invariants.md: each invariant names tests, and they
// exist.
func TestInvariantsHaveTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "\n## ")
	found := 0
	for invariant := range strings.SplitSeq(list, "\n- ") {
		title, _, _ := strings.Cut(invariant, "\n")
		named := 0
		for _, m := range folderOfTests.FindAllStringSubmatch(invariant, -1) {
			have := testsIn(t, m[1])
			for _, name := range testName.FindAllString(m[2], -1) {
				if named++; !have[name] {
					t.Errorf("%s: %s has no %s", title, m[1], name)
				}
			}
		}
		if found += named; named == 0 && !strings.HasPrefix(title, "Limits") {
			t.Errorf("%s: no test is named", title)
		}
	}
	if found < 50 {
		t.Errorf("%d tests found in docs/invariants.md; has its form changed?", found)
	}
}

// testsIn lists the tests and fuzz targets of a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	have := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			have[string(m[1])] = true
		}
	}
	return have
}
