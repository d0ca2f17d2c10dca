package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run runs the tests of a module with one file, and returns what is reported.
func run(t *testing.T, file string, flags ...string) (text string, ok bool) {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	module := map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m_test.go": "package m\n" + file}
	for name, text := range module {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	r := &report{seed: 7, out: &out, root: root, began: time.Now()}
	r.run(stage{commands: []command{{flags: flags}}})
	ok = r.end()
	return out.String(), ok
}

func expect(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func TestWhatPasses(t *testing.T) {
	text, ok := run(t, `import "testing"
		func TestOne(t *testing.T) { t.Log("not shown") }
		func TestTwo(t *testing.T) { t.Skip() }`)
	if !ok || strings.Contains(text, "not shown") {
		t.Errorf("ok is %t, and the report:\n%s", ok, text)
	}
	expect(t, text, "ok  ", "example.com/m\n", "the slowest tests", "\n1 passed, 0 failed, 1 skipped\n")
}

// A failure shows what the test has logged, and the command that repeats it.
func TestWhatFails(t *testing.T) {
	text, ok := run(t, `import "testing"
		func TestOne(t *testing.T) { t.Run("part", func(t *testing.T) { t.Error("the reason") }) }
		func TestTwo(t *testing.T) { t.Log("not shown") }`, "-race")
	if ok || strings.Contains(text, "not shown") {
		t.Errorf("ok is %t, and the report:\n%s", ok, text)
	}
	expect(t, text, "the reason", "FAIL", "example.com/m (race)",
		"go test -shuffle=7 example.com/m -race  # alone: -run '^(TestOne)$'", "\n1 passed, 1 failed, 0 skipped\n")
}

func TestWhatHangs(t *testing.T) {
	text, ok := run(t, `import ("testing"; "fmt")
		func TestOne(t *testing.T) { fmt.Println("its log"); select {} }`, "-timeout=1s")
	if ok {
		t.Errorf("a test that hangs has passed:\n%s", text)
	}
	expect(t, text, "its log", "panic: test timed out", "0 passed, 1 failed")
}

func TestWhatDies(t *testing.T) {
	text, ok := run(t, `import ("testing"; "os")
		func TestOne(t *testing.T) { t.Log("its log"); os.Exit(3) }`)
	if ok {
		t.Errorf("a test that dies has passed:\n%s", text)
	}
	expect(t, text, "FAIL", "0 passed, 1 failed")
}

func TestWhatDoesNotBuild(t *testing.T) {
	text, ok := run(t, `import "testing"
		func TestOne(t *testing.T) { undeclared() }`)
	if ok {
		t.Errorf("what does not build has passed:\n%s", text)
	}
	expect(t, text, "undeclared", "0 passed, 1 failed")
}

// A run without tests is no success.
func TestNothingToRun(t *testing.T) {
	if text, ok := run(t, ``); ok {
		t.Errorf("no test is a success:\n%s", text)
	}
}

// The packages that stages.go names exist.
func TestStagesNamePackages(t *testing.T) {
	for _, stages := range [][]stage{everyday, all} {
		for _, s := range stages {
			for _, c := range s.commands {
				if _, err := c.list("../.."); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
