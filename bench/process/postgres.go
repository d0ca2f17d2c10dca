package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wskit/wskit/internal/process"
)

// StartPostgres starts a PostgreSQL server on a free port of 127.0.0.1, as it is configured by default, with its files
// in a folder of its own, and returns the URL of a database. The caller calls stop.
func StartPostgres(ctx context.Context) (url string, stop func(), err error) {
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(all) == 0 {
		return "", nil, errors.New("PostgreSQL is not installed; make postgres installs it")
	}
	bin := filepath.Dir(all[len(all)-1])
	dir, err := os.MkdirTemp("", "bench-postgres")
	if err != nil {
		return "", nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	var as *syscall.Credential
	if os.Getuid() == 0 { // it refuses to be root
		u, err := user.Lookup("postgres")
		if err != nil {
			return "", nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return "", nil, err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
		process.DieWithParent(cmd)
		cmd.SysProcAttr.Credential = as
		return cmd
	}
	if err := Quietly(command("initdb", "-D", dir+"/data", "-A", "trust", "-U", "postgres", "-E", "UTF8")); err != nil {
		remove()
		return "", nil, err
	}
	port, release, err := process.ReservePort()
	if err != nil {
		remove()
		return "", nil, err
	}
	defer release()
	cmd := command(
		"postgres", "-D", dir+"/data", "-c", "listen_addresses=127.0.0.1", "-c", "port="+port, "-c",
		"unix_socket_directories=",
	)
	if err := cmd.Start(); err != nil {
		remove()
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Wait()
		remove()
	}
	url = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", net.JoinHostPort("127.0.0.1", port))
	for end := time.Now().Add(startGuard); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return url, stop, conn.Close(ctx)
		}
	}
	stop()
	return "", nil, errors.New("PostgreSQL does not answer")
}
