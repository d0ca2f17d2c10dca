package redistest

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/poll"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of masters, formed by redis-cli.
type Cluster struct {
	Nodes []*Server

	t testing.TB
}

// StartCluster starts n nodes, at least 3, that share the slots evenly. On a busy machine a node may seem to have
// failed, so they take none for failed before AddReplica.
func StartCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	args := []string{"--cluster", "create"}
	for range n {
		node := StartNode(t)
		c.Nodes = append(c.Nodes, node)
		args = append(args, node.Addr)
	}
	c.cli(append(args, "--cluster-yes")...)
	for _, node := range c.Nodes {
		node := node
		Eventually(t, "the cluster is formed", func() bool {
			info, _ := node.Do("CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	c.failAfter("600000")
	return c
}

// failAfter sets for how many milliseconds a node may not answer before the others take it for failed.
func (c *Cluster) failAfter(ms string) {
	for _, n := range c.Nodes {
		n.Do("CONFIG", "SET", "cluster-node-timeout", ms)
	}
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Client is a plain client of the cluster. The caller closes it.
func (c *Cluster) Client() *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
}

// Owner returns the index of the node that has a slot.
func (c *Cluster) Owner(slot int) int {
	c.t.Helper()
	for i, n := range c.Nodes {
		shards, _ := n.Do("CLUSTER", "NODES").(string)
		for line := range strings.Lines(shards) {
			fields := strings.Fields(line)
			if len(fields) < 9 || !strings.Contains(fields[2], "myself") {
				continue
			}
			for _, span := range fields[8:] {
				from, to, _ := strings.Cut(span, "-")
				a, err := strconv.Atoi(from)
				b := a
				if to != "" {
					b, _ = strconv.Atoi(to)
				}
				if err == nil && a <= slot && slot <= b {
					return i
				}
			}
		}
	}
	c.t.Fatalf("no node has slot %d", slot)
	return 0
}

// Move moves a slot to the node with an index, key by key as an operator does. It calls
// between when a part of the keys has moved.
func (c *Cluster) Move(slot, to int, between func()) {
	c.t.Helper()
	from, target := c.Nodes[c.Owner(slot)], c.Nodes[to]
	if from == target {
		return
	}
	fromID, toID := from.Do("CLUSTER", "MYID"), target.Do("CLUSTER", "MYID")
	target.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := strings.Cut(target.Addr, ":")
	for moved := 0; ; moved++ {
		keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do("MIGRATE", host, port, keys[0], 0, 5000)
		if moved == 0 {
			between()
		}
	}
	for _, n := range []*Server{target, from} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	for _, n := range c.Nodes {
		if n != from && n != target {
			n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
		}
	}
}

func (c *Cluster) cli(args ...string) {
	c.t.Helper()
	out, err := exec.Command("redis-cli", args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
}

// Eventually is [poll.Until].
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll.Until(t, what, ok)
}
