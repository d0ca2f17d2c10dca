package faulttest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/transcript"
)

// hangGuard ends a test that hangs. It measures nothing.
const hangGuard = poll.Guard

// Server is a server process that can be restarted.
type Server struct {
	Config Config

	t   testing.TB
	cmd *exec.Cmd
	log *transcript.Transcript
}

// StartServer starts a server, which is killed when the test ends. An empty
// Config.Addr is filled in.
func StartServer(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{Config: c, t: t}
	t.Cleanup(s.Kill)
	t.Cleanup(func() {
		if t.Failed() && s.log != nil {
			t.Logf("the server on %s printed:\n%s", s.Config.Addr, s.log)
		}
	})
	if c.Addr != "" {
		s.Run()
		return s
	}
	s.run(func() { s.Config.Addr = process.FreeAddr(t) })
	return s
}

// Run starts the process, and waits until it serves.
func (s *Server) Run() {
	s.t.Helper()
	s.run(func() {})
}

// run is Run, and calls before each time it starts the process.
func (s *Server) run(before func()) {
	s.t.Helper()
	var said string
	// A server exits if Redis is unavailable or its port is in use.
	serves := poll.Within(hangGuard, func() bool {
		before()
		config, err := json.Marshal(s.Config)
		if err != nil {
			s.t.Fatal(err)
		}
		s.log = &transcript.Transcript{}
		s.cmd = exec.Command(os.Args[0])
		s.cmd.Env = append(os.Environ(), configVariable+"="+string(config))
		s.cmd.Stderr = s.log
		process.DieWithParent(s.cmd)
		out, err := s.cmd.StdoutPipe()
		if err != nil {
			s.t.Fatal(err)
		}
		if err := s.cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		if strings.HasPrefix(line, "ready ") {
			return true
		}
		said = line
		s.Kill()
		return false
	})
	if !serves {
		s.t.Fatalf("the server on %s does not start: %s\n%s", s.Config.Addr, said, s.log)
	}
}

// Running reports whether there is a process.
func (s *Server) Running() bool { return s.cmd != nil }

// Kill ends the process at once, as a crash does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Stall stops the process without closing its connections, until Resume.
func (s *Server) Stall() { s.signal(process.Stop) }

// Resume continues a stalled process.
func (s *Server) Resume() { s.signal(process.Continue) }

func (s *Server) signal(send func(*os.Process) error) {
	s.t.Helper()
	if err := send(s.cmd.Process); err != nil {
		s.t.Fatalf("the server on %s: %v", s.Config.Addr, err)
	}
}

// Terminate shuts the process down and waits for its end. If it fails, the error has the log.
func (s *Server) Terminate() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := s.cmd.Wait()
	s.cmd = nil
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.log)
	}
	return nil
}

// Log returns the standard error of the process.
func (s *Server) Log() string { return s.log.String() }
