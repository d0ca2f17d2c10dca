package redis_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

const frozen = 1_795_219_200_000_007

func frozenStore(t testing.TB, server *redistest.Server) redis.Store {
	return redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(frozen) }})
}

// Of a busy key what was taken in advance is spent: few questions, and not one unit more or less.
func TestPrefetchSpendsWhatWasTaken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := frozenStore(t, server)
	l := redis.NewPrefetch(s, redis.PrefetchOptions{Tokens: 50, Hold: time.Hour})
	var admitted atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 300 {
				d, err := l.Take(context.Background(), []byte("busy"), hourly(1000), 1)
				if err != nil || d.Allowed && (d.Charged != 1 || d.Limit != 1000 || d.Remaining < 0 || d.Remaining > 999) {
					t.Errorf("%+v, %v", d, err)
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := s.Peek(t.Context(), []byte("busy"), hourly(1000), 1)
	if err != nil || admitted.Load()+d.Remaining != 1000 || d.Remaining > 50 {
		t.Errorf("%d were admitted of 1000, %d are left, %v", admitted.Load(), d.Remaining, err)
	}
	if st := s.Stats(); st.Sent > 400 {
		t.Errorf("%+v: %d were admitted", st, admitted.Load())
	}
}

// What is not needed is given back, after Hold or by Close.
func TestPrefetchGivesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, hold := range map[string]time.Duration{"after Hold": 50 * time.Millisecond, "by Close": time.Hour} {
		s := frozenStore(t, server)
		l := redis.NewPrefetch(s, redis.PrefetchOptions{Tokens: 50, Hold: hold})
		admitted := int64(0)
		charged := func() int64 {
			d, err := s.Peek(t.Context(), []byte(name), hourly(100_000), 1)
			if err != nil {
				t.Fatal(err)
			}
			return 100_000 - d.Remaining
		}
		redistest.Eventually(t, "tokens are taken in advance", func() bool {
			for range 40 { // soon enough that the key counts as busy
				if d, err := l.Take(t.Context(), []byte(name), hourly(100_000), 1); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				admitted++
			}
			return charged() > admitted
		})
		if hold == time.Hour {
			_ = l.Close()
		}
		redistest.Eventually(t, "it is given back "+name, func() bool { return charged() == admitted })
		_ = l.Close()
	}
}

// What was taken in advance of a key that is reset is forgotten with it; other policies,
// and large costs, ask Redis.
func TestPrefetchOfOtherPoliciesAndCosts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := frozenStore(t, server)
	l := redis.NewPrefetch(s, redis.PrefetchOptions{Tokens: 10, Hold: time.Hour})
	defer l.Close()
	p := hourly(100)
	for range 15 {
		if _, err := l.Take(t.Context(), []byte("k"), p, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Reset(t.Context(), []byte("k"), p); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Take(t.Context(), []byte("k"), p, 1); err != nil || d.Remaining != 99 {
		t.Errorf("after a reset: %+v, %v", d, err)
	}
	if d, err := l.Take(t.Context(), []byte("k"), p, 11); err != nil || d.Remaining != 88 {
		t.Errorf("more than Tokens: %+v, %v", d, err)
	}
	for i := range int64(20) {
		window := limit.FixedWindow{Limit: 15, Window: time.Hour}
		if d, err := l.Take(t.Context(), []byte("w"), window, 1); err != nil || d.Allowed != (i < 15) || d.Remaining != max(0, 14-i) {
			t.Errorf("%d of a window: %+v, %v", i, d, err)
		}
	}
	if _, err := l.Take(t.Context(), []byte("k"), p, 0); err == nil {
		t.Error("cost 0 is accepted")
	}
}

// Off until it pays: with few asks for a key, NewPrefetch changes no decision.
func TestPrefetchIsAStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		clock := limittest.NewClock()
		s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{Now: clock.Now})
		l := redis.NewPrefetch(s, redis.PrefetchOptions{Tokens: 1 << 50})
		t.Cleanup(func() { _ = l.Close() })
		return limittest.Subject{Store: l, Clock: clock, Steps: 10}
	})
}

const (
	prefetchProcesses = 3
	prefetchTokens    = 40
	prefetchHold      = 20 * time.Millisecond
)

// Several processes that take tokens of one key in advance, by Redis' own clock, are admitted no
// more than the documented formula says, and with what they give back not much less.
func TestPrefetchOfManyProcesses(t *testing.T) {
	server := redistest.Start(t)
	p := prefetchPolicy
	begin := server.Now()
	got := admittedByProcesses(t, prefetchProcesses, 1, "TestPrefetchProcess", "WSKIT_PREFETCH="+server.Addr)[0]
	span := server.Now().Sub(begin)
	ahead := min(prefetchProcesses*prefetchTokens, int64(prefetchHold*time.Duration(p.Refill)/p.Per)+1)
	most := p.Capacity + int64(span*time.Duration(p.Refill)/p.Per) + 1 + ahead
	if got > most || got < p.Capacity/2 {
		t.Errorf("%d were admitted in %v, at most %d may be", got, span, most)
	}
}

var prefetchPolicy = limit.TokenBucket{Capacity: 3000, Refill: 2000, Per: time.Second}

// TestPrefetchProcess is one of the processes.
func TestPrefetchProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_PREFETCH")
	if addr == "" {
		t.Skip("one of the processes of TestPrefetchOfManyProcesses")
	}
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer client.Close()
	l := redis.NewPrefetch(redis.NewStore(client), redis.PrefetchOptions{Tokens: prefetchTokens, Hold: prefetchHold})
	var admitted atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 3000 {
				d, err := l.Take(context.Background(), []byte("prefetched"), prefetchPolicy, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wait.Wait()
	_ = l.Close()
	fmt.Println("admitted:", admitted.Load())
}

// What is being taken in advance when its key is reset is not spent: the charge is gone.
func TestPrefetchedIsNotSpentAfterAReset(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	direct := frozenStore(t, server)
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	s := redis.NewStore(client, redis.StoreOptions{Trips: 8, Now: func() time.Time { return time.UnixMicro(frozen) }})
	l := redis.NewPrefetch(s, redis.PrefetchOptions{Tokens: 6, Hold: time.Hour})
	const capacity = 20
	take := func() bool {
		d, err := l.Take(t.Context(), []byte("k"), hourly(capacity), 1)
		if err != nil {
			t.Error(err)
		}
		return d.Allowed
	}
	charged := func(n int64) {
		redistest.Eventually(t, fmt.Sprint(n, " are charged"), func() bool {
			d, err := direct.Peek(t.Context(), []byte("k"), hourly(capacity), 1)
			return err == nil && capacity-d.Remaining == n
		})
	}
	for range 3 {
		take() // so that the key counts as busy
	}
	var idle []*goredis.Conn // as many connections as calls will be under way
	for range 3 {
		c := client.Conn()
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	proxy.Delay(time.Second)
	var wait sync.WaitGroup
	wait.Go(func() { take() })
	charged(3 + 6)
	wait.Go(func() {
		if err := l.Reset(t.Context(), []byte("k"), hourly(capacity)); err != nil {
			t.Error(err)
		}
	})
	charged(0)
	wait.Go(func() { take() })
	charged(1)
	wait.Wait()
	proxy.Delay(0)
	admitted := 1
	for take() {
		admitted++
	}
	if admitted > capacity {
		t.Errorf("%d were admitted of %d after the reset", admitted, capacity)
	}
}
