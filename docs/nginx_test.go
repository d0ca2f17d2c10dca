package docs_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	ports "github.com/wskit/wskit/internal/process"
)

// startNginx starts nginx with nginx.conf, before the upstreams, on a port of its
// own, and returns its address.
func startNginx(t *testing.T, upstreams ...string) (addr string) {
	t.Helper()
	return startNginxWith(t, strings.NewReplacer(), upstreams...)
}

// startNginxWith starts nginx with changes of nginx.conf.
func startNginxWith(t *testing.T, changes *strings.Replacer, upstreams ...string) (addr string) {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		ports.Missing(t, "nginx is not on the PATH; make nginx installs it")
	}
	conf, err := os.ReadFile("nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	text := withUpstreams(t, changes.Replace(string(conf)), upstreams)
	for range 5 { // another program may take the port before nginx does
		if addr = tryNginx(t, text); addr != "" {
			return addr
		}
	}
	t.Fatal("nginx does not start")
	return ""
}

// withUpstreams replaces the servers of a configuration, and keeps their parameters.
func withUpstreams(t *testing.T, conf string, upstreams []string) string {
	t.Helper()
	block := regexp.MustCompile(`(?m)(?:^\s*server 127\.0\.0\.1:\d+(.*);\n)+`)
	found := block.FindStringSubmatch(conf)
	if found == nil {
		t.Fatal("nginx.conf has no upstream server")
	}
	var servers strings.Builder
	for _, addr := range upstreams {
		fmt.Fprintf(&servers, "server %s%s;\n", addr, found[1])
	}
	return strings.Replace(conf, found[0], servers.String(), 1)
}

// tryNginx returns "" when nginx has ended instead of listening.
func tryNginx(t *testing.T, conf string) (addr string) {
	t.Helper()
	addr = ports.FreeAddr(t)
	dir := t.TempDir()
	http := "http {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		http += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	text := strings.NewReplacer("listen 127.0.0.1:80;", "listen "+addr+";", "http {\n", http).Replace(conf)
	text += fmt.Sprintf("pid %s;\ndaemon off;\nmaster_process off;\nerror_log stderr;\n", filepath.Join(dir, "pid"))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	nginx := exec.Command("nginx", "-p", dir, "-c", file, "-e", "stderr")
	nginx.Stderr = &said
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = nginx.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = nginx.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("nginx said:\n%s", &said)
		}
	})
	listens := false
	poll.Until(t, "nginx to listen or to end", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			_ = nc.Close()
			listens = true
		}
		return listens
	})
	if !listens {
		return ""
	}
	return addr
}
