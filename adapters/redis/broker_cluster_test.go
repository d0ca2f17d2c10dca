package redis_test

import (
	"testing"

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
