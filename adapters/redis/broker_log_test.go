package redis_test

import (
	"encoding/binary"
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
	next, _ := strconv.Atoi(fields["g"])
	last -= n
	var head []string
	for bundle := next - 1; ; bundle-- { // the last one that has a message that stays
		text, rest, _ := strings.Cut(fields[strconv.Itoa(bundle)], "\n")
		head = strings.Fields(text)
		first, _ := strconv.Atoi(head[0])
		count, _ := strconv.Atoi(head[1])
		if first > last {
			next = bundle
			client.HDel(ctx, key, strconv.Itoa(bundle))
			continue
		}
		kept := last - first + 1
		of := func(which int) int {
			return int(binary.BigEndian.Uint32([]byte(rest[12*(kept-1)+4*which:])))
		}
		before, _ := strconv.Atoi(head[4])
		client.HSet(ctx, key, "o", last, "t", of(0), "a", head[3], "b", before+of(1), "g", next)
		head[1] = strconv.Itoa(kept)
		body := rest[12*count:][:of(2)]
		client.HSet(ctx, key, strconv.Itoa(bundle), strings.Join(head, " ")+"\n"+rest[:12*kept]+body)
		break
	}
	ids := 0
	for name, value := range fields {
		if name[0] == 'i' {
			place, _, _ := strings.Cut(value, " ")
			if offset, _ := strconv.Atoi(place); offset > last {
				ids++
				client.HDel(ctx, key, name)
			}
		}
	}
	q, _ := strconv.Atoi(fields["q"])
	return client.HSet(ctx, key, "q", q-ids).Err()
}

func TestBrokerIsALog(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	pubsubtest.RunLog(t, func(t *testing.T, n int) []pubsub.Log {
		logs := make([]pubsub.Log, n)
		for i := range logs {
			logs[i] = newClusterBroker(t, c, redis.BrokerOptions{Timeout: patience / 2, Keys: [][]byte{[]byte("0123456789abcdef")}})
		}
		return logs
	}, logFaults(clusterClient(t, c)))
	for i, n := range c.Nodes {
		if n.Calls("spublish") == 0 || n.Calls("publish") != 0 || n.Calls("evalsha") == 0 {
			t.Errorf("node %d saw %d SPUBLISH, %d PUBLISH, %d EVALSHA", i, n.Calls("spublish"), n.Calls("publish"), n.Calls("evalsha"))
		}
	}
}
