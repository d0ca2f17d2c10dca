package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestBrokerInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		brokers := make([]pubsub.Broker, n)
		for i := range brokers {
			brokers[i] = newClusterBroker(t, c, redis.BrokerOptions{Timeout: patience / 2})
		}
		return brokers
	})
	for i, n := range c.Nodes {
		if n.Calls("spublish") == 0 || n.Calls("ssubscribe") == 0 || n.Calls("publish") != 0 {
			t.Errorf("node %d saw %d SPUBLISH, %d SSUBSCRIBE, %d PUBLISH; every node carries its share, in sharded pub/sub",
				i, n.Calls("spublish"), n.Calls("ssubscribe"), n.Calls("publish"))
		}
	}
}

func newClusterBroker(t *testing.T, c *redistest.Cluster, opts redis.BrokerOptions) redis.Broker {
	t.Helper()
	return openBroker(t, clusterClient(t, c), opts)
}

// When a slot moves its topics move along, and the others stay where they are.
func TestTopicsFollowTheirSlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	b := newClusterBroker(t, c, redis.BrokerOptions{})
	// The link's own channel is in the slot of its first topic; that one stays.
	stay := subscribe(t, b, "room")
	slot := slotOf(c, "wskit:topic:{room}")
	from := c.Owner(slot)
	moves, channel := "", ""
	for i := 0; moves == ""; i++ {
		name := fmt.Sprint("room", i)
		channel = "wskit:topic:{" + name + "}"
		if n := slotOf(c, channel); n != slot && c.Owner(n) == from {
			moves = name
		}
	}
	in := subscribe(t, b, moves)
	to := (from + 1) % 3
	c.Move(slotOf(c, channel), to, func() {})
	eventually(t, "the subscription has moved", func() bool {
		there, _ := c.Nodes[to].Do("PUBSUB", "SHARDNUMSUB", channel).([]any)
		return len(there) == 2 && there[1] == int64(1)
	})
	healthy(t, b)
	if n := b.Stats().Lost; n != 1 {
		t.Errorf("lost %d times; one topic may have missed messages", n)
	}
	arrives(t, b, moves, in)
	arrives(t, b, "room", stay)
}

func TestTopicsFollowTheNewMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	logger, logged := newLog()
	b := newClusterBroker(t, c, redis.BrokerOptions{Logger: logger, HealthTimeout: time.Second})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	inboxes := make([]*inbox, len(names))
	for i, name := range names {
		inboxes[i] = subscribe(t, b, name)
	}
	master := c.Owner(slotOf(c, "wskit:topic:{a}"))
	c.AddReplica(master)
	c.Nodes[master].Kill()
	eventually(t, "the loss is noticed", func() bool { return b.Stats().Lost > 0 })
	// The replica takes over by itself.
	healthy(t, b)
	for i, name := range names {
		arrives(t, b, name, inboxes[i])
	}
	eventually(t, "each loss and each return is logged", func() bool {
		text := logged()
		lost, back := strings.Count(text, "are lost"), strings.Count(text, "subscribed to again")
		return lost > 0 && lost == back
	})
}

// clusterClient is a client as an application has it.
func clusterClient(t *testing.T, c *redistest.Cluster) *goredis.ClusterClient {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func slotOf(c *redistest.Cluster, key string) int {
	return int(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64))
}

func brokerOfSentinel(t *testing.T, s *redistest.Sentinel, opts redis.BrokerOptions) redis.Broker {
	t.Helper()
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: s.Name, SentinelAddrs: []string{s.Addr}, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	b := redis.NewBroker(client, opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestTopicsFollowSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	b := brokerOfSentinel(t, s, redis.BrokerOptions{HealthTimeout: time.Second})
	in := subscribe(t, b, "room")
	arrives(t, b, "room", in)

	// The old master neither answers nor closes anything.
	s.Master.Stall()
	s.DetectFailures()
	eventually(t, "the loss is noticed", func() bool { return b.Stats().Lost > 0 })
	healthy(t, b)
	arrives(t, b, "room", in)
}

// A planned failover closes no connection. What is published at the new master is missed
// for a moment only, though the former one goes on as a master and HealthTimeout is far away.
func TestTopicsFollowAPlannedFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	newBroker := func() redis.Broker {
		return brokerOfSentinel(t, s, redis.BrokerOptions{HealthTimeout: time.Hour})
	}
	b, publisher := newBroker(), newBroker()
	in := subscribe(t, b, "room")
	publish(t, publisher, "room", "before")
	eventually(t, "it arrives", func() bool { return in.count("before") == 1 })

	// After some seconds Sentinel would make the former master a replica, which closes its
	// connections.
	s.Master.Do("ACL", "SETUSER", "default", "-slaveof", "-replicaof", "-client|kill")
	sentinel := goredis.NewSentinelClient(&goredis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = sentinel.Close() })
	eventually(t, "Sentinel begins the failover", func() bool { return sentinel.Failover(ctx, s.Name).Err() == nil })
	var published []string
	eventually(t, "the subscription is at the new master", func() bool {
		frame := fmt.Sprint("m", len(published))
		if publisher.Publish(ctx, pubsub.Message{Topic: "room", Frame: []byte(frame)}) == nil {
			published = append(published, frame)
		}
		return len(topics(s.Replica)) == 1
	})
	healthy(t, b)
	arrives(t, b, "room", in)
	missed := 0
	for _, frame := range published {
		if in.count(frame) == 0 {
			missed++
		}
	}
	t.Logf("%d of %d messages that were published every 10 ms were missed", missed, len(published))
}
