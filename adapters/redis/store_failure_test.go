package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// switchLog counts what a limiter logs: that it turned away from its store, and
// that it came back.
type switchLog struct {
	slog.Handler
	left, back atomic.Int64
}

func newSwitchLog() *switchLog { return &switchLog{Handler: slog.DiscardHandler} }

func (l *switchLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *switchLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "fails") {
		l.left.Add(1)
	} else {
		l.back.Add(1)
	}
	return nil
}

// A node is what one process has: a limiter over a store, with callers that ask it
// without a pause.
type node struct {
	*limit.Limiter
	store    redis.Store
	log      *switchLog
	admitted atomic.Int64 // of the key they all ask for
	asked    atomic.Int64
}

const (
	nodeCapacity = 300
	nodeCallers  = 16
)

// newNode makes a limiter that asks Redis every time, with a policy that gives
// back next to nothing while a test runs.
func newNode(client goredis.UniversalClient, o limit.Options) *node {
	return newNodeOn(redis.NewStore(client, redis.StoreOptions{RememberedKeys: -1}), o)
}

func newNodeOn(s redis.Store, o limit.Options) *node {
	n := &node{store: s, log: newSwitchLog()}
	o.Name, o.Logger = "node", slog.New(n.log)
	n.Limiter = limit.New(n.store, limit.TokenBucket{Capacity: nodeCapacity, Refill: 1, Per: 24 * time.Hour}, o)
	return n
}

// busy lets the callers ask for one key, and now and then for one of their own,
// until the test ends or stop is called.
func (n *node) busy(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	for i := range nodeCallers {
		wait.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				key := "all"
				if j%4 == 3 {
					key = fmt.Sprint("own", i)
				}
				d, err := n.Take(context.Background(), limit.KeyOf(key), 1)
				if err != nil {
					t.Errorf("a caller got no decision: %v", err)
					return
				}
				if d.Allowed && key == "all" {
					n.admitted.Add(1)
				}
				n.asked.Add(1)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wait.Wait() })
	t.Cleanup(stop)
	return stop
}

// goesOn waits until many more decisions have been made.
func (n *node) goesOn(t *testing.T, when string) {
	t.Helper()
	from := n.asked.Load()
	redistest.Eventually(t, "decisions are made "+when, func() bool { return n.asked.Load() > from+20*nodeCallers })
}

func (n *node) degrades(t *testing.T) {
	t.Helper()
	redistest.Eventually(t, "the limiter leaves its store", func() bool { return n.Stats().Degraded })
}

func (n *node) recovers(t *testing.T) {
	t.Helper()
	redistest.Eventually(t, "the limiter is back at its store", func() bool { return !n.Stats().Degraded })
}

// check looks at what a test ended with: at most so many policies' worth were
// admitted, every switch was logged once and counted.
func (n *node) check(t *testing.T, worth int64) {
	t.Helper()
	if got := n.admitted.Load(); got > worth*nodeCapacity+1 {
		t.Errorf("%d were admitted, at most %d times %d may be", got, worth, nodeCapacity)
	}
	n.logsSwitches(t)
	st := n.Stats()
	if st.FailedOver != st.StoreFailures+st.Skipped {
		t.Errorf("%+v: decisions that the failure policy made are not all counted", st)
	}
}

// logsSwitches waits until every switch and every return is logged.
func (n *node) logsSwitches(t *testing.T) {
	t.Helper()
	redistest.Eventually(t, "every switch and every return is logged", func() bool {
		// A slow machine may have the limiter leave its store once more at the end, and
		// it returns only when it is asked.
		if _, err := n.Take(t.Context(), limit.KeyOf("last"), 1); err != nil {
			t.Fatal(err)
		}
		left := n.log.left.Load()
		return left == n.Stats().Switches && left >= 1 && n.log.back.Load() == left
	})
}

// goroutines waits until there are no more than callers and connections explain. Those of connections that
// are closed may take a while to end.
func goroutines(t *testing.T, before int) {
	t.Helper()
	eventually(t, "there are few goroutines", func() bool { return runtime.NumGoroutine() <= before+4*nodeCallers+20 })
}

func TestStoreKilledUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	n := newNode(storeClient(t, server.Addr), limit.Options{})
	stop := n.busy(t)
	n.goesOn(t, "by Redis")
	before := runtime.NumGoroutine()
	server.Kill()
	n.degrades(t)
	n.goesOn(t, "without Redis")
	goroutines(t, before)
	server.Run() // empty
	n.recovers(t)
	n.goesOn(t, "by Redis again")
	stop()
	n.check(t, 3) // before, by the node itself, and from what Redis forgot
	if st := n.store.Stats(); st.Reloads < 1 {
		t.Errorf("%+v: no script was sent to the new server", st)
	}
}

// A stalled server delays no call for longer than the timeout: all are
// answered while it is stalled.
func TestStoreStalled(t *testing.T) {
	server := redistest.Start(t)
	n := newNode(storeClient(t, server.Addr), limit.Options{})
	stop := n.busy(t)
	n.goesOn(t, "by Redis")
	before := runtime.NumGoroutine()
	server.Stall()
	n.degrades(t)
	n.goesOn(t, "while Redis is stalled")
	goroutines(t, before)
	server.Resume()
	n.recovers(t)
	n.goesOn(t, "by Redis again")
	stop()
	n.check(t, 2) // by Redis, and by the node itself
}

func TestStoreNetworkCutAndSlow(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	n := newNode(storeClient(t, proxy.Addr), limit.Options{})
	stop := n.busy(t)
	n.goesOn(t, "by Redis")
	before := runtime.NumGoroutine()
	for what, fault := range map[string]func(){
		"without a network":     proxy.Cut,
		"while nothing arrives": proxy.Mute,
		"over a network that is too slow": func() {
			proxy.Delay(time.Second)
		},
	} {
		fault()
		n.degrades(t)
		n.goesOn(t, what)
		goroutines(t, before)
		proxy.Mend()
		n.recovers(t)
	}
	stop()
	n.check(t, 2)
}

func TestStoreSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: s.Name, SentinelAddrs: []string{s.Addr}, ContextTimeoutEnabled: true, DialTimeout: time.Second,
	})
	t.Cleanup(func() { _ = client.Close() })
	n := newNode(client, limit.Options{Timeout: time.Second})
	stop := n.busy(t)
	n.goesOn(t, "by the master")
	s.Master.Kill()
	n.degrades(t) // before there can be another master, which may take a fifth of a second
	s.DetectFailures()
	redistest.Eventually(t, "the replica decides", func() bool {
		_, err := n.store.Peek(t.Context(), []byte("any"), hourly(1), 1)
		return err == nil
	})
	n.recovers(t)
	n.goesOn(t, "by the new master")
	stop()
	// By the masters, by the node itself, and what the old master had not replicated.
	if got := n.admitted.Load(); got > 3*nodeCapacity {
		t.Errorf("%d were admitted", got)
	}
	n.logsSwitches(t)
}

// A node of a cluster is killed. Nothing redirects the client to the node that takes over,
// and by itself it would not look for it in an hour; yet the decisions are Redis's again.
func TestStoreClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, DialTimeout: time.Second, ClusterStateReloadInterval: time.Hour,
	})
	t.Cleanup(func() { _ = client.Close() })
	n := newNode(client, limit.Options{})
	master := c.Owner(redis.Slot("wskit:node:all~b"))
	replica := c.AddReplica(master)
	stop := n.busy(t)
	n.goesOn(t, "by the master")
	c.Nodes[master].Kill()
	n.degrades(t)
	n.goesOn(t, "without the master")
	redistest.Eventually(t, "the replica is master", func() bool {
		role, _ := replica.Do("ROLE").([]any)
		return len(role) > 0 && role[0] == "master"
	})
	redistest.Eventually(t, "the new master is asked", func() bool { return replica.Calls("evalsha")+replica.Calls("eval") > 20 })
	n.recovers(t)
	n.goesOn(t, "by the new master")
	stop()
	if got := n.admitted.Load(); got > 3*nodeCapacity {
		t.Errorf("%d were admitted", got)
	}
}

// Slots move under load: nothing fails and nothing is charged twice or not at all.
func TestStoreSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	s := redis.NewStore(storeCluster(t, c), redis.StoreOptions{RememberedKeys: -1, Now: func() time.Time { return time.UnixMicro(1_795_219_200_000_007) }})
	const capacity, keys = 400, 8
	var admitted [keys]atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	var asked atomic.Int64
	for i := range nodeCallers {
		wait.Go(func() {
			for j := i; ctx.Err() == nil; j++ {
				k := j % keys
				d, err := s.Take(context.Background(), []byte(fmt.Sprintf("{moving}%d", k)), hourly(capacity), 1)
				if err != nil {
					t.Errorf("no decision: %v", err)
					return
				}
				if d.Allowed {
					admitted[k].Add(1)
				}
				asked.Add(1)
			}
		})
	}
	goesOn := func() {
		from := asked.Load()
		redistest.Eventually(t, "decisions are made", func() bool { return asked.Load() > from+50 })
	}
	goesOn()
	slot := redis.Slot("{moving}0")
	for range 3 {
		c.Move(slot, (c.Owner(slot)+1)%3, goesOn)
		goesOn()
	}
	redistest.Eventually(t, "all is used", func() bool {
		for k := range admitted {
			if admitted[k].Load() < capacity {
				return false
			}
		}
		return true
	})
	goesOn()
	cancel()
	wait.Wait()
	for k := range admitted {
		if got := admitted[k].Load(); got != capacity {
			t.Errorf("key %d: %d of %d were admitted", k, got, capacity)
		}
	}
}

// A script that a server forgot is sent once more, whole, and then the
// call fails rather than going round.
func TestStoreScriptsFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: -1, Now: func() time.Time { return time.UnixMicro(1_795_219_200_000_007) }})
	const capacity = 300
	var admitted atomic.Int64
	var wait sync.WaitGroup
	for range nodeCallers {
		wait.Go(func() {
			for range 100 {
				d, err := s.Take(context.Background(), []byte("k"), hourly(capacity), 1)
				if err != nil {
					t.Errorf("no decision: %v", err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	for range 20 {
		server.Do("SCRIPT", "FLUSH")
	}
	wait.Wait()
	if got := admitted.Load(); got != capacity {
		t.Errorf("%d of %d were admitted", got, capacity)
	}
	if _, err := s.Take(t.Context(), []byte("k"), hourly(capacity), 1); err != nil {
		t.Fatal(err)
	}
	// What these tests run is the script of the adapter.
	if known := fmt.Sprint(server.Do("SCRIPT", "EXISTS", redis.ScriptID)); known != "[1]" {
		t.Errorf("the server has the script: %s", known)
	}
	if st, whole := s.Stats(), server.Calls("eval"); st.Reloads < 1 || st.Reloads != whole {
		t.Errorf("%+v; the script was sent %d times", st, whole)
	}

	// A server that refuses the whole script as well is asked no third time.
	server.Do("ACL", "SETUSER", "few", "on", ">secret", "~*", "+@all", "-eval")
	server.Do("SCRIPT", "FLUSH")
	few := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "few", Password: "secret"})
	t.Cleanup(func() { _ = few.Close() })
	before := server.Calls("evalsha")
	if _, err := redis.NewStore(few).Take(t.Context(), []byte("k"), hourly(1), 1); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("without the right to load it: %v", err)
	}
	if n := server.Calls("evalsha") - before; n != 1 {
		t.Errorf("the script was called %d times", n)
	}
}

// A call whose answer was lost is not sent again, though the client was
// made to repeat what fails: it is charged once.
func TestStoreNeverRepeatsACall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr, MaxRetries: 5, ReadTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	s := redis.NewStore(client)
	calls := func() int64 { return server.Calls("evalsha") + server.Calls("eval") }
	if _, err := s.Take(t.Context(), []byte("k"), hourly(100), 1); err != nil { // the script is known, the connection made
		t.Fatal(err)
	}
	// The store looks at its servers beside the decisions. While it does, a call would take
	// a new connection, whose answers are not lost.
	redistest.Eventually(t, "the store has looked at the server", func() bool {
		st := client.PoolStats()
		return st.Hits+st.Misses >= 3 && st.IdleConns == st.TotalConns // evalsha, eval and info
	})
	before := calls()
	if err := losesAnswer(t, proxy, calls, func() error {
		_, err := s.Take(t.Context(), []byte("k"), hourly(100), 1)
		return err
	}); err == nil {
		t.Error("an answer arrived that was lost")
	}
	requests := []limit.Ask{{Key: []byte("k"), Policy: hourly(100), Cost: 1}, {Key: []byte("l"), Policy: hourly(100), Cost: 1}}
	if _, err := s.Take(t.Context(), []byte("l"), hourly(100), 1); err != nil {
		t.Fatal(err)
	}
	if err := losesAnswer(t, proxy, calls, func() error { return s.TakeMany(t.Context(), requests) }); err == nil {
		t.Error("answers arrived that were lost")
	}
	if n := calls() - before; n != 3 {
		t.Errorf("%d calls for 3", n)
	}
	d, err := s.Peek(t.Context(), []byte("k"), hourly(100), 1)
	if err != nil || d.Remaining != 97 {
		t.Errorf("%+v, %v: 1 and 1 and 1 were charged", d, err)
	}
}

// losesAnswer makes a call over the connections that are open: its answer is lost, and then the connection
// is closed. calls is how many the server has got.
func losesAnswer(t *testing.T, proxy *redistest.Proxy, calls func() int64, call func() error) error {
	t.Helper()
	before := calls()
	proxy.Lose()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	redistest.Eventually(t, "the server has got the call", func() bool { return calls() > before })
	proxy.Mend()
	return <-ended
}

// The same of a cluster, whose client repeats by rules of its own.
func TestStoreNeverRepeatsACallInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	proxies := map[string]*redistest.Proxy{}
	for _, n := range c.Nodes {
		proxies[n.Addr] = redistest.StartProxy(t, n.Addr)
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: c.Addrs(), ReadTimeout: patience,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, proxies[addr].Addr)
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	s := redis.NewStore(client)
	owner := c.Nodes[c.Owner(redis.Slot("k~b"))]
	if _, err := s.Take(t.Context(), []byte("k"), hourly(100), 1); err != nil {
		t.Fatal(err)
	}
	// The store looks at its servers beside the decisions, so a call may take a new
	// connection, whose answers are not lost.
	calls := int64(1)
	redistest.Eventually(t, "an answer is lost", func() bool {
		calls++
		got := func() int64 { return owner.Calls("evalsha") + owner.Calls("eval") }
		return losesAnswer(t, proxies[owner.Addr], got, func() error {
			_, err := s.Take(t.Context(), []byte("k"), hourly(100), 1)
			return err
		}) != nil
	})
	redistest.Eventually(t, "the node answers", func() bool {
		d, err := s.Peek(t.Context(), []byte("k"), hourly(100), 1)
		if err == nil && d.Remaining != 100-calls {
			t.Fatalf("%d are left of 100 after %d calls", d.Remaining, calls)
		}
		return err == nil
	})
}

// Without a connection to spare a call fails in time, and nothing is charged.
func TestStorePoolExhausted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, PoolSize: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	n := newNodeOn(redis.NewStore(client, redis.StoreOptions{Trips: 1}), limit.Options{})
	blocked := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(blocked)
		client.BLPop(ctx, 0, "nothing")
	}()
	redistest.Eventually(t, "the connection is taken", func() bool { return client.PoolStats().IdleConns == 0 && client.PoolStats().TotalConns == 1 })
	stop := n.busy(t)
	n.degrades(t)
	n.goesOn(t, "without a connection")
	server.Do("RPUSH", "nothing", "at last")
	<-blocked
	cancel()
	n.recovers(t)
	n.goesOn(t, "by Redis")
	stop()
	n.check(t, 2)
}

// While Redis does not answer, nothing is answered from memory either: a limiter
// would take that for an answer of Redis.
func TestStoreCachesNothingWhileRedisFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	for range 3 {
		if _, err := s.Take(t.Context(), []byte("k"), hourly(1), 1); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	if d, err := s.Take(t.Context(), []byte("k"), hourly(1), 1); err != nil || d.Allowed {
		t.Errorf("what is known needs no Redis: %+v, %v", d, err)
	}
	if _, err := s.Take(t.Context(), []byte("other"), hourly(1), 1); err == nil {
		t.Error("a killed server answers")
	}
	if d, err := s.Take(t.Context(), []byte("k"), hourly(1), 1); err == nil {
		t.Errorf("Redis is known to fail: %+v", d)
	}
	server.Run()
	redistest.Eventually(t, "Redis answers", func() bool { _, err := s.Take(t.Context(), []byte("other"), hourly(1), 1); return err == nil })
	if d, err := s.Take(t.Context(), []byte("k"), hourly(1), 1); err != nil || d.Allowed {
		t.Errorf("what is known is known again: %+v, %v", d, err)
	}
}

// A caller that leaves while it waits was not charged.
func TestStoreCallersLeave(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{Trips: 1})
	if _, err := s.Take(t.Context(), []byte("k"), hourly(100), 1); err != nil {
		t.Fatal(err)
	}
	server.Stall()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	leave := func() {
		wait.Go(func() {
			if _, err := s.Take(ctx, []byte("k"), hourly(100), 1); err == nil {
				t.Error("a stalled server answered")
			}
		})
	}
	leave()
	redistest.Eventually(t, "one is on its way", func() bool { return s.Stats().Trips == 2 })
	for range 49 {
		leave()
	}
	cancel()
	wait.Wait()
	server.Resume()
	redistest.Eventually(t, "the one is back", func() bool { return s.Stats().Sent == 2 })
	d, err := s.Peek(t.Context(), []byte("k"), hourly(100), 1)
	if err != nil {
		t.Fatal(err)
	}
	if used := 100 - d.Remaining; used > 2 {
		t.Errorf("%d are charged: the first, and at most the one that was sent", used)
	}
}
