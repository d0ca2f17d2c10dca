package ratelimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

func TestWiringMistakesPanic(t *testing.T) {
	type layers = []ratelimit.Layer
	store := memory.NewStore()
	one := func(l *limit.Limiter) ratelimit.Layer { return ratelimit.Layer{Limiter: l, Key: ratelimit.PerUser} }
	many := make(layers, 65)
	for i := range many {
		many[i] = one(newLimiter(1))
	}
	broken := func() ratelimit.Layer {
		return one(limit.New(brokenStore{}, hourly(1), limit.Options{Name: "n"}))
	}
	shadow := func() ratelimit.Layer {
		return one(limit.New(brokenStore{}, hourly(1), limit.Options{Name: "n", Shadow: true}))
	}
	bans := func(o ratelimit.BanOptions) func() {
		return func() { ratelimit.NewBans(store, o) }
	}
	for _, tc := range []struct {
		says string
		f    func()
	}{
		{"limit.New(store, policy)", func() { ratelimit.New(nil, ratelimit.PerUserOrIPPerType) }},
		{"PerTopic without a limiter", func() { ratelimit.PerTopic(nil) }},
		{"without a layer", func() { ratelimit.NewAll(nil) }},
		{"NewAll with a nil limiter", func() { ratelimit.NewAll(layers{one(newLimiter(1)), {}}) }},
		{"have different stores", func() { ratelimit.NewAll(layers{one(newLimiter(1)), one(newLimiter(1))}) }},
		{"at most 64", func() { ratelimit.NewAll(many) }},
		{"it has no TakeAll", func() { ratelimit.NewAll(layers{broken(), broken()}) }},
		{"it has no TakeAll", func() { ratelimit.NewAll(layers{shadow(), shadow()}) }},
		{"a number of bytes", func() { ratelimit.BytesPer(0) }},
		{"the policy is nil", func() { ratelimit.NewPerConnection(nil) }},
		{"Capacity", func() {
			ratelimit.NewPerConnection(limit.TokenBucket{Refill: 1, Per: time.Second})
		}},
		{"New without a key", func() { ratelimit.New(newLimiter(1), nil) }},
		{"NewAll without a key", func() { ratelimit.NewAll(layers{{Limiter: newLimiter(1)}}) }},
		{"merge them into one", func() { ratelimit.New(newLimiter(1), ratelimit.PerIP, ratelimit.Options{}, ratelimit.Options{}) }},
		{"a cost of at least 1", func() { ratelimit.CostByType(map[string]int{"a": 1, "b": 0}) }},
		{"cannot Peek", func() { ratelimit.NewBans(nil) }},
		{"cannot Peek", func() { ratelimit.NewBans(brokenStore{}) }},
		{"set BanOptions.Limiter to", func() { ratelimit.NewBans(failing{}) }},
		{"After", bans(ratelimit.BanOptions{After: -1})},
		{"Within", bans(ratelimit.BanOptions{Within: -time.Second})},
		{"Ban", bans(ratelimit.BanOptions{Ban: time.Microsecond})},
		{"Recheck", bans(ratelimit.BanOptions{Recheck: -1})},
		{"CloseCode", bans(ratelimit.BanOptions{CloseCode: 1006})},
		{"Shadow", bans(ratelimit.BanOptions{Limiter: limit.Options{Shadow: true}})},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "ratelimit: ") || !strings.Contains(text, tc.says) {
					t.Errorf("panic %q, want one that says %q", text, tc.says)
				}
			}()
			tc.f()
		}()
	}
	// What may be given may be given.
	ratelimit.NewAll(layers{shadow()})
}
