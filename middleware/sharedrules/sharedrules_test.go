package sharedrules_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/middleware/sharedrules"
	"github.com/wskit/wskit/pubsub"
)

// process is one of several that share rules.
type process struct {
	*sharedrules.Shared
	limiter  *rules.Limiter
	replaced atomic.Value // what OnReplaced was called with last
}

func document(burst int) []byte {
	return fmt.Appendf(nil, `{"default": {"perMinute": 60, "burst": %d}}`, burst)
}

// burst is what the rules in force allow at once.
func (p *process) burst() int { return int(p.limiter.Rules().Default.Burst) }

func start(t *testing.T, log pubsub.Log) *process {
	t.Helper()
	given, err := rules.Parse(document(1))
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := rules.New(memory.NewStore(), given)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{limiter: limiter}
	replaced := func(version string) { p.replaced.Store(version) }
	if p.Shared, err = sharedrules.Follow(t.Context(), log, limiter, sharedrules.Options{OnReplaced: replaced}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// forLogs runs a test with processes in memory, and with some that share a Redis and nothing else.
func forLogs(t *testing.T, test func(t *testing.T, log func() pubsub.Log)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		broker := memory.NewBroker()
		test(t, func() pubsub.Log { return broker })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		test(t, func() pubsub.Log { return redisLog(t, server.Addr) })
	})
}

func redisLog(t *testing.T, addr string) pubsub.Log {
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	broker := redis.NewBroker(client)
	t.Cleanup(func() { _ = broker.Close() })
	return broker
}

// have waits until processes have the same rules.
func have(t *testing.T, burst int, processes ...*process) {
	t.Helper()
	for i, p := range processes {
		poll.Until(t, fmt.Sprintf("process %d has the rules", i), func() bool {
			return p.burst() == burst && p.Version() == processes[0].Version()
		})
	}
}

// agree waits until processes have the same rules, whatever they are.
func agree(t *testing.T, processes ...*process) {
	t.Helper()
	one := processes[0]
	for i, p := range processes {
		poll.Until(t, fmt.Sprintf("process %d agrees", i), func() bool { return p.burst() == one.burst() && p.Version() == one.Version() })
	}
}

func TestRulesReachAllProcesses(t *testing.T) {
	forLogs(t, func(t *testing.T, log func() pubsub.Log) {
		one, two := start(t, log()), start(t, log())
		if one.burst() != 1 || one.Version() != "" {
			t.Errorf("the rules begin as %d, %q", one.burst(), one.Version())
		}
		for burst := 2; burst < 10; burst++ {
			have(t, burst-1, one, two)
			by := []*process{one, two}[burst%2]
			if err := by.Replace(t.Context(), document(burst)); err != nil {
				t.Fatal(err)
			}
			if by.burst() != burst {
				t.Errorf("after Replace has returned, the burst is %d, want %d", by.burst(), burst)
			}
			if got := by.replaced.Load(); got != by.Version() {
				t.Errorf("OnReplaced was called with %v, want %s", got, by.Version())
			}
		}
		have(t, 9, one, two, start(t, log())) // the last one starts now
	})
}

// Of those that replace the same rules at once one succeeds, and all have its rules.
func TestOneOfSeveralWins(t *testing.T) {
	forLogs(t, func(t *testing.T, log func() pubsub.Log) {
		processes := make([]*process, 5)
		for i := range processes {
			processes[i] = start(t, log())
		}
		for round := range 10 {
			var won atomic.Int64
			var wins atomic.Int64
			begin := make(chan struct{})
			var calls sync.WaitGroup
			for i, p := range processes {
				calls.Go(func() {
					<-begin
					burst := 10 + 10*round + i
					switch err := p.Replace(t.Context(), document(burst)); {
					case err == nil:
						wins.Add(1)
						won.Store(int64(burst))
					case errors.CodeOf(err) != errors.Aborted:
						t.Error(err)
					}
				})
			}
			close(begin)
			calls.Wait()
			// A call that began when it had read the rules of another one succeeds, too.
			if wins.Load() < 1 {
				t.Fatal("none succeeds")
			}
			if wins.Load() == 1 {
				have(t, int(won.Load()), processes...)
			}
			agree(t, processes...)
		}
		agree(t, append(processes, start(t, log()))...)
	})
}

// A process that starts when the first rules have left the log has those in force, whatever was lost in races before.
func TestALateProcess(t *testing.T) {
	forLogs(t, func(t *testing.T, log func() pubsub.Log) {
		l := log()
		one := start(t, l)
		for burst := range 130 {
			if err := one.Replace(t.Context(), document(10+burst)); err != nil {
				t.Fatal(err)
			}
			if burst%3 == 0 { // as of a process that has not read the latest
				frame := []byte(`{"id":"x","base":"","rules":{"default":{"perMinute":1,"burst":7}}}`)
				h := pubsub.History{Messages: 100, Bytes: 16 << 20, Age: 10 * 365 * 24 * 3600 * 1e9}
				if _, err := l.Append(t.Context(), pubsub.Message{Topic: "$ws:rules:rules", Frame: frame}, h, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		have(t, 139, one, start(t, log()))
	})
}

func TestWhatIsNoRules(t *testing.T) {
	one := start(t, memory.NewBroker())
	for document, says := range map[string]string{
		`{`: "", `{"default": {"perMinute": -1}}`: "perMinute", strings.Repeat(" ", 2<<20): "at most 1048576",
	} {
		if err := one.Replace(t.Context(), []byte(document)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v", document, err)
		}
	}
	if one.burst() != 1 || one.Version() != "" {
		t.Errorf("the rules are %d, %q", one.burst(), one.Version())
	}
}

// When Redis has lost everything, the rules stay in force, and others can be set.
func TestRedisLosesTheRules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := start(t, redisLog(t, server.Addr)), start(t, redisLog(t, server.Addr))
	if err := one.Replace(t.Context(), document(5)); err != nil {
		t.Fatal(err)
	}
	have(t, 5, one, two)
	server.Do("FLUSHALL")
	poll.Until(t, "rules can be set again", func() bool {
		err := two.Replace(t.Context(), document(6))
		if err != nil && errors.CodeOf(err) != errors.Aborted {
			t.Fatal(err)
		}
		return err == nil
	})
	have(t, 6, two, one, start(t, redisLog(t, server.Addr)))
}

// While Redis does not answer, Follow says so, and follows later.
func TestStartingWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := start(t, redisLog(t, server.Addr))
	if err := one.Replace(t.Context(), document(5)); err != nil {
		t.Fatal(err)
	}
	server.Stall()
	given, _ := rules.Parse(document(1))
	limiter, err := rules.New(memory.NewStore(), given)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := sharedrules.Follow(ctx, redisLog(t, server.Addr), limiter)
	if errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("Follow without Redis: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	server.Resume()
	have(t, 5, one, &process{Shared: s, limiter: limiter})
}

// slow is a log that is not read while it is held.
type slow struct {
	pubsub.Log
	held     sync.RWMutex
	appended chan struct{}
}

func (s *slow) Read(ctx context.Context, topic string, h pubsub.History, o pubsub.ReadOptions) (pubsub.Page, error) {
	s.held.RLock()
	defer s.held.RUnlock()
	return s.Log.Read(ctx, topic, h, o)
}

func (s *slow) Append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	p, err := s.Log.Append(ctx, m, h, id)
	s.appended <- struct{}{}
	return p, err
}

// Who replaces rules that others have replaced meanwhile is told, and changes nothing.
func TestWhoIsLateIsTold(t *testing.T) {
	forLogs(t, func(t *testing.T, log func() pubsub.Log) {
		late := &slow{Log: log(), appended: make(chan struct{}, 1)}
		one, two := start(t, log()), start(t, late)
		late.held.Lock()
		if err := one.Replace(t.Context(), document(5)); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		go func() { told <- two.Replace(t.Context(), document(6)) }()
		poll.Receive(t, late.appended, "the entry is in the log")
		late.held.Unlock()
		if err := poll.Receive(t, told, "the end of Replace"); errors.CodeOf(err) != errors.Aborted {
			t.Errorf("who is late is told %v", err)
		}
		have(t, 5, one, two, start(t, log()))
		if err := two.Replace(t.Context(), document(7)); err != nil {
			t.Error(err)
		}
		have(t, 7, one, two)
	})
}
