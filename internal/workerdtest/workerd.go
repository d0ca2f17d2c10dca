// Package workerdtest runs the Worker of package cfdo for tests, on workerd, the
// runtime of Cloudflare Workers: each on a port that the system chooses, with its
// state in a directory of its own, gone when the test is.
package workerdtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/stepclock"
	"github.com/wskit/wskit/internal/transcript"
)

// patience is how long a process may take to do what it was told. It bounds a
// test that would hang; it measures nothing.
const patience = time.Minute

// Secret is what the Worker is given, unless the environment says otherwise.
const Secret = "a-secret-for-tests"

// Folder is that of the Worker.
func Folder(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the path of the test's source is not known")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "adapters", "cfdo", "worker")
}

// sources reads the Worker as the runtime will, so that go test knows what the
// test depends on and does not answer from its cache when the Worker has changed.
func sources(t testing.TB) {
	t.Helper()
	for _, pattern := range []string{"src/*", "test/*", "package-lock.json", "../../../limit/testdata/*.json"} {
		files, err := filepath.Glob(filepath.Join(Folder(t), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Modules is where npm ci has put the runtime. Without it the test is skipped, and
// fails in CI.
func Modules(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Folder(t), "node_modules")
	if _, err := os.Stat(dir); err != nil {
		Missing(t, "the Workers runtime is not installed; make workerd, or npm ci in adapters/cfdo/worker, installs it")
	}
	return dir
}

// Missing skips the test for want of something, and fails it in CI.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// platforms are the runtimes that npm has, by GOOS/GOARCH.
var platforms = map[string]string{
	"linux/amd64": "linux-64", "linux/arm64": "linux-arm64",
	"darwin/amd64": "darwin-64", "darwin/arm64": "darwin-arm64",
}

// Binary is the runtime.
func Binary(t testing.TB) string {
	t.Helper()
	sources(t)
	path := filepath.Join(Modules(t), "@cloudflare", "workerd-"+platforms[runtime.GOOS+"/"+runtime.GOARCH], "bin", "workerd")
	if _, err := os.Stat(path); err != nil {
		Missing(t, fmt.Sprintf("there is no Workers runtime for %s/%s in adapters/cfdo/worker/node_modules", runtime.GOOS, runtime.GOARCH))
	}
	return path
}

// Config says how the Worker is run.
type Config struct {
	// File is that in worker/test; "" means serve.capnp.
	File string
	// Env is what the variables of the Worker are read from: SECRET, SHARDS,
	// TENANT_SHARDS, GRACE_MS, PAUSE_MS.
	Env map[string]string
	// Clock, when it is not nil, is what the process takes for the time of day.
	Clock *stepclock.Clock
}

// Server is a workerd process.
type Server struct {
	URL string

	t      testing.TB
	binary string
	config Config
	addr   string
	disk   string
	cmd    *exec.Cmd
	log    *transcript.Transcript
}

// Start starts the Worker without any state. It is killed when the test ends.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	if c.File == "" {
		c.File = "serve.capnp"
	}
	s := &Server{t: t, binary: Binary(t), config: c, addr: "127.0.0.1:0", disk: t.TempDir()}
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// Run starts the process again after Kill or Terminate, on the same port and with
// the state that is on disk.
func (s *Server) Run() {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	s.log = &transcript.Transcript{}
	s.cmd = exec.Command(s.binary, "serve", filepath.Join(Folder(s.t), "test", s.config.File), "config",
		"--directory-path", "disk="+s.disk, "--socket-addr", "http="+s.addr, "--control-fd=3")
	s.cmd.ExtraFiles = []*os.File{w}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(os.Environ(), "SECRET="+Secret)
	for name, value := range s.config.Env {
		s.cmd.Env = append(s.cmd.Env, name+"="+value)
	}
	if s.config.Clock != nil {
		s.cmd.Env = append(s.cmd.Env, s.config.Clock.Env()...)
	}
	process.DieWithParent(s.cmd)
	err = s.cmd.Start()
	w.Close()
	if err != nil {
		s.t.Fatalf("workerd: %v", err)
	}
	_ = r.SetReadDeadline(time.Now().Add(patience))
	var listen struct {
		Event string
		Port  int
	}
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &listen)
	}
	if err != nil || listen.Event != "listen" {
		s.t.Fatalf("workerd does not say where it listens: %q, %v\n%s", line, err, s.log)
	}
	s.addr = "127.0.0.1:" + strconv.Itoa(listen.Port)
	s.URL = "http://" + s.addr
}

// Kill ends the process at once, as a power cut does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Terminate has the process end in an orderly way.
func (s *Server) Terminate() { s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(signal)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Stall stops the process without closing its connections, until Resume.
func (s *Server) Stall() { _ = process.Stop(s.cmd.Process) }

// Resume lets a stalled process go on.
func (s *Server) Resume() { _ = process.Continue(s.cmd.Process) }

// Log is what the process has said.
func (s *Server) Log() string { return s.log.String() }

// Look is what there is to see of an object.
type Look struct {
	// Rows is how many there are, and Written how many the object has written since
	// it was made, alarms included.
	Rows, Written int
	// Alarm is when it rings, in milliseconds since the Unix epoch; nil when it
	// does not.
	Alarm *int64
}

// Inspect looks into an object by its name.
func (s *Server) Inspect(object string) (l Look) {
	s.t.Helper()
	s.tell("inspect", object, &l)
	return l
}

// Evict throws an object out of memory, as happens to one that is idle.
func (s *Server) Evict(object string) {
	s.t.Helper()
	s.tell("evict", object, new(any))
}

// Sweep has an object do what it does when its alarm rings.
func (s *Server) Sweep(object string) {
	s.t.Helper()
	s.tell("sweep", object, new(any))
}

func (s *Server) tell(what, object string, answer any) {
	s.t.Helper()
	resp, err := http.Get(s.URL + "/test/" + what + "?object=" + object)
	if err != nil {
		s.t.Fatalf("workerd: %v\n%s", err, s.log)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, answer) != nil {
		s.t.Fatalf("workerd: %s of %s: %q, %v\n%s", what, object, text, err, s.log)
	}
}

// Test runs the unit tests of a file in worker/test on the runtime.
func Test(t *testing.T, file string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Binary(t), "test", filepath.Join(Folder(t), "test", file),
		"--directory-path", "disk="+t.TempDir())
	process.DieWithParent(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
