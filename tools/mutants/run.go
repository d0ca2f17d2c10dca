package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A runner runs tests in a copy of the tree: tests that fail may write files.
type runner struct {
	root, temp string
	inPlace    sync.RWMutex // held for writing while a file of the copy is broken itself
}

// goTest runs go test in a folder, and returns what it printed.
func goTest(dir string, args ...string) (string, error) {
	if i := slices.Index(args, "-C"); i >= 0 && i+1 < len(args) { // of go it has to be the first argument
		dir, args = filepath.Join(dir, args[i+1]), slices.Delete(slices.Clone(args), i, i+2)
	}
	flags := []string{"test", "-short", "-failfast", "-count=1", "-vet=off", "-timeout=5m"}
	cmd := exec.Command("go", append(flags, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run breaks the product as m says, and returns what became of it: found, and by what, or why not.
func (r *runner) run(m *mutant, checkOnly bool) (found bool, outcome string) {
	path, broken, err := m.find(r.root)
	if err != nil {
		return false, "does not match: " + err.Error()
	}
	if checkOnly && filepath.Ext(path) != ".go" {
		return true, "matches"
	}
	if !checkOnly && (m.whole || !slices.Contains([]string{".go", ".lua"}, filepath.Ext(path))) {
		return r.runInPlace(m, path, broken)
	}
	overlay, err := r.overlay(path, broken)
	if err != nil {
		return false, err.Error()
	}
	if checkOnly {
		cmd := exec.Command("go", "build", "-overlay="+overlay, ".")
		cmd.Dir = filepath.Dir(path)
		if out, err := cmd.CombinedOutput(); err != nil {
			return false, "does not compile: " + string(out)
		}
		return true, "matches and compiles"
	}
	r.inPlace.RLock()
	defer r.inPlace.RUnlock()
	return judge(goTest(r.root, append([]string{"-overlay=" + overlay}, m.test...)...))
}

// overlay writes what go build reads in place of a file.
func (r *runner) overlay(path, broken string) (string, error) {
	dir, err := os.MkdirTemp(r.temp, "overlay")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, filepath.Base(path))
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: file}})
	if err == nil {
		err = os.WriteFile(file, []byte(broken), 0o600)
	}
	name := filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	return name, err
}

// runInPlace is for files that go build does not read, and for tests that read the product's files.
func (r *runner) runInPlace(m *mutant, path, broken string) (found bool, outcome string) {
	r.inPlace.Lock()
	defer r.inPlace.Unlock()
	right, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(broken), 0o600)
	}
	if err != nil {
		return false, err.Error()
	}
	found, outcome = judge(goTest(r.root, m.test...))
	if err := os.WriteFile(path, right, 0o600); err != nil {
		return false, err.Error()
	}
	return found, outcome
}

// copyTree copies the files that git knows or would add. What is installed beside them is linked to.
func copyTree(from, to string) error {
	const pipe = `git ls-files -z -co --exclude-standard | tar -c --null -T - --ignore-failed-read | tar -x -C "$0"`
	cmd := exec.Command("sh", "-c", pipe, to)
	cmd.Dir = from
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copying the tree: %w: %s", err, out)
	}
	for _, pattern := range []string{"*/node_modules", "*/*/node_modules", "*/*/*/node_modules"} {
		found, _ := filepath.Glob(filepath.Join(from, pattern))
		for _, path := range found {
			target := filepath.Join(to, strings.TrimPrefix(path, from))
			if err := os.Symlink(path, target); err != nil && !os.IsExist(err) {
				return err
			}
		}
	}
	return nil
}

var (
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	killed   = regexp.MustCompile(`(?m)^signal: (killed|terminated|interrupt)`)
	unbuilt  = regexp.MustCompile(`(?m)\[(build|setup) failed\]`)
	timedOut = regexp.MustCompile(`(?m)^panic: test timed out.*\n(?:\s*running tests:\n\s*(\S+))?`)
)

// judge reads the output of go test. Only a test that fails has found something.
func judge(out string, err error) (found bool, outcome string) {
	if err == nil {
		return false, "NOT FOUND"
	}
	if killed.MatchString(out) {
		return false, "the tests were killed"
	}
	if unbuilt.MatchString(out) {
		return false, "does not compile: " + out
	}
	if late := timedOut.FindStringSubmatch(out); late != nil {
		return true, "found by the time limit alone, in " + late[1]
	}
	if names := failed.FindAllStringSubmatch(out, -1); len(names) > 0 {
		return true, "found by " + names[len(names)-1][1]
	}
	if strings.Contains("\n"+out, "\nFAIL\t") {
		return true, "found by the end of the test program"
	}
	return false, fmt.Sprintf("go test failed: %v\n%s", err, out)
}
