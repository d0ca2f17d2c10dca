package leaktest_test

import (
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/leaktest"
	"github.com/wskit/wskit/internal/poll"
)

// A goroutine belongs to the group of the one that has started it, however far away, and to no other.
func TestGroups(t *testing.T) {
	end := make(chan struct{})
	inner := func() { <-end }
	leaktest.Mark("one")
	go func() { go inner() }()
	leaktest.Mark("two")
	poll.Until(t, "the group to have one goroutine", func() bool {
		stacks := leaktest.InGroup("one")
		return len(stacks) == 1 && strings.Contains(stacks[0], "leaktest_test.TestGroups")
	})
	if stacks := leaktest.InGroup("one", "TestGroups"); len(stacks) != 0 {
		t.Errorf("what is allowed is reported: %q", stacks)
	}
	if stacks := leaktest.InGroup("two"); len(stacks) != 0 {
		t.Errorf("a group that only the test is in has %q", stacks)
	}
	close(end)
	poll.Until(t, "the group to be empty", func() bool { return len(leaktest.InGroup("one")) == 0 })
}
