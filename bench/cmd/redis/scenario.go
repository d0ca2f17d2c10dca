package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/limit"
)

// A scenario measures one contender; atLeast says that more is better.
type scenario struct {
	rival   string
	name    string
	target  float64 // 0: none
	atLeast bool
	measure func(ctx context.Context, s *server, contender string, o settings) (figure float64, note string, err error)
	turns   int // in a round, which has the same length whatever their number
}

// singleTurns are the turns of single publishes: the speed of a machine changes within seconds, and a publish that
// comes alone needs no time to get going.
const singleTurns = 10

var scenarios = []scenario{
	{limits, "decisions per second, 64 callers, many keys", 4.5, true, rate(64, 0, plenty), 1},
	{limits, "decisions per second, 256 callers, many keys", 4, true, rate(256, 0, plenty), 1},
	{limits, "decisions per second, 64 callers, one key", 8, true, rate(64, 1, plenty), 1},
	{limits, "refusals per second, 64 callers, exhausted keys", 50, true, rate(64, 100, scarce), 1},
	{limits, "time of a decision, one caller (µs)", 1.1, false, alone, 1},
	{limits, "bytes per key in Redis", 1, false, bytesPerKey, 1},
	{bare, "messages per second, published and delivered, 1 caller", 1.2, true, publishing(1, false), 1},
	{socket, "messages per second, published and delivered, 1 caller", 0, true, publishing(1, false), 1},
	{bare, "messages per second, published and delivered, 16 callers", 1, true, publishing(16, false), 1},
	{bare, "messages per second, published and delivered, 64 callers", 2, true, publishing(64, false), 1},
	{bare, "messages per second, published and delivered, 256 callers", 5, true, publishing(256, false), 1},
	{bare, "messages per second, appended to a log and delivered, 256 callers", 1.5, true, publishing(256, true), 1},
	{theirs, "messages per second, published and delivered, 1 caller", 1, true, publishing(1, false), 1},
	{theirs, "messages per second, published and delivered, 16 callers", 1, true, publishing(16, false), 1},
	{theirs, "messages per second, published and delivered, 64 callers", 1, true, publishing(64, false), 1},
	{theirs, "messages per second, published and delivered, 256 callers", 1, true, publishing(256, false), 1},
	{theirs, "messages per second, appended to a log and delivered, 16 callers", 1, true, publishing(16, true), 1},
	{theirs, "messages per second, appended to a log and delivered, 256 callers", 1, true, publishing(256, true), 1},
	{bare, "time of a publish, one caller, p50 (µs)", 1.1, false, lonePublish(0.5), singleTurns},
	{bare, "time of a publish, one caller, p99 (µs)", 1.1, false, lonePublish(0.99), singleTurns},
	{socket, "time of a publish, one caller, p50 (µs)", 0, false, lonePublish(0.5), singleTurns},
}

// The rivals.
const (
	limits = "redis_rate"
	bare   = "go-redis"
	socket = "socket"
	theirs = "centrifuge"
)

// A load is a limit: refill per hour.
type load struct{ burst, refill int64 }

var (
	plenty = load{1_000_000, 1_000_000 * 3600}
	scarce = load{1, 1}
)

// decider is a contender, made ready.
type decider func(ctx context.Context, key string) (allowed bool, err error)

func open(contender, addr string, l load) (decide decider, closing func() error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	if contender == limits {
		limiter := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: int(l.refill), Burst: int(l.burst), Period: time.Hour}
		return func(ctx context.Context, key string) (bool, error) {
			r, err := limiter.Allow(ctx, key, limit)
			return err == nil && r.Allowed > 0, err
		}, client.Close
	}
	store := redis.NewStore(client)
	plan, err := limit.Compile(limit.TokenBucket{Capacity: l.burst, Refill: l.refill, Per: time.Hour})
	if err != nil {
		panic(err)
	}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := store.Take(ctx, []byte(key), plan, 1)
		return d.Allowed, err
	}, client.Close
}

func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("chat:user:%08d", i)
	}
	return keys
}

// rate counts the decisions of a number of callers; keys 0 means as many as set.
func rate(callers, keys int, l load) func(context.Context, *server, string, settings) (float64, string, error) {
	return func(ctx context.Context, s *server, contender string, o settings) (float64, string, error) {
		decide, closing := open(contender, s.addr, l)
		defer closing()
		n := keys
		if n == 0 {
			n = o.keys
		}
		all := names(n)
		if err := s.fresh(ctx); err != nil {
			return 0, "", err
		}
		if _, _, err := drive(ctx, decide, all, callers, o.duration/4); err != nil {
			return 0, "", err
		}
		if err := s.admin.ConfigResetStat(ctx).Err(); err != nil {
			return 0, "", err
		}
		count, took, err := drive(ctx, decide, all, callers, o.duration)
		note := ""
		if l == scarce {
			note = fmt.Sprintf("%d refusals of %.0f commands at Redis", count, s.figure(ctx, "commandstats", "cmdstat_evalsha:calls="))
		}
		return float64(count) / took.Seconds(), note, err
	}
}

func drive(ctx context.Context, decide decider, keys []string, callers int, d time.Duration) (count int64, took time.Duration, err error) {
	var total atomic.Int64
	var failed atomic.Pointer[error]
	var stop atomic.Bool
	start := time.Now()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			n := int64(0)
			defer func() { total.Add(n) }()
			for at := uint32(i) * 2654435761; !stop.Load(); n++ {
				at = at*1664525 + 1013904223
				if _, err := decide(ctx, keys[int(at>>8)%len(keys)]); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wait.Wait()
	if e := failed.Load(); e != nil {
		err = *e
	}
	return total.Load(), time.Since(start), err
}

// alone is the mean time of a decision of one caller.
func alone(ctx context.Context, s *server, contender string, o settings) (float64, string, error) {
	decide, closing := open(contender, s.addr, plenty)
	defer closing()
	if err := s.fresh(ctx); err != nil {
		return 0, "", err
	}
	keys := names(o.keys)
	if _, _, err := drive(context.WithoutCancel(ctx), decide, keys, 1, o.duration/4); err != nil {
		return 0, "", err
	}
	count, took, err := drive(context.WithoutCancel(ctx), decide, keys, 1, o.duration)
	return float64(took.Nanoseconds()) / 1e3 / float64(count), "", err
}

// bytesPerKey is what a key adds to the memory in use.
func bytesPerKey(ctx context.Context, s *server, contender string, o settings) (float64, string, error) {
	decide, closing := open(contender, s.addr, load{10, 100})
	defer closing()
	if err := s.fresh(ctx); err != nil {
		return 0, "", err
	}
	keys := names(100_000)
	if _, err := decide(ctx, "first"); err != nil { // the script, the connection
		return 0, "", err
	}
	before := s.figure(ctx, "memory", "used_memory:")
	var wait sync.WaitGroup
	const callers = 16
	for i := range callers {
		wait.Go(func() {
			for j := i; j < len(keys); j += callers {
				_, _ = decide(ctx, keys[j])
			}
		})
	}
	wait.Wait()
	n, err := s.admin.DBSize(ctx).Result()
	if err == nil && n < int64(len(keys)) {
		err = fmt.Errorf("%d keys of %d", n, len(keys))
	}
	return (s.figure(ctx, "memory", "used_memory:") - before) / float64(n), "", err
}
