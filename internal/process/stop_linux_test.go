package process_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/wskit/wskit/internal/process"
)

// A stopped process runs no more when Stop has returned, so it answers nothing.
func TestStopWaitsUntilTheProcessIsStopped(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	process.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for range 200 {
		if err := process.Stop(cmd.Process); err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, state, _ := bytes.Cut(stat, []byte(") ")); state[0] != 'T' {
			t.Fatalf("the state of the process is %q, want T", state[0])
		}
		if err := process.Continue(cmd.Process); err != nil {
			t.Fatal(err)
		}
	}
}
