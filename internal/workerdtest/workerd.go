// Package workerdtest runs the Worker of package cfdo for tests, on workerd, the
// runtime of Cloudflare Workers. Each has its own port and its own
// directory for its state, and is removed when the test ends.
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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/stepclock"
	"github.com/wskit/wskit/internal/transcript"
)

// Secret is the Worker's secret, unless Config.Env sets another.
const Secret = "a-secret-for-tests"

// Folder returns the folder of the Worker.
func Folder(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the path of the test's source is not known")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "adapters", "cfdo", "worker")
}

// sources reads the files of the Worker, so that go test does not use a cached result when
// the Worker has changed.
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

// Modules returns the folder where npm ci has put the runtime. Without the runtime the test
// is skipped; in CI it fails.
func Modules(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Folder(t), "node_modules")
	if _, err := os.Stat(dir); err != nil {
		process.Missing(t, "the Workers runtime is not installed; make workerd, or npm ci in adapters/cfdo/worker, installs it")
	}
	return dir
}

// platforms are the packages of the runtime on npm, by GOOS/GOARCH.
var platforms = map[string]string{
	"linux/amd64": "linux-64", "linux/arm64": "linux-arm64",
	"darwin/amd64": "darwin-64", "darwin/arm64": "darwin-arm64",
}

// Binary returns the path of the runtime.
func Binary(t testing.TB) string {
	t.Helper()
	sources(t)
	path := filepath.Join(Modules(t), "@cloudflare", "workerd-"+platforms[runtime.GOOS+"/"+runtime.GOARCH], "bin", "workerd")
	if _, err := os.Stat(path); err != nil {
		process.Missing(t, fmt.Sprintf("there is no Workers runtime for %s/%s in adapters/cfdo/worker/node_modules", runtime.GOOS, runtime.GOARCH))
	}
	return path
}

// Config configures a Worker.
type Config struct {
	// File is the configuration file in worker/test; "" means serve.capnp.
	File string
	// Env sets the variables of the Worker: SECRET, SHARDS, TENANT_SHARDS, GRACE_MS,
	// PAUSE_MS.
	Env map[string]string
	// Clock, if it is not nil, is the time of day for the process.
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

// Start starts a Worker without state. It is killed when the test ends.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	if c.File == "" {
		c.File = "serve.capnp"
	}
	s := &Server{t: t, binary: Binary(t), config: c, disk: t.TempDir()}
	t.Cleanup(s.Kill)
	t.Cleanup(s.show)
	s.find()
	return s
}

// find starts the process on a free port.
func (s *Server) find() {
	s.t.Helper()
	for range 10 {
		s.addr = process.FreeAddr(s.t)
		s.URL = "http://" + s.addr
		if s.launch() {
			return
		}
	}
	s.t.Fatal("workerd finds no free port")
}

// show logs what the process has printed, if the test has failed.
func (s *Server) show() {
	if s.t.Failed() && s.log != nil {
		s.t.Logf("workerd printed:\n%s", s.log)
	}
}

// shared is the Worker of all tests of a package.
var shared struct {
	sync.Mutex
	server *Server
}

// Shared returns the Worker that tests of a package share, with the default configuration. A test uses names of its own
// in it, and does not end it. The package needs [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		disk, err := os.MkdirTemp("", "wskit-workerd-")
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{t: t, binary: Binary(t), config: Config{File: "serve.capnp"}, disk: disk}
		s.find()
		shared.server = s
	}
	s := *shared.server
	s.t = t
	t.Cleanup(s.show)
	return &s
}

// Main runs the tests of a package that uses [Shared], and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if s := shared.server; s != nil {
		s.Kill()
		_ = os.RemoveAll(s.disk)
	}
	os.Exit(code)
}

// Run starts the process again after Kill or Terminate, on the same port and with the state
// on its disk.
func (s *Server) Run() {
	s.t.Helper()
	if !s.launch() {
		s.t.Fatalf("workerd: another process has taken the port of %s:\n%s", s.addr, s.log)
	}
}

// launch starts the process and waits until it listens. It returns false if another process has taken its
// port.
func (s *Server) launch() bool {
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
	_ = r.SetReadDeadline(time.Now().Add(poll.Guard))
	var listen struct{ Event string }
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &listen)
	}
	if err != nil || listen.Event != "listen" {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // its output is complete then
		if s.cmd = nil; strings.Contains(s.log.String(), "ddress already in use") {
			return false
		}
		s.t.Fatalf("workerd does not say where it listens: %q, %v\n%s", line, err, s.log)
	}
	return true
}

// Kill ends the process at once, as a power cut does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Terminate shuts the process down gracefully.
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

// Resume continues a stalled process.
func (s *Server) Resume() { _ = process.Continue(s.cmd.Process) }

// Log returns the output of the process.
func (s *Server) Log() string { return s.log.String() }

// Look is the visible state of an object.
type Look struct {
	// Rows is the number of rows, and Written how many rows the object has written since it
	// was made, alarms included.
	Rows, Written int
	// Alarm is the time of the next alarm, in milliseconds since the Unix epoch; nil if none
	// is set.
	Alarm *int64
}

// Inspect returns the state of the object with a name.
func (s *Server) Inspect(object string) (l Look) {
	s.t.Helper()
	s.tell("inspect", object, &l)
	return l
}

// Evict removes an object from memory, as the runtime does with idle ones.
func (s *Server) Evict(object string) {
	s.t.Helper()
	s.tell("evict", object, new(any))
}

// Sweep runs the alarm of an object.
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
