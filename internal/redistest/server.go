// Package redistest starts real Redis servers for tests. Each has its own port and its own
// directory, and is removed when the test ends.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/stepclock"
	"github.com/wskit/wskit/internal/transcript"

	"github.com/redis/go-redis/v9"
)

// nodeTimeout is for how many milliseconds a node of a cluster may not answer before the others take it for failed.
const nodeTimeout = "2000"

// Server is a redis-server process.
type Server struct {
	Addr string // host:port

	t    testing.TB
	port string
	bus  string // the port of the cluster bus
	args []string
	env  []string
	dir  string
	cmd  *exec.Cmd
	log  *transcript.Transcript
}

// Start starts an empty server, which is killed when the test ends. Further arguments are
// passed to redis-server: "--maxmemory", "1mb". If redis-server is not on the PATH the test
// is skipped; in CI it fails.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, args, false, nil)
}

// StartWithClock is Start for a server whose time of day is a clock of the test. Expiry uses
// it too.
func StartWithClock(t testing.TB, args ...string) (*Server, *stepclock.Clock) {
	t.Helper()
	clock := stepclock.New(t)
	return start(t, args, false, clock.Env()), clock
}

// StartNode is Start for a node of a cluster.
func StartNode(t testing.TB) *Server {
	t.Helper()
	return start(t, []string{"--cluster-enabled", "yes", "--cluster-node-timeout", nodeTimeout}, true, nil)
}

func start(t testing.TB, args []string, node bool, env []string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		process.Missing(t, "redis-server is not on the PATH; make redis installs it")
	}
	s := &Server{t: t, dir: t.TempDir(), env: env}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the log of redis-server %s:\n%s", s.Addr, s.log)
		}
	})
	for range 10 {
		s.port, s.args = process.FreePort(t), args
		s.Addr = "127.0.0.1:" + s.port
		if node {
			s.bus = process.FreePort(t)
			s.args = append(slices.Clone(args), "--cluster-port", s.bus)
		}
		if s.launch() {
			return s
		}
		s.Kill() // removes the rest of it: another test has taken the port in the meantime
	}
	t.Fatal("redis-server finds no free port")
	return nil
}

// URL is the server's address as a redis:// URL, for clients that wait for a busy machine as long as tests do.
func (s *Server) URL() string {
	const form = "redis://%s?dial_timeout=%[2]v&read_timeout=%[2]v&write_timeout=%[2]v&pool_timeout=%[2]v"
	return fmt.Sprintf(form, s.Addr, poll.Guard)
}

// Run starts the process again after Kill or Terminate, on the same port. It loads the data
// from its disk; by default there is none.
func (s *Server) Run() {
	s.t.Helper()
	if !s.launch() {
		s.t.Fatalf("redis-server: another process has taken a port of %s:\n%s", s.Addr, s.log)
	}
}

// launch starts the process and waits until it listens. It returns false if another process
// has taken a port.
func (s *Server) launch() bool {
	s.t.Helper()
	s.log = &transcript.Transcript{}
	s.cmd = exec.Command("redis-server", append([]string{
		"--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--protected-mode", "no",
		"--repl-diskless-sync-delay", "0", // a master would wait 5 s for more replicas
	}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(os.Environ(), s.env...)
	process.DieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
	// What it prints tells, not the port: another server may listen there.
	ready := false
	if !poll.Within(poll.Guard, func() bool {
		said := s.log.String()
		ready = strings.Contains(said, "Ready to accept connections")
		return ready || strings.Contains(said, "Address already in use")
	}) {
		s.t.Fatalf("redis-server on %s does not start:\n%s", s.Addr, s.log)
	}
	return ready
}

// Running reports whether there is a process.
func (s *Server) Running() bool { return s.cmd != nil }

// Kill ends the process at once, as a power cut does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Terminate shuts the process down gracefully.
func (s *Server) Terminate() { s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) {
	if s.cmd == nil {
		return
	}
	_ = process.Continue(s.cmd.Process)
	_ = s.cmd.Process.Signal(signal)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Stall stops the process without closing its connections, until Resume.
func (s *Server) Stall() { s.signal(process.Stop) }

// Resume continues a stalled process.
func (s *Server) Resume() { s.signal(process.Continue) }

func (s *Server) signal(send func(*os.Process) error) {
	s.t.Helper()
	if err := send(s.cmd.Process); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
}

// Client returns a plain client of this server. The caller closes it.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
}

// Do runs one command and returns its answer. It retries if the connection is lost. This
// happens during a failover, when Sentinel makes a new master drop its clients.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	client := s.Client()
	defer client.Close()
	var answer any
	var err error
	poll.Within(poll.Guard, func() bool {
		answer, err = client.Do(context.Background(), args...).Result()
		_, refused := errors.AsType[redis.Error](err)
		return err == nil || refused
	})
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// UsedMemory is how many bytes the server has allocated.
func (s *Server) UsedMemory() (n int64) {
	s.t.Helper()
	info, _ := s.Do("INFO", "memory").(string)
	_, rest, _ := strings.Cut(info, "used_memory:")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// Now is the server's time of day.
func (s *Server) Now() time.Time {
	s.t.Helper()
	now, _ := s.Do("TIME").([]any)
	var seconds, micros int64
	_, _ = fmt.Sscan(fmt.Sprint(now[0], " ", now[1]), &seconds, &micros)
	return time.UnixMicro(seconds*1_000_000 + micros)
}

// Calls returns how often the server has run a command, such as "evalsha" or "publish",
// since it started (INFO commandstats).
func (s *Server) Calls(command string) (n int64) {
	s.t.Helper()
	info, _ := s.Do("INFO", "commandstats").(string)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+strings.ToLower(command)+":calls="); ok {
			_, _ = fmt.Sscanf(rest, "%d", &n)
		}
	}
	return n
}
