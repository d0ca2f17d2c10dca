package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// storeClient is a client as redis.Open makes it, except that go-redis would
// repeat calls if the store let it.
func storeClient(t testing.TB, addr string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func hourly(capacity int64) limit.TokenBucket {
	return limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour}
}

// suite runs limittest over stores on a client. With asking, nothing is remembered
// and the script decides everything.
func suite(t *testing.T, remembered, steps int, client func(*testing.T) goredis.UniversalClient, wrap func(redis.Store) limittest.Subject) {
	limittest.Run(t, func(t *testing.T) limittest.Subject {
		clock := limittest.NewClock()
		s := redis.NewStore(client(t), redis.StoreOptions{Now: clock.Now, RememberedKeys: remembered})
		subject := wrap(s)
		subject.Clock, subject.Steps = clock, steps
		return subject
	})
}

const asking, remembering = -1, 0

func asItIs(s redis.Store) limittest.Subject { return limittest.Subject{Store: s} }

// apart is a store whose keys are on several servers, so that it cannot charge any two of
// them in one step.
func apart(s redis.Store) limittest.Subject { return limittest.Subject{Store: s, NoTakeAll: true} }

// storeTagged is a store whose keys are all in one slot.
type storeTagged struct{ s redis.Store }

func tagged(s redis.Store) limittest.Subject { return limittest.Subject{Store: storeTagged{s}} }

const tag = "{limittest}"

func (w storeTagged) Take(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	return w.s.Take(ctx, slices.Concat([]byte(tag), key), p, cost)
}

func (w storeTagged) Peek(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	return w.s.Peek(ctx, slices.Concat([]byte(tag), key), p, cost)
}

func (w storeTagged) Refund(ctx context.Context, key []byte, p limit.Policy, taken limit.Decision) error {
	return w.s.Refund(ctx, slices.Concat([]byte(tag), key), p, taken)
}

func (w storeTagged) Reset(ctx context.Context, key []byte, p limit.Policy) error {
	return w.s.Reset(ctx, slices.Concat([]byte(tag), key), p)
}

func (w storeTagged) asks(asks []limit.Ask) []limit.Ask {
	with := make([]limit.Ask, len(asks))
	for i, r := range asks {
		r.Key = append([]byte(tag), r.Key...)
		with[i] = r
	}
	return with
}

func (w storeTagged) TakeMany(ctx context.Context, asks []limit.Ask) error {
	with := w.asks(asks)
	err := w.s.TakeMany(ctx, with)
	for i := range with {
		asks[i].Decision = with[i].Decision
	}
	return err
}

func (w storeTagged) TakeAll(ctx context.Context, asks []limit.Ask) (int, error) {
	with := w.asks(asks)
	bound, err := w.s.TakeAll(ctx, with)
	for i := range with {
		asks[i].Decision = with[i].Decision
	}
	return bound, err
}

func TestStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := func(t *testing.T) goredis.UniversalClient { return storeClient(t, server.Addr) }
	t.Run("asking", func(t *testing.T) { suite(t, asking, 100, client, asItIs) })
	t.Run("remembering", func(t *testing.T) { suite(t, remembering, 50, client, asItIs) })
}

func TestStoreOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	client := func(t *testing.T) goredis.UniversalClient { return storeCluster(t, c) }
	t.Run("any keys", func(t *testing.T) { suite(t, asking, 30, client, apart) })
	t.Run("keys of one slot", func(t *testing.T) { suite(t, remembering, 30, client, tagged) })
	for i, n := range c.Nodes {
		if calls := n.Calls("evalsha"); calls < 1000 {
			t.Errorf("node %d decided %d times", i, calls)
		}
	}
}

func storeCluster(t testing.TB, c *redistest.Cluster) *goredis.ClusterClient {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestStoreOnARing(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	suite(t, remembering, 20, func(t *testing.T) goredis.UniversalClient {
		ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": a.Addr, "b": b.Addr}, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = ring.Close() })
		return ring
	}, apart)
	if a.Calls("evalsha") == 0 || b.Calls("evalsha") == 0 {
		t.Error("a server was never asked")
	}
}

// Keys that no script may touch together are refused together before anything is
// taken; taken by themselves they are.
func TestStoreTakesTogetherWhatIsTogether(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	s := redis.NewStore(storeCluster(t, c))
	var asks []limit.Ask
	for i := range 20 {
		asks = append(asks, limit.Ask{Key: fmt.Appendf(nil, "k%d", i), Policy: hourly(3), Cost: 1})
	}
	if _, err := s.TakeAll(t.Context(), asks); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TakeAll in many slots: %v", err)
	}
	if err := s.TakeMany(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	for i, a := range asks {
		d := a.Decision
		if !d.Allowed || d.Remaining != 2 {
			t.Errorf("%s: %+v", asks[i].Key, d)
		}
	}
	if bound, err := s.TakeAll(t.Context(), asks[:1]); err != nil || bound != 0 || asks[0].Decision.Remaining != 1 {
		t.Errorf("TakeAll of one: %d, %v, %+v", bound, err, asks[0].Decision)
	}
}

// By the server's clock, state is kept until it equals none and for the tolerance, and at most
// ten seconds longer. Milliseconds, one command, the clock of the server that
// has the key.
func TestStoreKeepsStateAsLongAsItCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	for name, p := range map[string]limit.Policy{
		"b": limit.TokenBucket{Capacity: 7, Refill: 7, Per: 3 * time.Minute}, "f": limit.FixedWindow{Limit: 7, Window: 720 * time.Hour},
		"s3": limit.SlidingWindow{Limit: 7, Window: time.Minute, Buckets: 3}, "l": limit.SlidingLog{Limit: 7, Window: time.Minute},
		"b+l": limit.All(hourly(10), limit.SlidingLog{Limit: 7, Window: time.Minute}),
	} {
		before := serverNow(server)
		for range 3 {
			d, err := s.Take(t.Context(), []byte("k"), p, 2)
			if err != nil || !d.Allowed {
				t.Fatalf("%v: %+v, %v", p, d, err)
			}
			if d.At < before || d.At > serverNow(server) {
				t.Errorf("%v: the instant is %v", p, time.UnixMicro(d.At))
			}
			ends := d.At + d.ResetAfter.Microseconds()
			keptAsLong(t, server, "k~"+name, ends)
		}
		writes := server.Calls("set")
		state := server.Do("GET", "k~"+name)
		kept := server.Do("PEXPIRETIME", "k~"+name)
		s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: -1})
		if d, err := s.Take(t.Context(), []byte("k"), p, 2); err != nil || d.Allowed {
			t.Fatalf("%v: %+v, %v", p, d, err)
		}
		if server.Calls("set") != writes || server.Do("GET", "k~"+name) != state || server.Do("PEXPIRETIME", "k~"+name) != kept {
			t.Errorf("%v: a denial wrote", p)
		}
	}
	for _, command := range []string{"keys", "scan", "expire", "setnx", "del"} {
		if n := server.Calls(command); n != 0 {
			t.Errorf("%s was called %d times", command, n)
		}
	}
}

// keptAsLong checks how long a state is kept that counts until ends, in microseconds.
func keptAsLong(t *testing.T, server *redistest.Server, key string, ends int64) {
	t.Helper()
	least := (ends+999)/1000 + longer
	if kept := server.Do("PEXPIRETIME", key).(int64); kept < least || kept > least+step {
		t.Errorf("%s: state counts until %d µs and is kept until %v ms, %d ms too long", key, ends, kept, kept-least)
	}
}

// The charges of a bucket that leave the expiry of its key as it is leave one that is long enough,
// also if another operation has written the state before.
func TestStoreKeepsABucketThatIsChargedOften(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{RememberedKeys: asking})
	p := limit.TokenBucket{Capacity: 6000, Refill: 7, Per: 10 * time.Second}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		ask := limit.Ask{Key: []byte("k"), Policy: p, Cost: 1 + rng.Int64N(4)}
		err := s.TakeMany(t.Context(), []limit.Ask{ask, {Key: []byte("other"), Policy: p, Cost: 1}})
		var d limit.Decision
		if err == nil {
			d, err = s.Take(t.Context(), ask.Key, p, ask.Cost)
		}
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		keptAsLong(t, server, "k~b", d.At+d.ResetAfter.Microseconds())
		if rng.IntN(6) == 0 {
			if err := s.Refund(t.Context(), ask.Key, p, d); err != nil {
				t.Fatal(err)
			}
		}
		if i%20 == 19 && server.Do("PTTL", "other~b").(int64) < longer {
			t.Error("a key of the same round trip expires too early")
		}
	}
}

// By the server's own clock, what was used comes back.
func TestStoreOwnClock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	p := limit.TokenBucket{Capacity: 1, Refill: 1, Per: 50 * time.Millisecond}
	for range 3 {
		redistest.Eventually(t, "one is admitted again", func() bool {
			d, err := s.Take(t.Context(), []byte("k"), p, 1)
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		})
	}
}

// A flood of what is exhausted costs Redis nothing.
func TestStoreFloodIsRefusedHere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	for i := range 10_000 {
		d, err := s.Take(t.Context(), []byte("k"), hourly(3), 1)
		if err != nil || d.Allowed != (i < 3) {
			t.Fatalf("%d: %+v, %v", i, d, err)
		}
	}
	if n := server.Calls("evalsha") + server.Calls("eval"); n > 10 {
		t.Errorf("%d commands for 3 that were admitted and a flood", n)
	}
	if st := s.Stats(); st.Remembered < 9_900 || st.Sent+st.Remembered != 10_000 || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
	if err := s.Reset(t.Context(), []byte("k"), hourly(3)); err != nil {
		t.Fatal(err)
	}
	if d, _ := s.Take(t.Context(), []byte("k"), hourly(3), 1); !d.Allowed {
		t.Errorf("after a reset: %+v", d)
	}
}

// Calls that come together go together, several for one key in one write, and each
// is answered by itself.
func TestStoreCombinesCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr), redis.StoreOptions{Trips: 1})
	server.Stall()
	type result struct {
		d   limit.Decision
		err error
	}
	const callers = 200
	results := make(chan result, callers)
	var begun atomic.Int64
	for range callers {
		go func() {
			begun.Add(1)
			d, err := s.Take(context.Background(), []byte("k"), hourly(150), 1)
			results <- result{d, err}
		}()
	}
	eventually(t, "all call", func() bool { return begun.Load() == callers })
	server.Resume()
	seen := map[int64]bool{}
	for range callers {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.d.Allowed {
			if seen[r.d.Remaining] {
				t.Errorf("two answers have %d remaining", r.d.Remaining)
			}
			seen[r.d.Remaining] = true
		}
	}
	if len(seen) != 150 {
		t.Errorf("%d of 150 were admitted", len(seen))
	}
	if st := s.Stats(); st.Trips > callers/4 {
		t.Errorf("%d trips for %d calls", st.Trips, callers)
	}
}

func TestStoreSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartNode(t)
	for _, key := range []string{"", "a", "123456789", "wskit:chat:ann~b", "{a}b", "x{a}b", "{}a", "{a", "a}{b}", "{{a}}", "ä", strings.Repeat("long", 100)} {
		if got, want := redis.Slot(key), c.Do("CLUSTER", "KEYSLOT", key); int64(got) != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestStoreOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := redistest.StartCluster(t, 3)
	for _, address := range []string{server.URL(), "redis://" + server.Addr + "/3?pool_size=2", c.Nodes[1].URL()} {
		s := openStore(t, address)
		for i := range 20 {
			if d, err := s.Take(t.Context(), []byte(fmt.Sprint("k", i)), hourly(1), 1); err != nil || !d.Allowed {
				t.Errorf("%s: %+v, %v", address, d, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if server.Do("DBSIZE") != int64(20) {
		t.Error("database 3 was not used")
	}
	const noURL = "redis: the address is no URL such as redis://localhost:6379"
	for address, want := range map[string]string{
		"redis://127.0.0.1:1": "refused", "redis://127.0.0.1:1?master_name=m": "sentinels",
		"http://localhost": noURL, "localhost:6379": noURL, "127.0.0.1:6379": noURL, "://:secret@": noURL,
	} {
		s, err := redis.OpenStore(t.Context(), address)
		if err == nil {
			s.Close()
			t.Errorf("%s is opened", address)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The rights that the documentation names are enough, and keys beyond the prefix
// are out of reach.
func TestStoreNeedsFewRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := []any{"ACL", "SETUSER", "limits", "on", ">password", "~wskit:*", "resetchannels", "-@all",
		"+evalsha", "+eval", "+get", "+mget", "+set", "+del", "+time", "+info"}
	server.Do(rights...)
	c := redistest.StartCluster(t, 3)
	for _, n := range c.Nodes {
		n.Do(append(rights, "+cluster|slots", "+cluster|shards")...)
	}
	t.Run("one server", func(t *testing.T) { fewRights(t, server) })
	t.Run("cluster", func(t *testing.T) { fewRights(t, c.Nodes[0]) })
}

func fewRights(t *testing.T, server *redistest.Server) {
	s := openStore(t, strings.Replace(server.URL(), "redis://", "redis://limits:password@", 1))
	l := limit.New(s, limit.All(hourly(2), limit.SlidingLog{Limit: 3, Window: time.Hour}), limit.Options{Name: "few", OnFailure: limit.FailClosed, Timeout: patience})
	for i := range 3 {
		if d, err := l.Take(t.Context(), limit.KeyOf("ann"), 1); err != nil || d.Allowed != (i < 2) {
			t.Errorf("%d: %+v, %v", i, d, err)
		}
	}
	if err := l.Reset(t.Context(), limit.KeyOf("ann")); err != nil {
		t.Error(err)
	}
	if _, err := s.Take(t.Context(), []byte("other:ann"), hourly(1), 1); err == nil {
		t.Error("a key of another application is within reach")
	}
}

// A user takes about as much memory as documented.
func TestStoreBytesPerKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redis.NewStore(storeClient(t, server.Addr))
	const n = 20_000
	fill := func(from, to int) {
		for i := from; i < to; i += 50 {
			var requests []limit.Ask
			for j := range 50 {
				requests = append(requests, limit.Ask{Key: fmt.Appendf(nil, "wskit:chat:u:acme:%06d:chat.send", i+j), Policy: hourly(10), Cost: 1})
			}
			if err := s.TakeMany(t.Context(), requests); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(0, 50)
	before := server.UsedMemory()
	fill(50, 50+n)
	if each := (server.UsedMemory() - before) / n; each > 200 {
		t.Errorf("%d bytes for a user", each)
	} else {
		t.Logf("%d bytes for a user", each)
	}
}

func TestStoreOptionsThatMakeNoSensePanic(t *testing.T) {
	t.Parallel()
	client := storeClient(t, "127.0.0.1:1")
	for want, make := range map[string]func(){
		"Trips":                       func() { redis.NewStore(client, redis.StoreOptions{Trips: -1}) },
		"RememberFor":                 func() { redis.NewStore(client, redis.StoreOptions{RememberFor: -1}) },
		"StoreOptions.ProcessTimeout": func() { redis.NewStore(client, redis.StoreOptions{ProcessTimeout: time.Hour}) },
		"client":                      func() { redis.NewStore(nil) },
		"*redis.Ring":                 func() { redis.NewStore((*goredis.Ring)(nil)) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panic %q, want one about %s", text, want)
				}
			}()
			make()
		}()
	}
}

// A client may be closed by its owner; a store that did not make it leaves it.
func TestStoreLeavesTheClientOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := storeClient(t, server.Addr)
	if err := redis.NewStore(client).Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
