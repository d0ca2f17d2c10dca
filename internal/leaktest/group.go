package leaktest

import (
	"bytes"
	"context"
	"runtime/pprof"
	"slices"
	"strings"
)

// Mark adds the calling goroutine to a group, instead of the one it is in, and all that it starts from now on, and that
// these start. So goroutines of one server can be told from those of tests that run at the same time.
func Mark(group string) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("leaktest", group)))
}

// InGroup returns the stacks of the goroutines of a group. Those that run a test, or a function whose name contains one
// of the allowed, are left out, and those whose function has returned: for a moment the runtime still lists them.
func InGroup(group string, allowed ...string) (stacks []string) {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
	allowed = append(allowed, "testing.tRunner", "runtime.goexit1")
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		allows := func(name string) bool { return strings.Contains(stack, name) }
		if strings.Contains(stack, `# labels: {"leaktest":"`+group+`"}`) && !slices.ContainsFunc(allowed, allows) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
