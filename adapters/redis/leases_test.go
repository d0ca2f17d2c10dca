package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// holding makes a store, and leases of a key by their numbers.
func holding(t *testing.T, client goredis.UniversalClient) (redis.Store, func(i int) limit.Lease) {
	return redis.NewStore(client), func(i int) limit.Lease {
		return limit.Lease{Key: "k", ID: fmt.Sprint("lease", i)}
	}
}

func acquire(t *testing.T, s redis.Store, lease limit.Lease, most int64, leaseTime time.Duration) limit.Decision {
	t.Helper()
	d, err := s.Acquire(t.Context(), lease, most, leaseTime)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func expectHeld(t *testing.T, s redis.Store, key string, want int64) {
	t.Helper()
	if n, _, err := s.Held(t.Context(), key, 0); err != nil || n != want {
		t.Fatalf("%d leases of %s are held, want %d; %v", n, key, want, err)
	}
}

// Neither a denial nor a shorter lease of another instance shortens the
// life of what is held.
func TestLeasesLiveAsLongAsTheLongestLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, lease := holding(t, storeClient(t, server.Addr))
	kept := func() int64 { return server.Do("PEXPIRETIME", "k~held").(int64) }
	score := func() any { return server.Do("ZSCORE", "k~held", "lease1") }

	d := acquire(t, s, lease(1), 1, time.Hour)
	ends, until := d.At+d.ResetAfter.Microseconds(), kept()
	if !d.Allowed || d.ResetAfter != time.Hour || until != (ends+999)/1000+longer {
		t.Fatalf("the lease ends at %d µs and the key at %d ms: %+v", ends, until, d)
	}
	before := score()
	if d := acquire(t, s, lease(2), 1, time.Millisecond); d.Allowed {
		t.Fatalf("%+v", d)
	}
	if kept() != until || score() != before || server.Calls("zadd") != 1 {
		t.Error("a denial writes")
	}
	for what, do := range map[string]func() error{
		"an acquisition": func() error { _, err := s.Acquire(t.Context(), lease(3), 9, time.Millisecond); return err },
		"a renewal":      func() error { return s.Renew(t.Context(), []limit.Lease{lease(4)}, time.Millisecond) },
		"a release":      func() error { return s.Release(t.Context(), []limit.Lease{lease(3), lease(4)}) },
	} {
		if err := do(); err != nil || kept() != until || score() != before {
			t.Errorf("%s by another instance changes the life of a lease: %v", what, err)
		}
	}
	redistest.Eventually(t, "the short leases are over", func() bool { n, _, _ := s.Held(t.Context(), "k", 0); return n == 1 })

	// With the longest lease gone, the next one that is written counts.
	if err := s.Release(t.Context(), []limit.Lease{lease(1)}); err != nil {
		t.Fatal(err)
	}
	d = acquire(t, s, lease(5), 1, time.Minute)
	if ends := d.At + d.ResetAfter.Microseconds(); kept() != (ends+999)/1000+longer {
		t.Errorf("the last lease ends at %d µs and the key at %d ms", ends, kept())
	}
}

// Leases are held by the server's clock, whatever this process takes for the time,
// and under keys that no limit has.
func TestLeasesAreApartFromLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, lease := holding(t, storeClient(t, server.Addr))
	for range 2 {
		before := serverNow(server)
		d := acquire(t, s, lease(1), 1, time.Hour)
		if !d.Allowed || d.At < before || d.At > serverNow(server) {
			t.Errorf("%+v", d)
		}
		for _, p := range []limit.Policy{hourly(5), limit.FixedWindow{Limit: 5, Window: time.Hour}, limit.SlidingLog{Limit: 5, Window: time.Hour}} {
			for _, key := range []string{"k", "k~held"} {
				if d, err := s.Take(t.Context(), []byte(key), p, 1); err != nil || !d.Allowed {
					t.Errorf("%v: %+v, %v", p, d, err)
				}
			}
		}
	}
	expectHeld(t, s, "k", 1)
	if server.Do("DBSIZE") != int64(1+2*3) {
		t.Errorf("%d keys, want those of six limits and of one holder", server.Do("DBSIZE"))
	}
}

// What a large process leaves behind counts as nothing at once, and is dropped bit by bit
// once the tolerance has passed.
func TestLeasesOfTheDeadAreDropped(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	clock := limittest.NewClock()
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{Now: clock.Now})
	_, lease := holding(t, storeClient(t, server.Addr))
	const dead = 2500
	var leases []limit.Lease
	for i := range dead {
		leases = append(leases, lease(i))
	}
	acquire(t, s, lease(dead), 1, time.Hour)
	if err := s.Renew(t.Context(), leases, time.Minute); err != nil {
		t.Fatal(err)
	}
	expectHeld(t, s, "k", dead+1)
	clock.Advance(time.Minute)
	expectHeld(t, s, "k", 1)
	clock.Advance(limit.ClockTolerance)
	last := lease(999) // by score and by name: it is there still, and holds nothing
	if d := acquire(t, s, last, 1, time.Hour); d.Allowed {
		t.Errorf("what is over is taken for held: %+v", d)
	}
	for i, left := range []int64{500 + 2, 3, 4} {
		d := acquire(t, s, lease(dead+1+i), 10, time.Hour)
		if !d.Allowed || d.Remaining != int64(8-i) || d.ResetAfter != 58*time.Minute {
			t.Errorf("%+v", d)
		}
		if n := server.Do("ZCARD", "k~held"); n != left {
			t.Errorf("%d leases are kept, want %d", n, left)
		}
	}
	expectHeld(t, s, "k", 4)
}

// Many leases are sent in few round trips, those of a key in few scripts, wherever
// the keys are.
func TestLeasesAreSentTogether(t *testing.T) {
	t.Parallel()
	const keys, each = 700, 3
	var leases []limit.Lease
	for i := range keys * each {
		leases = append(leases, limit.Lease{Key: fmt.Sprint("key", i%keys), ID: fmt.Sprint(i)})
	}
	for i := range 1000 {
		leases = append(leases, limit.Lease{Key: "total", ID: fmt.Sprint(i)})
	}
	check := func(t *testing.T, client goredis.UniversalClient, trips int64, servers ...*redistest.Server) {
		s := redis.NewStore(client)
		held := func(want int64) {
			t.Helper()
			for i := range keys {
				expectHeld(t, s, fmt.Sprint("key", i), min(want, each))
			}
			expectHeld(t, s, "total", want)
		}
		acquire(t, s, leases[0], 1, time.Hour) // the server has the scripts by then
		before := s.Stats()
		if err := s.Renew(t.Context(), leases, time.Hour); err != nil {
			t.Fatal(err)
		}
		after := s.Stats()
		if n := after.Trips - before.Trips; n > trips {
			t.Errorf("%d round trips, want %d", n, trips)
		}
		if n := after.Sent - before.Sent; n != keys+4 {
			t.Errorf("%d scripts, want one for each key and four for a large one", n)
		}
		held(1000)
		for _, server := range servers {
			if server.Do("DBSIZE") == int64(0) {
				t.Errorf("%s has no keys", server.Addr)
			}
		}
		if err := s.Release(t.Context(), leases); err != nil {
			t.Fatal(err)
		}
		held(0)
		for _, server := range servers {
			if n := server.Do("DBSIZE"); n != int64(0) {
				t.Errorf("%s keeps %d keys", server.Addr, n)
			}
		}
		if st := s.Stats(); st.Failures != 0 {
			t.Errorf("%+v", st)
		}
	}
	t.Run("one server", func(t *testing.T) {
		server := redistest.Start(t)
		check(t, storeClient(t, server.Addr), 3, server)
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t, 3)
		check(t, storeCluster(t, c), 5, c.Nodes...)
	})
	t.Run("ring", func(t *testing.T) {
		a, b := redistest.Start(t), redistest.Start(t)
		ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": a.Addr, "b": b.Addr}, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = ring.Close() })
		check(t, ring, 4, a, b)
	})
}

// A stalled server delays no call beyond its context, and whatever it
// then did, the call may be made again. One that is down keeps no other from being
// reported.
func TestLeasesWhileAServerFails(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	ring := goredis.NewRing(&goredis.RingOptions{
		Addrs: map[string]string{"a": a.Addr, "b": b.Addr}, ContextTimeoutEnabled: true, MaxRetries: -1,
		HeartbeatFrequency: time.Hour, // a server that fails keeps its keys
		ReadTimeout:        patience,
	})
	t.Cleanup(func() { _ = ring.Close() })
	s := redis.NewStore(ring)
	var leases []limit.Lease
	for i := range 50 {
		leases = append(leases, limit.Lease{Key: fmt.Sprint("k", i), ID: "a"})
	}
	if err := s.Renew(t.Context(), leases, time.Minute); err != nil {
		t.Fatal(err)
	}
	there := b.Do("DBSIZE").(int64)
	if there == 0 || there == 50 {
		t.Fatalf("%d of 50 keys are on one of two servers", there)
	}
	a.Stall()
	b.Do("FLUSHALL")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	renewed := make(chan error, 1)
	go func() { renewed <- s.Renew(ctx, leases, time.Minute) }()
	redistest.Eventually(t, "the other server was called", func() bool { return b.Do("DBSIZE") == there })
	cancel()
	if err := <-renewed; !errors.Is(err, context.Canceled) {
		t.Errorf("the call of a stalled server: %v", err)
	}
	a.Resume()
	for range 3 {
		if err := s.Renew(t.Context(), leases, time.Minute); err != nil {
			t.Error(err)
		}
	}
	for _, lease := range leases {
		expectHeld(t, s, lease.Key, 1)
		if d := acquire(t, s, lease, 1, time.Minute); !d.Allowed {
			t.Errorf("%+v", d)
		}
	}
}

// A script that a server forgot is sent once more, whole.
func TestLeasesScriptsFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, lease := holding(t, storeClient(t, server.Addr))
	for i := range 5 {
		server.Do("SCRIPT", "FLUSH")
		if d := acquire(t, s, lease(i), 3, time.Hour); d.Allowed != (i < 3) {
			t.Errorf("%d: %+v", i, d)
		}
		expectHeld(t, s, "k", min(int64(i)+1, 3))
	}
	if st := s.Stats(); st.Reloads != 5 || st.Failures != 0 || server.Calls("eval") != 5 {
		t.Errorf("%+v", st)
	}
}

// The rights that the documentation names are enough.
func TestLeasesNeedFewRights(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	server.Do("ACL", "SETUSER", "limits", "on", ">password", "~wskit:*", "resetchannels", "-@all",
		"+evalsha", "+eval", "+mget", "+set", "+del", "+time", "+info",
		"+zadd", "+zrem", "+zcount", "+zscore", "+zrange", "+zremrangebyrank", "+pexpireat")
	s := openStore(t, strings.Replace(server.URL(), "redis://", "redis://limits:password@", 1))
	const key = "wskit:few:ann"
	long, short, next := limit.Lease{Key: key, ID: "long"}, limit.Lease{Key: key, ID: "short"}, limit.Lease{Key: key, ID: "next"}
	acquire(t, s, long, 2, time.Hour)
	acquire(t, s, short, 2, time.Millisecond)
	redistest.Eventually(t, "the short lease is over", func() bool { n, _, err := s.Held(t.Context(), key, 0); return err == nil && n == 1 })
	clock.Step(limit.ClockTolerance)
	acquire(t, s, next, 2, time.Hour)
	if n := server.Do("ZCARD", key+"~held"); n != int64(2) {
		t.Errorf("%d leases are kept, one of them without an ID", n)
	}
	if err := s.Renew(t.Context(), []limit.Lease{long, next}, time.Hour); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), []limit.Lease{long, next}); err != nil {
		t.Error(err)
	}
	expectHeld(t, s, key, 0)
	if _, _, err := s.Held(t.Context(), "other:ann", 0); err == nil {
		t.Error("a key of another application is within reach")
	}
}

// A lease takes about as much memory as documented.
func TestLeasesBytesPerSlot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	const n = 20_000
	id := func(i int) string { return fmt.Sprintf("%026d", i) } // as long as rand.Text
	for _, c := range []struct {
		what string
		key  func(int) string
		most int64
	}{
		{"one key", func(int) string { return "wskit:chat/open-total" }, 180},
		{"a key for each", func(i int) string { return fmt.Sprintf("wskit:chat/open-user:acme:%06d", i) }, 280},
	} {
		if err := s.Renew(t.Context(), []limit.Lease{{Key: c.key(n), ID: id(n)}}, time.Hour); err != nil {
			t.Fatal(err)
		}
		var leases []limit.Lease
		for i := range n {
			leases = append(leases, limit.Lease{Key: c.key(i), ID: id(i)})
		}
		before := server.UsedMemory()
		if err := s.Renew(t.Context(), leases, time.Hour); err != nil {
			t.Fatal(err)
		}
		if each := (server.UsedMemory() - before) / n; each > c.most {
			t.Errorf("%s: %d bytes for a lease, at most %d are documented", c.what, each, c.most)
		} else {
			t.Logf("%s: %d bytes for a lease", c.what, each)
		}
	}
}
