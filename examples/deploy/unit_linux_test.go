package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd finds no fault with the unit, and finds one in each unit that has one.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("systemd-analyze is not on the PATH; tools/install systemd systemd-analyze")
		}
		t.Skip("systemd-analyze is not on the PATH; make systemd installs it")
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
	cmd := exec.Command("systemd-analyze", "verify", file)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		return err.Error()
	}
	return string(out)
}
