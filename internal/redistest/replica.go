package redistest

import (
	"fmt"
	"net"
	"strings"
)

// AddReplica starts a node that takes over when the node with an index fails. It waits
// until the replica is in sync and all nodes know each other.
func (c *Cluster) AddReplica(of int) *Server {
	c.t.Helper()
	c.failAfter(nodeTimeout)
	master := c.Nodes[of]
	replica := StartNode(c.t)
	host, port, _ := net.SplitHostPort(replica.Addr)
	master.Do("CLUSTER", "MEET", host, port, replica.bus)
	id := fmt.Sprint(master.Do("CLUSTER", "MYID"))
	Eventually(c.t, "the replica has its master", func() bool {
		nodes, _ := replica.Do("CLUSTER", "NODES").(string)
		return strings.Contains(nodes, id)
	})
	replica.Do("CLUSTER", "REPLICATE", id)
	self := fmt.Sprint(replica.Do("CLUSTER", "MYID"))
	Eventually(c.t, "the replica is in step", func() bool {
		info, _ := replica.Do("INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	// The replica is elected only by nodes that it knows, and it gets to know them from its master.
	all := append([]*Server{replica}, c.Nodes...)
	for _, n := range all {
		Eventually(c.t, "all nodes know each other", func() bool {
			nodes, _ := n.Do("CLUSTER", "NODES").(string)
			if strings.Count(nodes, " connected") < len(all) {
				return false
			}
			for line := range strings.Lines(nodes) {
				if strings.HasPrefix(line, self) && strings.Contains(line, "slave "+id) {
					return true
				}
			}
			return false
		})
	}
	return replica
}
