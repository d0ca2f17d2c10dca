package redis_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

func ids(t *testing.T, p pubsub.Presence, topic string) (ids []string) {
	t.Helper()
	members, err := p.Members(ctx, topic)
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

func become(t *testing.T, p pubsub.Presence, topic string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the members of %s are %q", topic, want), func() bool { return slices.Equal(ids(t, p, topic), want) })
}

func join(t *testing.T, p pubsub.Presence, topic, id string) {
	t.Helper()
	if err := p.Join(ctx, topic, pubsub.Member{ID: id}); err != nil {
		t.Fatalf("Join: %v", err)
	}
}

// childTTL is enough for a process that is late on a busy machine, and then stands still for a second.
const childTTL = 4 * time.Second

// TestProcess is the child of TestKilledProcess.
func TestProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_TEST_REDIS")
	if addr == "" {
		t.Skip("run by TestKilledProcess")
	}
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	p := presenceOn(t, client, redis.PresenceOptions{ProcessTimeout: 2 * childTTL})
	join(t, p, "room", "child")
	subscribe(t, redis.NewBroker(client), "room")
	fmt.Println("joined")
	select {}
}

// A process that is killed leaves no member behind: neither its subscriptions nor, after
// TTL, its members, which are there for as long as it lives.
func TestKilledProcess(t *testing.T) {
	s := redistest.Start(t)
	p := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 2 * childTTL})
	child := process.StartTest(t, "TestProcess", "WSKIT_TEST_REDIS="+s.Addr, "joined")
	become(t, p, "room", "child")
	// It renews three times in TTL; no other process writes.
	before := s.Calls("eval")
	eventually(t, "the child renews for longer than TTL", func() bool { return s.Calls("eval") > before+4 })
	become(t, p, "room", "child")
	if got := topics(s); len(got) != 1 {
		t.Errorf("Redis has the topics %q while the child lives", got)
	}

	_ = child.Process.Kill()
	_ = child.Wait()
	for _, key := range keys(s) {
		if left := s.Do("PTTL", key).(int64); strings.Contains(key, ":members:") && left > childTTL.Milliseconds() {
			t.Errorf("%s is left for %d ms, TTL is %v", key, left, childTTL)
		}
	}
	become(t, p, "room")
	eventually(t, "its subscriptions are gone", func() bool { return len(topics(s)) == 0 })
	eventually(t, "its keys are gone", func() bool { return s.Do("DBSIZE") == int64(0) })
}

// keys is for tests alone.
func keys(s *redistest.Server) (keys []string) {
	all, _ := s.Do("KEYS", "*").([]any)
	for _, k := range all {
		keys = append(keys, k.(string))
	}
	return keys
}

func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 10 * time.Minute})
	for i := range 3 {
		join(t, p, fmt.Sprint("room", i), "a")
		join(t, p, fmt.Sprint("room", i), "b")
	}
	p.Leave("room1", "a")
	become(t, newPresence(t, s, redis.PresenceOptions{}), "room1", "b")
	all := keys(s)
	if len(all) != 9 {
		t.Errorf("%d keys for a process in three topics: %q", len(all), all)
	}
	for _, key := range all {
		if left := s.Do("PTTL", key).(int64); left <= 0 || left > 2*time.Hour.Milliseconds() {
			t.Errorf("%s expires in %d ms", key, left)
		}
	}
	p.Close()
	if all := keys(s); len(all) != 0 {
		t.Errorf("after Close there are %q", all)
	}
	if err := p.Join(ctx, "room", pubsub.Member{ID: "late"}); err != pubsub.ErrClosed {
		t.Errorf("Join after Close: %v", err)
	}
	p.Leave("room1", "b") // harmless
	p.Close()
}

// Whatever Redis has lost or got wrong is written anew.
func TestPresenceIsRepaired(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, other := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 2 * time.Second}), newPresence(t, s, redis.PresenceOptions{})
	for _, id := range []string{"a", "b", "c"} {
		join(t, p, "room", id)
	}
	s.Do("FLUSHALL")
	become(t, other, "room", "a", "b", "c")

	hash := ""
	eventually(t, "the members are there", func() bool { // on a slow machine they may have expired meanwhile
		all := keys(s)
		i := slices.IndexFunc(all, func(k string) bool { return strings.Contains(k, ":members:") })
		if i >= 0 {
			hash = all[i]
		}
		return i >= 0
	})
	s.Do("HSET", hash, "ghost", "\x00")
	become(t, other, "room", "a", "b", "c")
	s.Do("HDEL", hash, "b")
	become(t, other, "room", "a", "b", "c")
	if stats := p.Stats(); stats.Repaired < 3 || stats.Topics != 1 || stats.Members != 3 {
		t.Errorf("%+v", stats)
	}

	s.Kill()
	s.Run()
	become(t, other, "room", "a", "b", "c")
}

// A Redis that has lost the last changes, as after a failover, gets them again, also where as many members have left as
// have joined.
func TestPresenceAfterAFailover(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, other := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: time.Minute}), newPresence(t, s, redis.PresenceOptions{})
	join(t, p, "room", "a")
	join(t, p, "room", "b")
	become(t, other, "room", "a", "b")
	before := make(map[string]any)
	for _, k := range keys(s) {
		before[k] = s.Do("DUMP", k)
	}
	p.Leave("room", "b")
	join(t, p, "room", "c")
	become(t, other, "room", "a", "c")
	for k, dump := range before {
		s.Do("RESTORE", k, 0, dump, "REPLACE")
	}
	join(t, p, "room", "d")
	if got := ids(t, other, "room"); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("the members are %q", got)
	}
}

func TestPresenceWhileRedisIsStalled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	logger, logged := newLog()
	outages := make(chan errors.Outage, 100)
	p := newPresence(t, s, redis.PresenceOptions{
		ProcessTimeout: 2 * time.Second, Timeout: 200 * time.Millisecond, Logger: logger, OnOutage: func(o errors.Outage) { outages <- o },
	})
	other := newPresence(t, s, redis.PresenceOptions{})
	eventually(t, "joining works", func() bool { return p.Join(ctx, "room", pubsub.Member{ID: "a"}) == nil })
	s.Stall()
	if err := p.Join(ctx, "room", pubsub.Member{ID: "b"}); err == nil || !strings.HasPrefix(err.Error(), "redis: joining: ") {
		t.Errorf("Join: %v", err)
	}
	if _, err := p.Members(ctx, "room"); err == nil {
		t.Error("Members has no error")
	}
	p.Leave("room", "a") // waits for nothing
	eventually(t, "the failure is logged", func() bool { return strings.Contains(logged(), "cannot be written") })
	s.Resume()
	become(t, other, "room")
	eventually(t, "joining works", func() bool { return p.Join(ctx, "room", pubsub.Member{ID: "c"}) == nil })
	become(t, other, "room", "c")
	eventually(t, "the end is logged", func() bool { return strings.Contains(logged(), "is written again") })
	for _, over := range []bool{false, true} {
		if o := <-outages; o.Component != "presence" || o.Over != over || o.Err == nil {
			t.Errorf("%+v", o)
		}
	}
	if p.Stats().Failed == 0 {
		t.Error("the failure is not counted")
	}
}

// A key that Redis refuses to write keeps no other from being written.
func TestRefusedKeyHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "app", "on", ">secret", "+@all", "~*{good}*", "~*{better}*")
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, Username: "app", Password: "secret", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	p, other := presenceOn(t, client, redis.PresenceOptions{ProcessTimeout: 2 * time.Second}), newPresence(t, s, redis.PresenceOptions{})
	join(t, p, "good", "a")
	if err := p.Join(ctx, "bad", pubsub.Member{ID: "a"}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Join: %v", err)
	}
	join(t, p, "better", "a")
	before := s.Calls("eval")
	eventually(t, "more than TTL passes", func() bool { return s.Calls("eval") > before+8 })
	become(t, other, "good", "a")
}

func TestForeignMembersAreIgnoredAndCounted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPresence(t, s, redis.PresenceOptions{})
	join(t, p, "room", "a")
	s.Do("SADD", "wskit:processes:{room}", "foreign")
	s.Do("HSET", "wskit:members:{room}:foreign", "m", "\xff\xff\xff\xff\x7f", "n", "", "large", "\x00"+strings.Repeat("x", 4<<10))
	become(t, p, "room", "a")
	if n := p.Stats().Ignored; n != 3 {
		t.Errorf("%d ignored", n)
	}
}

func TestClosingPresenceWithoutRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPresence(t, s, redis.PresenceOptions{Timeout: 200 * time.Millisecond})
	eventually(t, "joining works", func() bool { return p.Join(ctx, "room", pubsub.Member{ID: "a"}) == nil })
	s.Kill()
	p.Close()
}

func TestPresenceOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	client := goredis.NewClient(&goredis.Options{})
	defer client.Close()
	for says, opts := range map[string]redis.PresenceOptions{
		"PresenceOptions.Prefix":         {Prefix: "a:b"},
		"PresenceOptions.ProcessTimeout": {ProcessTimeout: time.Millisecond},
		"PresenceOptions.Timeout":        {Timeout: -1},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "redis: ") || !strings.Contains(text, says) {
					t.Errorf("%s: the panic says %q", says, text)
				}
			}()
			redis.NewPresence(client, opts)
		}()
	}
}

// between is called in the midst of Members: when the processes have been read, and
// when their members have.
type between struct{ processes, members func() }

func (between) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (b between) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		b.read(cmd)
		return err
	}
}

func (b between) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		err := next(ctx, cmds)
		b.read(cmds[0])
		return err
	}
}

func (b between) read(cmd goredis.Cmder) {
	switch cmd.Name() {
	case "smembers":
		b.processes()
	case "hrandfield":
		b.members()
	}
}

// A member that joins an empty topic again while its members are read is not lost.
func TestMemberThatComesBackWhileOthersLook(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPresence(t, s, redis.PresenceOptions{ProcessTimeout: 10 * time.Minute})
	join(t, p, "room", "a")
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = client.Close() })
	var left, back sync.Once
	client.AddHook(between{
		processes: func() {
			left.Do(func() {
				p.Leave("room", "a")
				eventually(t, "the topic is empty", func() bool { return len(keys(s)) == 0 })
			})
		},
		members: func() { back.Do(func() { join(t, p, "room", "a") }) },
	})
	other := redis.NewPresence(client, redis.PresenceOptions{Timeout: patience})
	defer other.Close()
	_ = ids(t, other, "room") // sees a leave, and maybe not yet come back
	if got := ids(t, other, "room"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the members are %q", got)
	}
}
