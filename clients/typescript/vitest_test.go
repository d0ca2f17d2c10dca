package wskitjs_test

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/process"
)

var only = flag.String("files", "", "run only the test files whose path contains this")

// The client's own tests, in Node, against real servers.
func TestTypeScriptClient(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	vitest := filepath.Join("node_modules", ".bin", "vitest")
	if _, err := os.Stat(vitest); err != nil || runtime.GOOS == "windows" {
		process.Missing(t, "the client's packages are not installed; make typescript, or npm ci in clients/typescript, installs them")
	}
	sources(t)
	bin, err := filepath.Abs(filepath.Dir(vitest))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), vitest, "run", "--reporter=default", "--no-color")
	if *only != "" {
		cmd.Args = append(cmd.Args, *only)
	}
	// The packages have a Node of the version that the client needs.
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// sources reads the files of the client, and those of the server that the tests start, so that go test does not use a
// cached result when they have changed.
func sources(t *testing.T) {
	t.Helper()
	read := func(file string) {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"src/*", "test/*", "dist/*", "*.json", "*.mjs", "*.ts", "../*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			read(file)
		}
	}
	for _, folder := range []string{"../../internal/clienttest", "../../router", "../../run"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				read(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
