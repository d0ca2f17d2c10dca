package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// What is written is what the pages say now, and fits into what an assistant reads at once.
func TestSkillIsUpToDate(t *testing.T) {
	files, err := written(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the pages say (%v): go generate ./docs/skill", name, err)
		}
		if n := len(strings.Fields(want)); n > 8000 {
			t.Errorf("%s has %d words; the most is 8000", name, n)
		}
	}
}

// Every name of a package of this module exists.
func TestNamesOfTheSkillExist(t *testing.T) {
	surface, err := os.ReadFile(filepath.Join(root, "internal", "house", "testdata", "surface.txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(surface)) {
		in, name, _ := strings.Cut(strings.TrimSpace(line), ": ")
		_, name, _ = strings.Cut(name, " ")
		known[in[strings.LastIndex(in, "/")+1:]+"."+name] = true
	}
	skill, err := os.ReadFile("SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`\b(router|limit|ratelimit|gate|ingress|redis|memory|routertest|adapters|pubsub)\.([A-Z]\w*)`)
	all := used.FindAllString(string(skill), -1)
	for _, name := range all {
		if !known[name] {
			t.Errorf("SKILL.md names %s, which there is not", name)
		}
	}
	if len(all) < 50 {
		t.Errorf("SKILL.md names %d things of the module", len(all))
	}
}
