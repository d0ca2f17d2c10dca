package ratelimit_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// allocates reports what a call allocates.
func allocates(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 && !race.Enabled {
		t.Errorf("%s: %v allocations", name, n)
	}
}

// long makes keys that are longer than the buffers are at first.
func long(k limit.Key, c *ingress.Context) limit.Key {
	for range 10 {
		k = k.Part("a part of a key that is longer than the buffers are at first")
	}
	return ratelimit.PerUser(k, c)
}

// A refused frame costs no memory, and neither does one that passes.
func TestNothingIsAllocated(t *testing.T) {
	for name, capacity := range map[string]int64{"denied": 1, "allowed": 100_000} {
		policy := limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour}
		reported := ratelimit.Options{OnLimited: func(*ingress.Context, ratelimit.Limited) {}}
		ways := map[string]ingress.Handler{
			"per connection": ratelimit.NewPerConnection(policy, reported)(ingress.Pass),
			"bans": ratelimit.NewBans(memory.NewStore(),
				ratelimit.BanOptions{After: 1_000_000}).Middleware(ratelimit.New(newLimiter(capacity), ratelimit.PerUserOrIPPerType)(ingress.Pass)),
		}
		for i, key := range []ratelimit.KeyFunc{ratelimit.PerUser, ratelimit.PerUserPerType, ratelimit.PerUserOrIPPerType, long} {
			ways[fmt.Sprint("new ", i)] = ratelimit.New(newLimiter(capacity), key, reported)(ingress.Pass)
			announced := reported
			announced.Announce = "messages" // and no client follows it
			ways[fmt.Sprint("announced ", i)] = ratelimit.New(newLimiter(capacity), key, announced)(ingress.Pass)
			ways[fmt.Sprint("stack ", i)] = stacked(memory.NewStore(), policy, key, reported)(ingress.Pass)
		}
		for way, h := range ways {
			for user, id := range map[string]ingress.Identity{"ann": ann("").Identity, "anonymous": {}} {
				c := ann("chat.send")
				c.Identity, c.IP = id, netip.MustParseAddr("2001:db8::1")
				h(c)
				allocates(t, fmt.Sprintf("%s, %s, %s", name, way, user), func() { h(c) })
			}
		}
	}
}

// stacked puts three limits of one policy over one another.
func stacked(store limit.Store, policy limit.Policy, key ratelimit.KeyFunc, o ratelimit.Options) ingress.Middleware {
	return ratelimit.NewAll([]ratelimit.Layer{
		{Limiter: limit.New(store, policy, limit.Options{Name: "user"}), Key: key},
		{Limiter: limit.New(store, policy, limit.Options{Name: "tenant"}), Key: ratelimit.PerTenant},
		{Limiter: limit.New(store, policy, limit.Options{Name: "all"}), Key: ratelimit.Global},
	}, o)
}

// Handlers that charge a limit pay for the rejection alone.
func TestTakeAllocatesNothing(t *testing.T) {
	l, ctx, room := newLimiter(500_000), context.Background(), "lobby"
	buf := make([]byte, 0, 64)
	for name, key := range map[string]func() limit.Key{
		"a text":   func() limit.Key { return limit.KeyOf(room) },
		"a buffer": func() limit.Key { return l.Key(buf).Part("acme").Part(room) },
	} {
		allocates(t, "Take with "+name, func() {
			if err := ratelimit.Take(ctx, l, key(), 1); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// BenchmarkMiddleware is what a frame pays in each of the ways to limit it.
func BenchmarkMiddleware(b *testing.B) {
	for _, bc := range []struct {
		name     string
		capacity int64
	}{{"allowed", 1e9}, {"denied", 1}} {
		policy := limit.TokenBucket{Capacity: bc.capacity, Refill: bc.capacity, Per: time.Second}
		if bc.capacity == 1 {
			policy.Per = time.Hour
		}
		store := memory.NewStore()
		one := ratelimit.New(limit.New(store, policy), ratelimit.PerUserOrIPPerType)
		bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 1e9, Within: time.Second})
		for _, way := range []struct {
			name string
			h    ingress.Handler
		}{
			{"New", one(ingress.Pass)},
			{"NewAll of three", stacked(store, policy, ratelimit.PerUserOrIPPerType, ratelimit.Options{})(ingress.Pass)},
			{"NewPerConnection", ratelimit.NewPerConnection(policy)(ingress.Pass)},
			{"Bans before New", bans.Middleware(one(ingress.Pass))},
		} {
			b.Run(way.name+"/"+bc.name, func(b *testing.B) {
				c := ann("chat.send")
				way.h(c)
				b.ReportAllocs()
				for b.Loop() {
					way.h(c)
				}
			})
		}
	}
}
