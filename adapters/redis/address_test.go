package redis_test

import (
	"context"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// One seed that answers is enough, wherever it stands, and all ways to open take several.
func TestOpenWithSeveralSeeds(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	gone := redistest.Start(t)
	gone.Kill()
	alone := redistest.Start(t)
	for _, address := range []string{
		"redis://" + gone.Addr + "," + c.Nodes[1].Addr + "," + c.Nodes[2].Addr,
		"redis://" + gone.Addr + "?addr=" + c.Nodes[2].Addr,
		"redis://" + c.Nodes[0].Addr + "," + gone.Addr + "?pool_size=3",
	} {
		s := openStore(t, address)
		if _, cluster := s.Client().(*goredis.ClusterClient); !cluster {
			t.Errorf("%q: the client is a %T", address, s.Client())
		}
		for _, key := range []string{"a", "b", "c", "d"} { // on several nodes
			if _, err := s.Take(ctx, []byte(key), hourly(10), 1); err != nil {
				t.Errorf("%q: Take: %v", address, err)
			}
		}
		b := redis.NewBroker(s.Client())
		if err := b.Publish(ctx, pubsub.Message{Topic: "room"}); err != nil {
			t.Errorf("Publish: %v", err)
		}
		b.Close()
	}
	if _, err := redis.OpenStore(ctx, "redis://"+gone.Addr+","+alone.Addr); err == nil || !strings.Contains(err.Error(), "not part of a cluster") {
		t.Errorf("several servers that are no cluster: %v", err)
	}
	if _, err := redis.OpenStore(ctx, "redis://"+gone.Addr+","+gone.Addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("several servers that are gone: %v", err)
	}
}

// Sentinels may be given in the same way.
func TestOpenWithSeveralSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	gone := redistest.Start(t)
	gone.Kill()
	for _, hosts := range []string{gone.Addr + "," + s.Addr + "?", gone.Addr + "?addr=" + s.Addr + "&"} {
		store := openStore(t, "redis://"+hosts+"master_name="+s.Name)
		if _, err := store.Take(ctx, []byte("k"), hourly(10), 1); err != nil {
			t.Errorf("Take: %v", err)
		}
	}
}

// Wherever a secret stands in an address, no error repeats it.
func TestErrorsOfAddressesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "other")
	for _, address := range []string{
		"redis://h:1?read_timeout=SECRET", "redis://h:1?pool_size=SECRET", "redis://h:1?SECRET=1", "redis://h:1?SECRET",
		"redis://h:1/SECRET", "redis://h:1/1/SECRET", "redis://u:SECRET/x@h:1", "redis://u:SECRET?x@h:1", "redis://u:x?SECRET@h:1",
		"redis://u:SECRET#x@h:1", "redis://u:12#SECRET@h:1", "redis://u:SECRET%zz@h:1", "redis://u:SECRET@h:bad", "redis://:SECRET@h:1:2",
		"redis://h:1?db=SECRET", "redis://h:1?%zzSECRET", "redis://h:1?a;SECRET", "redis:SECRET", "SECRET://h", "SECRET", "redis://u:SECRET@",
		"redis://h:1?master_name=m&read_timeout=SECRET", "redis://h:1?master_name=m&addr=SECRET", "redis://h:1?master_name=m&SECRET=1",
		"redis://h:1?master_name=m&db=SECRET", "redis://u:SECRET@h:1,,h:2", "rediss://h:1?skip_verify=SECRET",
		"unix://u:SECRET@", "unix:///no/such.sock?read_timeout=SECRET", "unix://u:SECRET@/no/such.sock?db=x",
		"redis://u:SECRET@" + server.Addr, "redis://u:SECRET@" + server.Addr + "?read_timeout=SECRET",
	} {
		ctx, cancel := context.WithTimeout(ctx, patience)
		_, err := redis.OpenStore(ctx, address)
		cancel()
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, want := range map[string]string{
		"redis://h:1?read_timeout=x":               "read_timeout",
		"redis://h:1?master_name=m&pool_size=many": "pool_size",
		"redis://h:1?nothing=1":                    "parameter that there is not",
		"redis://h:1/x":                            "path",
		"redis://u:a#b@h":                          "%23",
	} {
		if _, err := redis.OpenStore(ctx, address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; it should say %q", address, err, want)
		}
	}
}
