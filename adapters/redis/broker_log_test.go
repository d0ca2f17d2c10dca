package redis_test

import (
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func logKeyOf(topic string) string {
	return "wskit:log:{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(topic) + "}"
}

// logFaults damage the logs at a server by its client.
func logFaults(client goredis.UniversalClient) pubsubtest.LogFaults {
	return pubsubtest.LogFaults{
		LoseLog: func(t *testing.T, _ pubsub.Log, topic string) {
			if n, err := client.Del(ctx, logKeyOf(topic)).Result(); n != 1 || err != nil {
				t.Errorf("%d logs lost: %v", n, err)
			}
		},
		LoseTail: func(t *testing.T, _ pubsub.Log, topic string, n int) {
			if err := loseTail(client, logKeyOf(topic), n); err != nil {
				t.Error(err)
			}
		},
	}
}

// loseTail makes a log what it was n messages ago, by what the comment of log.lua says.
func loseTail(client goredis.UniversalClient, key string, n int) error {
	fields, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	last, _ := strconv.Atoi(fields["o"])
	head, _, _ := strings.Cut(fields[strconv.Itoa(last-n)], "\n")
	parts := strings.Fields(head)
	before, _ := strconv.Atoi(parts[3])
	size, _ := strconv.Atoi(parts[4])
	ids := 0
	for name, value := range fields {
		offset, err := strconv.Atoi(name)
		if name[0] == 'i' {
			place, _, _ := strings.Cut(value, " ")
			offset, err = strconv.Atoi(place)
			if offset > last-n {
				ids++
			}
		}
		if err == nil && offset > last-n {
			client.HDel(ctx, key, name)
		}
	}
	next, _ := strconv.Atoi(fields["q"])
	return client.HSet(ctx, key, "o", last-n, "t", parts[0], "a", parts[2], "b", before+size, "q", next-ids).Err()
}

func TestBrokerIsALog(t *testing.T) {
	s := redistest.Start(t)
	proxies := map[pubsub.Log]*redistest.Proxy{}
	client := s.Client()
	defer client.Close()
	faults := logFaults(client)
	faults.Interrupt = func(t *testing.T, l pubsub.Log, meanwhile func()) {
		proxies[l].Cut()
		meanwhile()
		proxies[l].Mend()
	}
	pubsubtest.RunLog(t, func(t *testing.T, n int) []pubsub.Log {
		logs := make([]pubsub.Log, n)
		for i := range logs {
			p := redistest.StartProxy(t, s.Addr)
			logs[i] = brokerOn(t, &goredis.Options{Addr: p.Addr}, redis.BrokerOptions{})
			proxies[logs[i]] = p
		}
		return logs
	}, faults)
}

func TestBrokerIsALogInACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	pubsubtest.RunLog(t, func(t *testing.T, n int) []pubsub.Log {
		logs := make([]pubsub.Log, n)
		for i := range logs {
			logs[i] = newClusterBroker(t, c, redis.BrokerOptions{Keys: [][]byte{[]byte("0123456789abcdef")}})
		}
		return logs
	}, logFaults(clusterClient(t, c)))
	for i, n := range c.Nodes {
		if n.Calls("spublish") == 0 || n.Calls("publish") != 0 || n.Calls("evalsha") == 0 {
			t.Errorf("node %d saw %d SPUBLISH, %d PUBLISH, %d EVALSHA", i, n.Calls("spublish"), n.Calls("publish"), n.Calls("evalsha"))
		}
	}
}
