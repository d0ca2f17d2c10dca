// Package pgtest starts real PostgreSQL servers for tests.
package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/stepclock"
)

// Server is a PostgreSQL server on a port of its own.
type Server struct {
	t     testing.TB
	Addr  string
	dir   string
	bin   string
	cmd   *exec.Cmd
	as    *syscall.Credential // postgres refuses to be root
	env   []string
	limit int // of files, in MiB; 0: none
}

// Replica starts a server that follows this one, until the test ends. It may lag behind.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	r := s.prepare(t)
	host, port, _ := net.SplitHostPort(s.Addr)
	out, err := r.command("pg_basebackup", "-D", r.dir+"/data", "-R", "-h", host, "-p", port, "-U", "postgres", "-c", "fast", "--no-sync").
		CombinedOutput()
	if err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	r.Run()
	t.Cleanup(r.Kill)
	return r
}

// Promote has a replica take writes.
func (s *Server) Promote() {
	s.t.Helper()
	if out, err := s.command("pg_ctl", "promote", "-D", s.dir+"/data").CombinedOutput(); err != nil {
		s.t.Fatalf("pg_ctl: %v\n%s", err, out)
	}
}

// StartSmall is Start for a server whose files may not be larger than so many MiB, as on a full disk.
func StartSmall(t testing.TB, mebibytes int) *Server {
	t.Helper()
	s := start(t, nil)
	s.Kill()
	s.limit = mebibytes
	s.Run()
	return s
}

// Grow ends the limit of StartSmall, from the next Run on.
func (s *Server) Grow() { s.limit = 0 }

// StartWithClock is Start for a server whose time of day is a clock of the test.
func StartWithClock(t testing.TB) (*Server, *stepclock.Clock) {
	t.Helper()
	clock := stepclock.New(t)
	for _, name := range clock.Files() { // the server is another user
		for ; name != os.TempDir() && name != "/"; name = filepath.Dir(name) {
			if err := os.Chmod(name, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	return start(t, clock.Env()), clock
}

// Start starts a server until the test ends. Where there is none, the test is skipped; in CI it fails.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, nil)
}

func start(t testing.TB, env []string) *Server {
	t.Helper()
	s := (&Server{env: env}).prepare(t)
	if out, err := s.command("initdb", "-D", s.dir+"/data", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// prepare makes a server like s that has no data yet.
func (s *Server) prepare(t testing.TB) *Server {
	t.Helper()
	s = &Server{t: t, Addr: process.FreeAddr(t), env: s.env}
	found, err := exec.LookPath("initdb")
	if err != nil {
		all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if len(all) == 0 {
			process.Missing(t, "PostgreSQL is not installed; make postgres, or apt-get, installs it")
		}
		found = all[len(all)-1]
	}
	if found, err = filepath.EvalSymlinks(found); err != nil {
		t.Fatal(err)
	}
	s.bin = filepath.Dir(found)
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			process.Missing(t, "there is no user postgres to run PostgreSQL as")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	return s.program(filepath.Join(s.bin, name), args...)
}

// program is one that runs as the user of the server.
func (s *Server) program(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "LC_ALL=C")
	process.DieWithParent(cmd)
	if s.as != nil {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		}
		cmd.SysProcAttr.Credential = s.as
	}
	return cmd
}

// Run starts the server, also after Kill.
func (s *Server) Run() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	args := []string{
		"-D", s.dir + "/data", "-c", "listen_addresses=" + host, "-c", "port=" + port, "-c", "unix_socket_directories=",
		"-c", "max_connections=200", "-c", "fsync=off", // tests kill processes, not machines: nothing waits for the disk
	}
	s.cmd = s.command("postgres", args...)
	if s.limit > 0 {
		script := fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, s.limit*1024)
		s.cmd = s.program("/bin/bash", append([]string{"-c", script, filepath.Join(s.bin, "postgres")}, args...)...)
	}
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = log, log, append(s.cmd.Env, s.env...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	poll.Until(s.t, "PostgreSQL to be ready", func() bool {
		conn, err := pgx.Connect(context.Background(), s.URL())
		if err != nil {
			return false
		}
		return conn.Close(context.Background()) == nil
	})
}

// Kill kills the server with all its processes.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // it begins no more children
	children, _ := exec.Command("pgrep", "-P", strconv.Itoa(s.cmd.Process.Pid)).Output()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
	poll.Until(s.t, "the processes of PostgreSQL to end", func() bool { // which they do when they notice
		for child := range strings.FieldsSeq(string(children)) {
			if _, err := os.Stat("/proc/" + child); err == nil {
				return false
			}
		}
		return true
	})
	_ = os.Remove(filepath.Join(s.dir, "data", "postmaster.pid"))
}

// URL is that of a database.
func (s *Server) URL() string { return s.URLAt(s.Addr) }

// URLAt is that of a database behind a proxy.
func (s *Server) URLAt(addr string) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", addr)
}

// Do runs a statement, and returns how many rows it has changed.
func (s *Server) Do(sql string, args ...any) int64 {
	s.t.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tag, err := conn.Exec(context.Background(), sql, args...)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// Until waits until a query returns a row.
func (s *Server) Until(t testing.TB, what, query string, args ...any) {
	t.Helper()
	poll.Until(t, what, func() bool { return s.Do(query, args...) > 0 })
}

// StartPooler starts a pgbouncer before the server, in a mode, and returns its address.
func (s *Server) StartPooler(t testing.TB, mode string) (addr string) {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		process.Missing(t, "pgbouncer is not installed; make postgres, or apt-get, installs it")
	}
	addr = process.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	serverHost, serverPort, _ := net.SplitHostPort(s.Addr)
	name := filepath.Join(s.dir, "pgbouncer-"+mode+".ini")
	text := fmt.Sprintf(
		"[databases]\npostgres = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\n"+
			"unix_socket_dir =\nauth_type = any\npool_mode = %s\n",
		serverHost,
		serverPort,
		host,
		port,
		mode,
	)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := s.program(path, "-q", name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	poll.Until(t, "pgbouncer to be ready", func() bool {
		conn, err := pgx.Connect(context.Background(), s.URLAt(addr))
		return err == nil && conn.Close(context.Background()) == nil
	})
	return addr
}
