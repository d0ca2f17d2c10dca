package redis_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// With keys, what others publish at Redis is dropped, counted and logged once:
// made without the key, changed, or taken from another channel. The key can be changed
// process by process.
func TestBrokerMessagesAreAuthenticated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	old, next := bytes.Repeat([]byte("o"), 16), bytes.Repeat([]byte("n"), 32)
	logger, logged := newLog()
	b := newBroker(t, server, redis.BrokerOptions{Keys: [][]byte{old, next}, Logger: logger})
	in, other := subscribe(t, b, "room"), subscribe(t, b, "other")
	changed := newBroker(t, server, redis.BrokerOptions{Keys: [][]byte{next, old}})
	inChanged := subscribe(t, changed, "room")
	publish(t, b, "room", "by the old key")
	publish(t, changed, "room", "by the new key")
	for _, in := range []*inbox{in, inChanged} {
		eventually(t, "both arrive", func() bool { return in.count("by the old key") == 1 && in.count("by the new key") == 1 })
	}

	// A foreign client reads one message, and publishes what it can make of it.
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	listening := client.Subscribe(ctx, "wskit:topic:{room}")
	t.Cleanup(func() { _ = listening.Close() })
	if _, err := listening.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	publish(t, b, "room", "recorded")
	recorded, err := listening.ReceiveMessage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ignored := b.Stats().Ignored
	forged := []string{
		"", "\x01\x00\x00\x00forged", "\x02", "\x02" + strings.Repeat("x", 32) + "\x01\x00\x00\x00forged",
		recorded.Payload + "!", recorded.Payload[:len(recorded.Payload)-1], "\x01" + recorded.Payload[1:],
	}
	for _, payload := range forged {
		server.Do("PUBLISH", "wskit:topic:{room}", payload)
	}
	server.Do("PUBLISH", "wskit:topic:{other}", recorded.Payload)
	publish(t, newBroker(t, server, redis.BrokerOptions{}), "room", "by one without a key")
	publish(t, newBroker(t, server, redis.BrokerOptions{Keys: [][]byte{bytes.Repeat([]byte("x"), 16)}}), "room", "by one with another key")
	publish(t, b, "room", "last")
	publish(t, b, "other", "last")
	eventually(t, "what was published last arrives", func() bool { return in.count("last") == 1 && other.count("last") == 1 })
	if in.len() != 4 || other.len() != 1 {
		t.Errorf("%d and %d messages; what was forged has arrived", in.len(), other.len())
	}
	if n := b.Stats().Ignored - ignored; n != int64(len(forged)+3) {
		t.Errorf("%d are counted of %d", n, len(forged)+3)
	}
	if n := strings.Count(logged(), "dropped"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}

func TestBrokerRefusesShortKeys(t *testing.T) {
	t.Parallel()
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "Keys[1]") {
			t.Errorf("%s", said)
		}
	}()
	client := redistest.Start(t).Client()
	defer client.Close()
	redis.NewBroker(client, redis.BrokerOptions{Keys: [][]byte{make([]byte, 16), []byte("short")}})
}

// A key of another type is as if it were not there, for whatever looks for it, and is
// replaced by what is written.
func TestKeysOfAnotherType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	foreign := map[string][]any{
		"string": {"SET", "", "x"}, "list": {"RPUSH", "", "x"}, "hash": {"HSET", "", "f", "x"}, "set": {"SADD", "", "x"}, "zset": {"ZADD", "", 1, "x"},
	}
	poison := func(kind, key string) {
		args := append([]any(nil), foreign[kind]...)
		args[1] = key
		server.Do("DEL", key)
		server.Do(args...)
	}
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: -1})
	p := newPresence(t, server, redis.PresenceOptions{})
	for kind := range foreign {
		for _, policy := range []limit.Policy{hourly(5), limit.FixedWindow{Limit: 5, Window: 720 * time.Hour}, limit.SlidingLog{Limit: 5, Window: time.Hour}} {
			plan, err := limit.Compile(policy)
			if err != nil {
				t.Fatal(err)
			}
			key := kind + plan.Shape()
			poison(kind, key+"~"+plan.Shape())
			for left := int64(4); left >= -1; left-- {
				if d, err := s.Take(ctx, []byte(key), policy, 1); err != nil || d.Allowed != (left >= 0) || d.Remaining != max(0, left) {
					t.Errorf("%s, %T: %+v, %v; want %d left", kind, policy, d, err, left)
				}
			}
		}

		poison(kind, "k~held")
		if kind != "zset" {
			if n, _, err := s.Held(ctx, "k", 0); n != 0 || err != nil {
				t.Errorf("%s: %d are held, %v", kind, n, err)
			}
		}
		poison(kind, "k~held")
		for i := range 3 {
			d, err := s.Acquire(ctx, limit.Lease{Key: "k", ID: fmt.Sprint(i)}, 2, time.Hour)
			if err != nil || d.Allowed != (i < 2) {
				t.Errorf("%s: slot %d: %+v, %v", kind, i, d, err)
			}
		}
		poison(kind, "k~held")
		if err := s.Release(ctx, []limit.Lease{{Key: "k", ID: "0"}}); err != nil {
			t.Errorf("%s: Release: %v", kind, err)
		}

		poison(kind, "wskit:processes:{"+kind+"}")
		if members, err := p.Members(ctx, kind); len(members) != 0 || err != nil {
			t.Errorf("%s: %v, %v", kind, members, err)
		}
		join(t, p, kind, "a")
		become(t, newPresence(t, server, redis.PresenceOptions{}), kind, "a")
		server.Do("SADD", "wskit:processes:{"+kind+"}", "foreign")
		poison(kind, "wskit:members:{"+kind+"}:foreign")
		if kind != "hash" {
			become(t, p, kind, "a")
		}
	}
	// The hash that this process writes, too.
	for kind := range foreign {
		for _, key := range server.Do("KEYS", "wskit:members:{"+kind+"}*").([]any) {
			poison("string", key.(string))
		}
		join(t, p, kind, "b")
		become(t, newPresence(t, server, redis.PresenceOptions{}), kind, "a", "b")
	}
}

// A key that may not be read is not taken for one that is not there.
func TestKeysThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: -1})
	slot := limit.Lease{Key: "k", ID: "a"}
	if _, err := all.Take(ctx, []byte("k"), hourly(5), 5); err != nil {
		t.Fatal(err)
	}
	acquire(t, all, slot, 1, time.Hour)
	server.Do("ACL", "SETUSER", "few", "on", ">secret", "+@all", "~*", "-get", "-zcount")
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "few", Password: "secret", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	few := redis.NewStore(client, redis.StoreOptions{RememberedKeys: -1})
	if d, err := few.Take(ctx, []byte("k"), hourly(5), 1); err == nil {
		t.Errorf("Take: %+v", d)
	}
	if d, err := few.Acquire(ctx, limit.Lease{Key: "k", ID: "b"}, 1, time.Hour); err == nil {
		t.Errorf("Acquire: %+v", d)
	}
	if d, err := all.Take(ctx, []byte("k"), hourly(5), 1); err != nil || d.Allowed {
		t.Errorf("what was used is forgotten: %+v, %v", d, err)
	}
	expectHeld(t, all, "k", 1)
}

// Leases with an end later than any of ours take no places.
func TestSlotsThatNeverEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	server.Do("ZADD", "k~held", "+inf", "a", 1e300, "b", 4e15, "c")
	for i := range 3 {
		d, err := s.Acquire(ctx, limit.Lease{Key: "k", ID: fmt.Sprint(i)}, 2, time.Minute)
		if err != nil || d.Allowed != (i < 2) {
			t.Errorf("slot %d: %+v, %v", i, d, err)
		}
	}
}
