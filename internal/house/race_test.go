package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tests that are skipped under the race detector run in another command of the Makefile, which selects them by
// their names.
func TestWhatTheRaceDetectorSkipsRuns(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`\$\(GO\) test -run '?([\w|]+)'? (.*)`).FindAllStringSubmatch(string(makefile), -1)
	runs := func(test, folder string) bool {
		for _, command := range commands {
			for pattern := range strings.FieldsSeq(command[2]) {
				below, all := strings.CutSuffix(pattern, "/...")
				in := pattern == "./"+folder || all && strings.HasPrefix("./"+folder+"/", below+"/")
				if in && regexp.MustCompile(command[1]).MatchString(test) {
					return true
				}
			}
		}
		return false
	}
	skipped := regexp.MustCompile(`(?s)\nfunc (Test\w+)\(t \*testing\.T\) \{[^}]*race\.Enabled[^{}]*\{[^}]*t\.Skip`)
	found := 0
	err = filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") { // folders in them come and go
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root(t), filepath.Dir(path))
		for _, m := range skipped.FindAllSubmatch(text, -1) {
			if found++; !runs(string(m[1]), filepath.ToSlash(folder)) {
				t.Errorf("%s of %s is skipped under the race detector, and no command of the Makefile runs it otherwise", m[1], folder)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("%d tests are skipped under the race detector; has their form changed?", found)
	}
}
