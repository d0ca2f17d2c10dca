package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wskit/wskit/tools/overlay"
)

// A runner runs tests in a copy of the tree: tests that fail may write files.
type runner struct {
	root, temp string
	inPlace    sync.RWMutex // held for writing while a file of the copy is broken itself
}

const (
	// breakLimit is how long the tests of a package may run that are to find a break. They are short. It is longer than
	// the guard of internal/poll, so that a test which waits in vain says for what.
	breakLimit = 150 * time.Second
	// unbrokenLimit is for those of all breaks together.
	unbrokenLimit = 20 * time.Minute
	// grace is for building, while the machine does other things.
	grace = 5 * time.Minute
)

// errGivenUp is returned for tests that neither end nor are ended by the time limit of go test.
var errGivenUp = errors.New("go test did not end")

// goTest runs go test in a folder, and returns what it printed. Each package may run for the limit.
func goTest(dir string, limit time.Duration, args ...string) (string, error) {
	if i := slices.Index(args, "-C"); i >= 0 && i+1 < len(args) { // of go it has to be the first argument
		dir, args = filepath.Join(dir, args[i+1]), slices.Delete(slices.Clone(args), i, i+2)
	}
	flags := []string{"test", "-short", "-failfast", "-count=1", "-vet=off", "-timeout=" + limit.String()}
	// Of several packages, one may wait for another one.
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(flags, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CI=true") // a test that cannot run, for want of a program, finds nothing
	cmd.WaitDelay = 5 * time.Second
	return output(ctx, cmd)
}

// output runs a command, and returns what it printed. Programs that it has started end with it, and when ctx ends.
func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = kill
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = kill()
	}
	switch {
	case ctx.Err() != nil:
		err = errGivenUp
	case errors.Is(err, exec.ErrWaitDelay): // it has succeeded, but something that it has started went on
		err = nil
	}
	return string(out), err
}

// A verdict is what became of a break.
type verdict int

const (
	untried verdict = iota
	missed
	late // found, but only by the time limit
	found
	matches // and compiles
)

// run breaks the product as m says, and returns what became of it, and by what or why.
func (r *runner) run(m *mutant, checkOnly bool) (v verdict, outcome string) {
	r.inPlace.RLock() // before files are read: another break may be in one of them
	path, broken, err := m.find(r.root)
	if err == nil && !checkOnly && (m.whole || !slices.Contains([]string{".go", ".lua", ".sql"}, filepath.Ext(path))) {
		r.inPlace.RUnlock()
		return r.runInPlace(m)
	}
	defer r.inPlace.RUnlock()
	if err != nil {
		return untried, "does not match: " + err.Error()
	}
	if checkOnly && filepath.Ext(path) != ".go" {
		return matches, "matches"
	}
	dir, err := os.MkdirTemp(r.temp, "overlay")
	if err != nil {
		return untried, err.Error()
	}
	list, err := overlay.Write(dir, map[string][]byte{path: []byte(broken)})
	if err != nil {
		return untried, err.Error()
	}
	if checkOnly {
		cmd := exec.Command("go", "build", "-o", os.DevNull, "-overlay="+list, ".")
		cmd.Dir = filepath.Dir(path)
		if out, err := cmd.CombinedOutput(); err != nil {
			return untried, "does not compile: " + string(out)
		}
		return matches, "matches and compiles"
	}
	return judge(goTest(r.root, breakLimit, append([]string{"-overlay=" + list}, m.test...)...))
}

// runInPlace is for files that go build does not read, and for tests that read the product's files.
func (r *runner) runInPlace(m *mutant) (v verdict, outcome string) {
	r.inPlace.Lock()
	defer r.inPlace.Unlock()
	path, broken, err := m.find(r.root)
	if err != nil {
		return untried, "does not match: " + err.Error()
	}
	right, err := os.ReadFile(path)
	if err != nil {
		return untried, err.Error()
	}
	if err := replace(path, broken); err != nil {
		v, outcome = untried, err.Error()
	} else {
		v, outcome = judge(goTest(r.root, breakLimit, m.test...))
	}
	if err := replace(path, string(right)); err != nil {
		return untried, err.Error()
	}
	return v, outcome
}

// replace writes a file, and what is built from it: tests of TypeScript import that.
func replace(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if filepath.Ext(path) != ".ts" {
		return nil
	}
	cmd := exec.Command("npm", "run", "build") // npm looks for the package in the folders above
	cmd.Dir = filepath.Dir(path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return nil
}

// copyTree copies the files that git knows or would add. What is installed next to them is linked to.
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
func judge(out string, err error) (v verdict, outcome string) {
	if err == nil {
		return missed, "NOT FOUND"
	}
	if err == errGivenUp {
		return untried, "given up: " + err.Error() + "\n" + out
	}
	if killed.MatchString(out) {
		return untried, "the tests were killed"
	}
	if unbuilt.MatchString(out) {
		return untried, "does not compile: " + out
	}
	if names := failed.FindAllStringSubmatch(out, -1); len(names) > 0 {
		return found, "found by " + names[len(names)-1][1] // though others may have waited until the time limit
	}
	if l := timedOut.FindStringSubmatch(out); l != nil {
		return late, "found by the time limit alone, in " + l[1]
	}
	if strings.Contains("\n"+out, "\nFAIL\t") {
		return found, "found by the end of the test program"
	}
	return untried, fmt.Sprintf("go test failed: %v\n%s", err, out)
}
