package house

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tests of each client have every scenario of clients/scenarios.json by its name, those of
// the page in e2e.
func TestClientsHaveEveryScenario(t *testing.T) {
	dir := root(t)
	text, err := os.ReadFile(filepath.Join(dir, "clients", "scenarios.json"))
	if err != nil {
		t.Fatal(err)
	}
	var scenarios []struct {
		Name         string
		Steps, Holds []string
		Browser      bool
	}
	if err := json.Unmarshal(text, &scenarios); err != nil {
		t.Fatal(err)
	}
	if len(scenarios) < 34 {
		t.Errorf("there are %d scenarios", len(scenarios))
	}
	once := map[string]bool{}
	for _, s := range scenarios {
		if s.Name == "" || len(s.Steps) == 0 || len(s.Holds) == 0 || once[s.Name] {
			t.Errorf("the scenario %q is not complete, or is there twice", s.Name)
		}
		once[s.Name] = true
	}
	for _, tests := range []struct {
		pattern string
		browser bool
	}{
		{"clients/typescript/test/*.test.ts", false},
		{"client/*_test.go", false},
		{"e2e/client_*_test.go", true},
	} {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(tests.pattern)))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(source)
		}
		for _, s := range scenarios {
			if s.Browser == tests.browser && !strings.Contains(all.String(), `"`+s.Name+`"`) {
				t.Errorf("%s has no test %q, see clients/scenarios.json", tests.pattern, s.Name)
			}
		}
	}
}
