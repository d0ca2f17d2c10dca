package exampletest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/wskit/wskit/internal/process"
)

// CheckTypes compiles the page in the folder static against the types of its server's messages.
func CheckTypes(t *testing.T) {
	t.Helper()
	root := ".." // of the project
	for range 4 {
		if _, err := os.Stat(filepath.Join(root, "clients")); err == nil {
			break
		}
		root = filepath.Join(root, "..")
	}
	tsc := filepath.Join(root, "clients", "typescript", "node_modules", ".bin", "tsc")
	if _, err := os.Stat(tsc); err != nil || runtime.GOOS == "windows" {
		process.Missing(t, "the TypeScript compiler is not installed; make typescript installs it")
	}
	bin, err := filepath.Abs(filepath.Dir(tsc))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tsc, "-p", "static")
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
