package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/transcript"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master and a replica that are monitored by a Sentinel. (Production has
// three Sentinels; for a failover in a test one is enough.)
type Sentinel struct {
	Addr            string // of the Sentinel
	Name            string // of the master
	Master, Replica *Server

	t testing.TB
}

// StartSentinel starts all three. On a busy machine a server may seem to have failed, so Sentinel
// takes none for failed before DetectFailures.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Name: "limits", Master: Start(t), t: t}
	_, masterPort, _ := net.SplitHostPort(s.Master.Addr)
	s.Replica = Start(t, "--replicaof", "127.0.0.1 "+masterPort)
	Eventually(t, "the replica follows", func() bool {
		role, _ := s.Replica.Do("ROLE").([]any)
		return len(role) > 3 && role[3] == "connected"
	})

	port := process.FreePort(t)
	s.Addr = "127.0.0.1:" + port
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nprotected-mode no\nsentinel monitor %s 127.0.0.1 %s 1\nsentinel down-after-milliseconds %s 600000\nsentinel failover-timeout %s 5000\n",
		port, dir, s.Name, masterPort, s.Name, s.Name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", conf, "--sentinel")
	log := &transcript.Transcript{}
	cmd.Stdout, cmd.Stderr = log, log
	process.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatalf("redis-server --sentinel: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	Eventually(t, "the Sentinel has the replica", func() bool {
		replicas, err := client.Replicas(context.Background(), s.Name).Result()
		return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave" && replicas[0]["master-link-status"] == "ok"
	})
	return s
}

// DetectFailures makes Sentinel take a server for failed that has not answered for half a second. A test
// calls it when the master has failed.
func (s *Sentinel) DetectFailures() {
	s.t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	if err := client.Set(context.Background(), s.Name, "down-after-milliseconds", "500").Err(); err != nil {
		s.t.Fatal(err)
	}
}
