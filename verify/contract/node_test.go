package contract_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wskit/wskit/internal/process"
)

// node runs a program of the folder node with the packages there, and returns what it prints.
// Without them the test is skipped; in CI it fails.
func node(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node", "node_modules")); err != nil {
		process.Missing(t, "the packages of verify/contract/node are not installed; make contract, or npm ci there, installs them")
	}
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Dir = "node"
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%.4000s\n%.4000s", err, out, &stderr)
	}
	return out
}
