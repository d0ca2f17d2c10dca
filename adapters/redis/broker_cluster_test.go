package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestBrokerInCluster(t *testing.T) {
	c := startCluster(t, 0)
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		brokers := make([]pubsub.Broker, n)
		for i := range brokers {
			brokers[i] = newClusterBroker(t, c, redis.BrokerOptions{})
		}
		return brokers
	})
	for i, n := range c.nodes {
		if n.Calls("spublish") == 0 || n.Calls("ssubscribe") == 0 || n.Calls("publish") != 0 {
			t.Errorf("node %d saw %d SPUBLISH, %d SSUBSCRIBE, %d PUBLISH; every node carries its share, in sharded pub/sub",
				i, n.Calls("spublish"), n.Calls("ssubscribe"), n.Calls("publish"))
		}
	}
}

func newClusterBroker(t *testing.T, c *testCluster, opts redis.BrokerOptions) *redis.Broker {
	b := redis.NewBroker(c.client(t), opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// When a slot moves its topics move along, and the others stay where they are.
func TestTopicsFollowTheirSlot(t *testing.T) {
	c := startCluster(t, 0)
	b := newClusterBroker(t, c, redis.BrokerOptions{})
	// The link's own channel is in the slot of its first topic; that one stays.
	stay := subscribe(t, b, "room")
	from := c.owner(t, "wskit:topic:{room}")
	moves, channel := "", ""
	for i := 0; moves == ""; i++ {
		name := fmt.Sprint("room", i)
		channel = "wskit:topic:{" + name + "}"
		if c.owner(t, channel) == from && c.slot(channel) != c.slot("wskit:topic:{room}") {
			moves = name
		}
	}
	in := subscribe(t, b, moves)
	to := (from + 1) % 3
	id := c.nodes[to].Do("CLUSTER", "MYID")
	for _, i := range []int{to, from, (from + 2) % 3} {
		c.nodes[i].Do("CLUSTER", "SETSLOT", c.slot(channel), "NODE", id)
	}
	eventually(t, "the subscription has moved", func() bool {
		there, _ := c.nodes[to].Do("PUBSUB", "SHARDNUMSUB", channel).([]any)
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
	c := startCluster(t, 3)
	logger, logged := newLog()
	b := newClusterBroker(t, c, redis.BrokerOptions{Logger: logger, HealthTimeout: time.Second})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	inboxes := make([]*inbox, len(names))
	for i, name := range names {
		inboxes[i] = subscribe(t, b, name)
	}
	c.nodes[c.owner(t, "wskit:topic:{a}")].Kill()
	eventually(t, "the loss is noticed", func() bool { return b.Stats().Lost > 0 })
	// The replica takes over by itself.
	healthy(t, b)
	for i, name := range names {
		arrives(t, b, name, inboxes[i])
	}
	eventually(t, "the return is logged", func() bool { return strings.Contains(logged(), "again") })
	if text := logged(); strings.Count(text, "are lost") != strings.Count(text, "subscribed to again") {
		t.Errorf("one line for each loss and one for each return:\n%s", text)
	}
}

func (c *testCluster) slot(key string) int64 { return c.nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64) }

// owner is the index of the master that has a key's slot.
func (c *testCluster) owner(t *testing.T, key string) int {
	t.Helper()
	master, err := c.client(t).MasterForKey(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range c.nodes {
		if n.Addr == master.Options().Addr {
			return i
		}
	}
	t.Fatalf("%s is no node's address", master.Options().Addr)
	return 0
}
