package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// An event is a line of go test -json, see go doc test2json.
type event struct {
	Action      string // output, pass, fail, skip, build-output, build-fail, ...
	Package     string
	ImportPath  string // of what does not build
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// A report is written by all stages concurrently.
type report struct {
	seed  int64
	out   io.Writer
	root  string
	began time.Time

	mu                      sync.Mutex
	passed, failed, skipped int      // tests, and packages that fail without one
	wrong                   []string // one for each package that failed: the command that repeats it
	times                   []took
}

// took is the time of a test.
type took struct {
	seconds float64
	what    string
}

// read reports the events of one go test, and returns whether a package failed.
func (r *report) read(c command, from io.Reader) (anyFailed bool) {
	type testOf struct{ pkg, test string }
	output := map[testOf][]string{} // of what runs
	failed := map[string][]string{} // the tests of a package
	events := json.NewDecoder(from)
	for {
		var e event
		if err := events.Decode(&e); err != nil {
			if err != io.EOF {
				r.broken(c, fmt.Errorf("go test writes no JSON: %w", err))
			}
			return anyFailed
		}
		top, _, sub := strings.Cut(e.Test, "/")
		key := testOf{cmp.Or(e.Package, e.ImportPath), top}
		switch e.Action {
		case "output", "build-output":
			output[key] = append(output[key], e.Output)
		case "pass", "fail", "skip":
			if sub {
				continue // its output and its failure are part of its test's
			}
			if e.Test == "" {
				anyFailed = anyFailed || e.Action == "fail"
				lines := append(output[key], output[testOf{pkg: e.FailedBuild}]...)
				for cut := range output { // what ran when the package hung or died
					if cut.pkg == e.Package && cut.test != "" {
						lines = append(lines, output[cut]...)
						delete(output, cut)
					}
				}
				r.ended(c, e, failed[e.Package], lines)
			} else {
				if e.Action == "fail" {
					failed[e.Package] = append(failed[e.Package], top)
					r.show(output[key])
				}
				r.count(e)
			}
			delete(output, key)
		}
	}
}

func (r *report) count(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
	case "skip":
		r.skipped++
	}
	r.times = append(r.times, took{e.Elapsed, short(e.Package) + " " + e.Test})
}

func (r *report) show(lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprint(r.out, strings.Join(lines, ""))
}

// ended reports a package.
func (r *report) ended(c command, e event, tests, output []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Action == "skip" { // no test files
		return
	}
	how := ""
	if slices.Contains(c.flags, "-race") {
		how = " (race)"
	}
	state := "ok  "
	if e.Action == "fail" {
		state = "FAIL"
		if len(tests) == 0 { // it does not build, its TestMain failed, it hung or died
			r.failed++
		}
		fmt.Fprint(r.out, strings.Join(output, ""))
		repeat := c.repeat(r.seed, e.Package, tests)
		r.wrong = append(r.wrong, repeat)
		defer fmt.Fprintf(r.out, "     again: %s\n", repeat)
	}
	fmt.Fprintf(r.out, "%s %6.1f s  %s%s\n", state, e.Elapsed, short(e.Package), how)
}

// repeat is the command that repeats a package in the same order, and which tests failed.
func (c command) repeat(seed int64, pkg string, tests []string) string {
	text := strings.Join(append([]string{"go test", fmt.Sprintf("-shuffle=%d", seed), pkg}, c.flags...), " ") // flags of the tests come after packages
	if c.dir != "" {
		text = "cd " + c.dir + " && " + text
	}
	if len(tests) > 0 {
		text += "  # alone: -run '^(" + strings.Join(tests, "|") + ")$'"
	}
	return text
}

// broken reports a command that could not do its work.
func (r *report) broken(c command, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	r.wrong = append(r.wrong, fmt.Sprintf("in ./%s: %v", c.dir, err))
}

// end prints the summary, and returns whether all is well.
func (r *report) end() (ok bool) {
	slices.SortFunc(r.times, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(r.out, "\nthe slowest tests:\n")
	for _, t := range r.times[:min(10, len(r.times))] {
		fmt.Fprintf(r.out, "     %6.1f s  %s\n", t.seconds, t.what)
	}
	for _, w := range r.wrong {
		fmt.Fprintf(r.out, "failed: %s\n", w)
	}
	fmt.Fprintf(r.out, "%.0f s\n", time.Since(r.began).Seconds())
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	return r.failed == 0 && r.passed > 0
}

const module = "github.com/wskit/wskit/"

// short is an import path without the project's.
func short(path string) string { return strings.TrimPrefix(path, module) }
