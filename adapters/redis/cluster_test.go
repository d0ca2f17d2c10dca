package redis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis/internal/redistest"
)

// testCluster is a Redis Cluster of three masters.
type testCluster struct {
	nodes []*redistest.Server
}

func startCluster(t *testing.T, replicas int) *testCluster {
	t.Helper()
	c := &testCluster{}
	var buses []string
	for range 3 + replicas {
		bus := freePort(t)
		buses = append(buses, bus)
		c.nodes = append(c.nodes, redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", bus,
			"--cluster-node-timeout", "1000", "--cluster-allow-replica-migration", "no"))
	}
	slots := [][2]int{{0, 5461}, {5462, 10922}, {10923, 16383}}
	for i, s := range slots {
		c.nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", s[0], s[1])
	}
	host, port, _ := strings.Cut(c.nodes[0].Addr, ":")
	for _, n := range c.nodes[1:] {
		n.Do("CLUSTER", "MEET", host, port, buses[0])
	}
	eventually(t, "all nodes know each other", func() bool {
		for _, n := range c.nodes {
			info, _ := n.Do("CLUSTER", "INFO").(string)
			if !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.nodes))) || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
		}
		return true
	})
	for i, n := range c.nodes[3:] {
		n.Do("CLUSTER", "REPLICATE", c.nodes[i%3].Do("CLUSTER", "MYID"))
	}
	for _, n := range c.nodes[3:] {
		eventually(t, "the replica is in step", func() bool {
			info, _ := n.Do("INFO", "replication").(string)
			return strings.Contains(info, "master_link_status:up")
		})
	}
	return c
}

func (c *testCluster) client(t *testing.T) *goredis.ClusterClient {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr)
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// patience bounds a test that would hang.
const patience = time.Minute

// eventually waits for what must become true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("not in %v: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
