package faulttest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

// promote has Sentinel make the replica the master, after something happened to the master, and then the
// master the replica.
func (d *Delivery) promote(first func(master *redistest.Server)) {
	d.t.Helper()
	s := d.redis.sentinel
	d.replicate(s.Master, s.Replica)
	defer d.mayLose(true)()
	first(s.Master)
	client := goredis.NewSentinelClient(&goredis.Options{Addr: s.Addr})
	defer client.Close()
	// knows waits until Sentinel's master is another one and it has nothing left to do.
	knows := func(master *redistest.Server, otherwise func()) {
		poll.Until(d.t, "Sentinel has another master", func() bool {
			m, err := client.Master(context.Background(), s.Name).Result()
			if err != nil || strings.Contains(m["flags"], "failover") {
				return false
			}
			if net.JoinHostPort(m["ip"], m["port"]) != master.Addr {
				otherwise()
				return false
			}
			return true
		})
	}
	// The first call may come too early, and what it begins may fail: the machine can be busy.
	knows(s.Replica, func() { client.Failover(context.Background(), s.Name) })
	s.Master, s.Replica = s.Replica, s.Master
	d.follow(s.Replica, s.Master)
	poll.Until(d.t, "Sentinel has the replica", func() bool {
		replicas, err := client.Replicas(context.Background(), s.Name).Result()
		return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave" && replicas[0]["master-link-status"] == "ok"
	})
}

// replicate waits until a replica has what its master has now: a failover loses only what comes later.
func (d *Delivery) replicate(master, replica *redistest.Server) {
	d.t.Helper()
	info := func(s *redistest.Server) *goredis.InfoCmd {
		client := s.Client()
		defer client.Close()
		return client.InfoMap(context.Background(), "replication")
	}
	want := info(master)
	if err := want.Err(); err != nil {
		d.t.Fatal(err)
	}
	poll.Until(d.t, "the replica has what its master has", func() bool {
		has := info(replica)
		return has.Item("Replication", "master_link_status") == "up" &&
			has.Item("Replication", "master_replid") == want.Item("Replication", "master_replid") &&
			offset(has, "slave_repl_offset") >= offset(want, "master_repl_offset")
	})
}

// offset is a number of bytes of replication; 0: it is not known.
func offset(info *goredis.InfoCmd, name string) int {
	n, _ := strconv.Atoi(info.Item("Replication", name))
	return n
}

func isMaster(s *redistest.Server) bool {
	client := s.Client()
	defer client.Close()
	role, err := client.Do(context.Background(), "ROLE").Slice()
	return err == nil && len(role) > 0 && role[0] == "master"
}

// follow makes a server, which may have to be started, a replica that is in step.
func (d *Delivery) follow(replica, master *redistest.Server) {
	d.t.Helper()
	if !replica.Running() {
		replica.Run()
	}
	host, port, _ := net.SplitHostPort(master.Addr)
	poll.Until(d.t, "the former master is a replica in step", func() bool {
		client := replica.Client()
		defer client.Close()
		info, err := client.Info(context.Background(), "replication").Result()
		if err == nil && strings.Contains(info, "role:master") {
			client.Do(context.Background(), "REPLICAOF", host, port) // Sentinel would do it later
		}
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_port:"+port) && strings.Contains(info, "master_link_status:up")
	})
}

// loseTail has a replica promoted that lacks messages which clients have got. Then one server appends others at their
// offsets, and more, before the other servers read the log.
func (d *Delivery) loseTail() {
	d.t.Helper()
	topic, only := d.topic(), d.server()
	failover := d.promote
	if d.redis.kind == InCluster {
		failover, topic = d.takeOver, roomTopic
	}
	failover(func(master *redistest.Server) {
		master.Do("ACL", "SETUSER", "default", "-psync", "-sync")
		master.Do("CLIENT", "KILL", "TYPE", "replica")
		d.nemesis.append(topic, 5+d.rand.IntN(10), 10)
		pause(100 * time.Millisecond) // clients get them
		for _, s := range d.servers {
			if s != only {
				s.Stall()
			}
		}
		master.Kill()
	})
	d.nemesis.appendAt(only.Config.Addr, topic, 30, 10)
	for _, s := range d.servers {
		if s != only {
			s.Resume()
		}
	}
}

// failoverLasts is longer than the 5 s after which Redis gives up a failover that was asked for. On a busy machine it
// does.
const failoverLasts = 6 * time.Second

// takeOver has the replica in the cluster become the master of its slots, and the node that was it the
// replica. kill, if there is one, kills that before. The node has one topic at least.
func (d *Delivery) takeOver(kill func(master *redistest.Server)) {
	d.t.Helper()
	r := &d.redis
	id := r.replica.Do("CLUSTER", "MYID").(string)
	at := r.replicated()
	r.cluster.Move(r.slot(roomTopic), at, func() {})
	old := r.cluster.Nodes[at]
	d.replicate(old, r.replica)
	defer d.mayLose(kill != nil)() // otherwise the master waits for the replica
	how := []any{"CLUSTER", "FAILOVER"}
	if kill != nil {
		kill(old)
		how = append(how, "TAKEOVER")
	}
	r.replica.Do(how...)
	began := time.Now()
	if kill == nil {
		d.nemesis.append(roomTopic, 50, 10) // meanwhile
	}
	client := r.replica.Client()
	defer client.Close()
	poll.Until(d.t, "the replica has taken over", func() bool {
		if isMaster(r.replica) {
			return true
		}
		if elapsed(began) > failoverLasts {
			client.Do(context.Background(), how...) // an error if it has just taken over
			began = time.Now()
		}
		return false
	})
	r.cluster.Nodes[at], r.replica = r.replica, old
	if kill != nil {
		old.Run()
	}
	poll.Until(d.t, "the former master follows", func() bool {
		info, _ := old.Do("INFO", "replication").(string)
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
	})
	for _, n := range r.cluster.Nodes {
		poll.Until(d.t, "all nodes know the new master", func() bool {
			nodes, _ := n.Do("CLUSTER", "NODES").(string)
			for line := range strings.Lines(nodes) {
				if strings.HasPrefix(line, id) {
					return strings.Contains(line, "master")
				}
			}
			return false
		})
	}
}

// replicated returns the index of the node that has the replica.
func (r *deliveryRedis) replicated() int {
	r.t.Helper()
	role, _ := r.replica.Do("ROLE").([]any)
	if len(role) >= 3 && role[0] == "slave" {
		master := net.JoinHostPort(fmt.Sprint(role[1]), fmt.Sprint(role[2]))
		for i, n := range r.cluster.Nodes {
			if n.Addr == master {
				return i
			}
		}
	}
	r.t.Fatalf("the replica is no replica of a node: %v", role)
	return 0
}
