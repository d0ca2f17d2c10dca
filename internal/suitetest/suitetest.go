// Package suitetest tests conformance suites: a suite has to find each fault of implementations
// that are wrong in one way. A suite that finds one fails its test, so it runs in a process of its
// own.
package suitetest

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// env has the name of the fault, in such a process.
const env = "WSKIT_TEST_FAULT"

// Catches runs a test of this program, a pattern of -test.run, with a fault until it fails, and
// returns its output. It may pass a number of times, less than runs, before: a fault that is a race may stay
// hidden. Arguments are added to the command line.
func Catches(t *testing.T, runs int, test, fault string, args ...string) (output string) {
	t.Helper()
	for range runs {
		if output, err := Run(test, fault, args...); err != nil {
			return output
		}
	}
	t.Fatalf("the suite passed what has the fault %d times", runs)
	return ""
}

// Run runs a test with a fault once.
func Run(test, fault string, args ...string) (output string, err error) {
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=" + test}, args...)...)
	cmd.Env = append(os.Environ(), env+"="+fault)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Fault returns the name of the fault for a test that Run runs. All others skip the test.
func Fault(t *testing.T) (name string) {
	t.Helper()
	if name = os.Getenv(env); name == "" {
		t.Skip("run with a fault, by the test of what the suite catches")
	}
	return name
}

// Find is Fault, and returns the fault with that name.
func Find[F any](t *testing.T, faults []F, name func(F) string) F {
	t.Helper()
	want := Fault(t)
	i := slices.IndexFunc(faults, func(f F) bool { return name(f) == want })
	if i < 0 {
		t.Fatalf("no fault is called %q", want)
	}
	return faults[i]
}
