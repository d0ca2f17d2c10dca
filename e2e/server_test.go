package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/transcript"
)

// buildExamples builds examples into dir with the race detector, which makes a program
// end with a special exit code after a race.
func buildExamples(dir string, names ...string) error {
	for _, name := range names {
		build := exec.Command("go", "build", "-race", "-o", filepath.Join(dir, name), "./examples/"+name)
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// server is a program that serves a page, running.
type server struct {
	t       *testing.T
	command func(addr string) *exec.Cmd
	addr    string // host:port
	cmd     *exec.Cmd
	output  *transcript.Transcript
	ended   chan struct{}
	err     error // of cmd.Wait; read after ended
}

var announced = regexp.MustCompile(`http://(\S+:\d+)`)

// startChat starts the chat on a port that the kernel chooses.
func startChat(t *testing.T, args ...string) *server {
	t.Helper()
	return startExample(t, "chat", args...)
}

func startExample(t *testing.T, name string, args ...string) *server {
	t.Helper()
	needBrowser(t)
	return startServer(t, "127.0.0.1:0", func(addr string) *exec.Cmd {
		return exec.Command(filepath.Join(exampleDir, name), append([]string{"-addr", addr}, args...)...)
	})
}

// startServer runs the command, which is to serve on addr and to say so with a URL.
func startServer(t *testing.T, addr string, command func(addr string) *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, addr: addr, command: command}
	s.start()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s.addr, s.output)
		}
	})
	return s
}

// start runs the program on s.addr and waits until it says where it serves.
func (s *server) start() {
	s.t.Helper()
	s.cmd = s.command(s.addr)
	s.output, s.ended = new(transcript.Transcript), make(chan struct{})
	reader, writer, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = writer, writer
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	writer.Close()
	url := make(chan string, 1) // closed if the program ends without one
	go func() {
		lines := bufio.NewScanner(io.TeeReader(reader, s.output))
		for lines.Scan() {
			if m := announced.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case url <- m[1]:
				default:
				}
			}
		}
		reader.Close()
		close(url)
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if addr := poll.Receive(s.t, url, "the program says where it serves"); addr != "" {
		s.addr = addr
		return
	}
	<-s.ended
	s.t.Fatalf("the program ended at once: %v\n%s", s.err, s.output)
}

// says waits until the program has written a text. What it writes comes through a pipe, after what it does is seen.
func (s *server) says(text string) {
	s.t.Helper()
	poll.Until(s.t, fmt.Sprintf("the program writes %q", text), func() bool {
		return strings.Contains(s.output.String(), text)
	})
}

func (s *server) url() string { return "http://" + s.addr + "/" }

// stop asks the program to end, as Ctrl-C does, and demands that it ends well.
func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	poll.Receive(s.t, s.ended, "the program ends after Ctrl-C")
	if s.err != nil {
		s.t.Fatalf("the program ended with %v:\n%s", s.err, s.output)
	}
}

// crash kills the program, without a shutdown.
func (s *server) crash() {
	s.kill()
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	if out := s.output.String(); strings.Contains(out, "DATA RACE") || strings.Contains(out, "panic:") {
		s.t.Errorf("the program's output:\n%s", out)
	}
}
