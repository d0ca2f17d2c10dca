package stepclock

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

//go:embed preload/clock.c
var source []byte

// New builds the library and makes a clock that is not stepped yet. Without a C compiler
// the test is skipped, and fails in CI.
func New(t testing.TB) *Clock {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no C compiler; tools/install build-essential cc")
		}
		t.Skip("there is no C compiler to build a clock with; make cc installs it")
	}
	dir := t.TempDir()
	code := filepath.Join(dir, "clock.c")
	c := &Clock{library: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "offset")}
	for name, text := range map[string][]byte{code: source, c.file: make([]byte, 8)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", c.library, code).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	file, err := os.OpenFile(c.file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shared, err := syscall.Mmap(int(file.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(shared) })
	c.offset = (*atomic.Int64)(unsafe.Pointer(&shared[0]))
	return c
}
