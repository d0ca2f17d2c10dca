package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/process"
)

// systemd finds no fault with the unit, and finds one in each unit that has one.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		process.Missing(t, "systemd-analyze is not on the PATH; make systemd installs it")
	}
	text, err := os.ReadFile("chat.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.Replace(string(text), "/usr/local/bin/chat", "/bin/true", 1) // a program that is on this machine
	if problems := verifyUnit(t, unit); problems != "" {
		t.Errorf("systemd-analyze: %s", problems)
	}
	for _, misspelt := range []string{"ExecStart=", "DynamicUser=", "LimitNOFILE=", "TimeoutStopSec=", "MemoryMax="} {
		if verifyUnit(t, strings.Replace(unit, misspelt, "X"+misspelt, 1)) == "" {
			t.Errorf("X%s is accepted, or is not in the unit", misspelt)
		}
	}
}

// verifyUnit returns what systemd finds wrong with a unit.
func verifyUnit(t *testing.T, unit string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chat.service")
	if err := os.WriteFile(file, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("systemd-analyze", "verify", "--recursive-errors=no", file)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
	out, err := cmd.CombinedOutput()
	problems := ""
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "chat.service") { // not another unit of this machine, on which this one depends
			problems += line
		}
	}
	if err != nil && problems == "" {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return problems
}
