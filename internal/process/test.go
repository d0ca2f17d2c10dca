package process

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// StartTest has a test of this program run by a process of its own, with env in its environment, and
// returns when that has written a line. The process is killed at the end of the test.
func StartTest(t testing.TB, test, env, line string) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	child.Env = append(os.Environ(), env)
	DieWithParent(child)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != line {
	}
	return child
}
