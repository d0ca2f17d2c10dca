package house

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Tests that are skipped under the race detector run in another command of tools/suite, which selects them by their
// names.
func TestWhatTheRaceDetectorSkipsRuns(t *testing.T) {
	stages, err := os.ReadFile(filepath.Join(root(t), "tools", "suite", "stages.go"))
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`onlyWithoutRace = "(.+)"`).FindSubmatch(stages)
	if pattern == nil {
		t.Fatal("tools/suite/stages.go does not say which tests run without the race detector")
	}
	runs := regexp.MustCompile(string(pattern[1]))
	skipped := regexp.MustCompile(`(?s)\nfunc (Test\w+)\(t \*testing\.T\) \{[^}]*race\.Enabled[^{}]*\{[^}]*t\.Skip`)
	found := 0
	for dir, files := range testFiles(t) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range skipped.FindAllSubmatch(text, -1) {
				found++
				if !runs.Match(m[1]) {
					t.Errorf("%s of %s is skipped under the race detector, and no command of tools/suite runs it otherwise", m[1], dir)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("%d tests are skipped under the race detector; has their form changed?", found)
	}
}
