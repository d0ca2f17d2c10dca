package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const list = `in: a b

# Something breaks,
# and this says more.
test: ./a -run X|Y
 	if n > max {
-		return true
+		return false

# Another break.
test: ./b
-	x := 1
`

func TestParse(t *testing.T) {
	all, err := parse("a.txt", list)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	m := all[0]
	if m.where != "a.txt:3" || m.name != "Something breaks, and this says more." || strings.Join(m.in, " ") != "a b" ||
		strings.Join(m.test, " ") != "./a -run X|Y" || strings.Join(m.old, ";") != "if n > max {;return true" ||
		strings.Join(m.new, ";") != "if n > max {;return false" {
		t.Errorf("the first entry is %+v", m)
	}
	for _, wrong := range []string{
		"# No folders.\ntest: ./a\n-x\n", "in: a\n\n# No test.\n-x\n", "in: a\n\n# No lines.\ntest: ./a\n",
		"in: a\n\n# The same.\ntest: ./a\n-x\n+x\n", "in: a\n\njunk\n",
	} {
		if _, err := parse("a.txt", wrong); err == nil {
			t.Errorf("accepted: %q", wrong)
		}
	}
}

// The lines are found wherever they are, but in one place only, and not in tests.
func TestFind(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = "func f() bool {\n\t\tif n > max {\n\t\t\treturn true\n\t\t}\n}\n"
	all, err := parse("a.txt", list)
	if err != nil {
		t.Fatal(err)
	}
	m := all[0]
	write("b/c.go", "package b\n")
	write("a/a_test.go", text)
	write("a/testdata/a.go", text)
	if _, _, err := m.find(root); err == nil {
		t.Error("found in tests alone")
	}
	write("a/deep/a.go", text)
	path, broken, err := m.find(root)
	right := strings.Contains(broken, "return false\n\t\t}\n") && !strings.Contains(broken, "true")
	if err != nil || path != filepath.Join(root, "a/deep/a.go") || !right {
		t.Errorf("%s, %v:\n%s", path, err, broken)
	}
	write("b/another.ts", text)
	if _, _, err := m.find(root); err == nil {
		t.Error("found in two places")
	}
}

func TestJudge(t *testing.T) {
	fails := os.ErrInvalid
	for _, c := range []struct {
		out  string
		err  error
		v    verdict
		what string
	}{
		{"ok  \tx\t0.1s\n", nil, missed, "NOT FOUND"},
		{"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\nFAIL\tx\t0.1s\n", fails, found, "found by TestA/b"},
		{"# x\n./a.go:1: undefined: y\nFAIL\tx [build failed]\nFAIL\n", fails, untried, "does not compile"},
		{"panic: test timed out after 4m0s\n\trunning tests:\n\t\tTestA (4m0s)\n\nFAIL\tx\t240s\n", fails, late,
			"found by the time limit alone, in TestA"},
		{"--- FAIL: TestA (0.00s)\npanic: test timed out after 4m0s\n\trunning tests:\n\t\tTestB (4m0s)\n", fails, found,
			"found by TestA"},
		{"fatal error: all goroutines are asleep\nFAIL\tx\t0.1s\n", fails, found, "found by the end of the test program"},
		{"signal: killed\nFAIL\tx\t0.1s\n", fails, untried, "the tests were killed"},
		{"--- FAIL: TestA (0.00s)\n", errGivenUp, untried, "given up"},
		{"go: no such package\n", fails, untried, "go test failed"},
	} {
		if v, what := judge(c.out, c.err); v != c.v || !strings.HasPrefix(what, c.what) {
			t.Errorf("%q: %v, %q", c.out, v, what)
		}
	}
}

// A break that only the time limit finds is none that was found.
func TestTally(t *testing.T) {
	for want, counts := range map[string]tally{
		"10 breaks: 4 found, 3 found by the time limit alone, 2 not found, 1 could not be tried": {
			found: 4, late: 3, missed: 2, untried: 1,
		},
		"4 of 5 in exactly one place, and compile": {matches: 4, untried: 1},
	} {
		if got := counts.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Tests that hang are given up, with all that they have started.
func TestHangingTestsAreGivenUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	// The inner one is not a child of the command, but has its output.
	cmd := exec.CommandContext(ctx, "sh", "-c", "(sleep 1000 &); echo begun; sleep 1000")
	cmd.WaitDelay = time.Hour
	wait := ends(t, cmd)
	if _, err := output(ctx, cmd); err != errGivenUp {
		t.Errorf("got %v", err)
	}
	wait()
}

// What tests leave running does not keep the command from ending, and is ended.
func TestWhatTestsLeaveIsEnded(t *testing.T) {
	for command, fails := range map[string]bool{"sleep 1000 & echo ok": false, "sleep 1000 & echo ok; exit 1": true} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.WaitDelay = time.Millisecond
		wait := ends(t, cmd)
		out, err := output(t.Context(), cmd)
		if out != "ok\n" || (err != nil) != fails {
			t.Errorf("%s: %q, %v", command, out, err)
		}
		wait()
	}
}

// ends returns a function that waits until no process has what cmd hands on to those that it starts.
func ends(t *testing.T, cmd *exec.Cmd) (wait func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{w}
	return func() {
		t.Helper()
		_ = w.Close()
		if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
			t.Errorf("read %q, %v", b, err)
		}
		_ = r.Close()
	}
}

// The lists that are kept can be read.
func TestListsCanBeRead(t *testing.T) {
	all, err := readLists(".", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 85 {
		t.Errorf("there are %d entries, want at least 85", len(all))
	}
}
