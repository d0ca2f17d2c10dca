package stepclock_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/stepclock"
)

// A process sees the clock where the test puts it, in both directions.
func TestAProcessSeesTheSteps(t *testing.T) {
	c := stepclock.New(t)
	for _, step := range []time.Duration{0, time.Hour, -90 * time.Minute, 1500 * time.Millisecond, -365 * 24 * time.Hour} {
		c.Step(step)
		cmd := exec.Command("date", "+%s%N")
		cmd.Env = append(os.Environ(), c.Env()...)
		before := time.Now().Add(c.Offset())
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		after := time.Now().Add(c.Offset())
		ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if at := time.Unix(0, ns); at.Before(before) || at.After(after) {
			t.Errorf("stepped by %v in all, the process reads %v", c.Offset(), at)
		}
	}
}
