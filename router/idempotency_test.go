package router_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type order struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

// shop serves "order", which counts how often it is handled and does what do says, and
// "fast", which is no concern of any key.
type shop struct {
	*socketServer
	handled atomic.Int64
	do      func(*router.Context, order) (said, error)
	faults  faults
}

type faults struct {
	mu  sync.Mutex
	all []string
}

func (f *faults) add(fault router.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fault.Err.Error())
}

func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.all, "; ")
}

func openShop(t *testing.T, opts shopOptions, do func(*router.Context, order) (said, error), limits ...router.Limits) *shop {
	t.Helper()
	s := &shop{do: do}
	s.socketServer = serveSocket(t, s.options(opts, limits...), s.register)
	return s
}

// shopOptions are those of a shop; nil: its answers are in memory.
type shopOptions struct {
	Store          idempotency.Store
	Lease, Timeout time.Duration
	MaxAnswer      int
	FailOpen       bool
}

// openShopInMemory is openShop in a bubble.
func openShopInMemory(t *testing.T, opts shopOptions, do func(*router.Context, order) (said, error)) (*shop, *routertest.Server) {
	t.Helper()
	s := &shop{do: do}
	r := router.New(s.options(opts))
	s.register(r)
	return s, routertest.New(t, r)
}

func (s *shop) options(opts shopOptions, limits ...router.Limits) router.Options {
	limits = append(limits, router.Limits{})
	return router.Options{
		Backend: adapters.Backend{Idempotency: opts.Store, ProcessTimeout: opts.Lease},
		Idempotency: router.IdempotencyOptions{
			MaxAnswer: opts.MaxAnswer, Timeout: opts.Timeout, FailOpen: opts.FailOpen,
		},
		Limits:  limits[0],
		OnError: s.faults.add,
		Authenticate: func(r *http.Request) (ingress.Identity, error) {
			tenant, user, _ := strings.Cut(ingress.Token(r), "/")
			return ingress.Identity{Tenant: tenant, User: user}, nil
		},
	}
}

func (s *shop) register(r *router.Router) {
	handle := func(c *router.Context, m order) (said, error) {
		n := s.handled.Add(1)
		if s.do != nil {
			return s.do(c, m)
		}
		return said{fmt.Sprintf("order %d", n)}, nil
	}
	router.RPC(r, "order", handle)
	router.RPC(r, "other", handle)
	router.RPC(r, "beside", handle, router.RouteOptions{Concurrent: true})
	router.On(r, "order.event", func(c *router.Context, m order) error { _, err := handle(c, m); return err })
}

func (s *shop) as(user string) *peer { return s.dial("Authorization: Bearer " + user) }

// keyed is a request with a key.
func keyed(typ, id, key, payload string) []byte {
	return textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q,"idempotencyKey":%q},"payload":%s}`, typ, id, key, payload))
}

func TestSameKeyGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := openShop(t, shopOptions{}, nil)
	ann := s.as("a/ann")
	ann.write(keyed("order", "1", "k", `{"text":"tea","n":2}`))
	ann.expect("reply 1 order 1")
	for i, payload := range []string{`{"text":"tea","n":2}`, "{ \"n\" : 2,\n\"text\": \"t\\u0065a\" }"} {
		ann.write(keyed("order", "2", "k", payload))
		ann.expect("reply 2 order 1")
		again := s.as("a/ann")
		again.write(keyed("order", fmt.Sprint("3", i), "k", payload))
		again.expect(fmt.Sprintf("reply 3%d order 1", i))
		again.bye()
	}
	// A key in which a character is escaped is the same key.
	ann.write(textFrame(`{"type":"order","meta":{"correlationId":"4","idempotencyKey":"\u006b"},"payload":{"text":"tea","n":2}}`))
	ann.expect("reply 4 order 1")
	for i, other := range []string{`{"text":"tea","n":3}`, `{"text":"tea","n":2,"x":1}`, `{"text":"tea"}`} {
		ann.write(keyed("order", fmt.Sprint(i), "k", other))
		ann.expect(fmt.Sprintf("RPC_ERROR %d FAILED_PRECONDITION", i))
	}
	// Integers that doubles do not tell apart are different payloads.
	ann.write(keyed("order", "1", "big", `{"n":9007199254740993}`))
	ann.expect("reply 1 order 2")
	ann.write(keyed("order", "2", "big", `{"n":9007199254740992}`))
	ann.expect("RPC_ERROR 2 FAILED_PRECONDITION")
	if n := s.handled.Load(); n != 2 {
		t.Errorf("handled %d times", n)
	}

	// What differs in user, tenant, type or key is another message.
	next := 3
	expectNew := func(p *peer, typ, key string) {
		t.Helper()
		p.write(keyed(typ, "1", key, `{"text":"tea","n":2}`))
		p.expect(fmt.Sprint("reply 1 order ", next))
		next++
	}
	expectNew(ann, "other", "k")
	expectNew(ann, "order", "K")
	expectNew(s.as("a/bob"), "order", "k")
	expectNew(s.as("b/ann"), "order", "k")
	expectNew(s.as("aa/nn"), "order", "k")
	// And one without a key is handled each time.
	for i := range 2 {
		ann.write(textFrame(`{"type":"order","meta":{"correlationId":"1"},"payload":{}}`))
		ann.expect(fmt.Sprint("reply 1 order ", next+i))
	}
}

// A client without an identity has keys of its connection alone.
func TestKeysOfAnonymousClientsBelongToTheConnection(t *testing.T) {
	t.Parallel()
	s := openShop(t, shopOptions{}, nil)
	p, other := s.dial(), s.dial()
	for range 2 {
		p.write(keyed("order", "1", "k", `{}`))
		p.expect("reply 1 order 1")
	}
	other.write(keyed("order", "1", "k", `{}`))
	other.expect("reply 1 order 2")
}

// While the first is handled, the same message waits, on its own connection as on another,
// for ordered and concurrent routes: what comes behind it does not.
func TestSameKeyWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"order", "beside"} {
		t.Run(typ, func(t *testing.T) {
			goOn := make(chan struct{})
			s := openShop(t, shopOptions{}, func(c *router.Context, m order) (said, error) {
				_ = c.Progress(1)
				<-goOn
				return said{"done"}, nil
			})
			first, second := s.as("a/ann"), s.as("a/ann")
			first.write(keyed(typ, "1", "k", `{}`))
			first.expect("$ws:rpc-progress 1")
			if typ == "beside" { // of an ordered route it waits for its turn
				first.write(keyed(typ, "2", "k", `{}`))
			}
			second.write(keyed(typ, "1", "k", `{}`), keyed(typ, "2", "k", `{}`))
			second.write(keyed(typ, "3", "k", `{"n":1}`), textFrame(`{"type":"echo","meta":{"correlationId":"4"},"payload":{"text":"hi"}}`))
			second.expectInAnyOrder("RPC_ERROR 3 FAILED_PRECONDITION", "reply 4 hi")
			close(goOn)
			if typ == "beside" {
				first.expectInAnyOrder("reply 1 done", "reply 2 done")
			} else {
				first.expect("reply 1 done")
			}
			second.expectInAnyOrder("reply 1 done", "reply 2 done")
			if n := s.handled.Load(); n != 1 {
				t.Errorf("handled %d times", n)
			}
		})
	}
}

// The connection breaks while the message is handled. Sent again on a new connection, it
// gets the answer, whether the handler is through by then or not.
func TestRetryOnANewConnection(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprint("while it is handled ", early), func(t *testing.T) {
			started, goOn := make(chan struct{}), make(chan struct{})
			s := openShop(t, shopOptions{}, func(c *router.Context, m order) (said, error) {
				close(started)
				<-goOn
				return said{"done"}, nil
			})
			first := s.as("a/ann")
			first.write(keyed("order", "1", "k", `{}`))
			<-started
			first.reset()
			again := s.as("a/ann")
			if early {
				again.write(keyed("order", "1", "k", `{}`), textFrame(`{"type":"echo","meta":{"correlationId":"2"},"payload":{"text":"hi"}}`))
				again.expect("reply 2 hi")
				close(goOn)
			} else {
				close(goOn)
				again.write(keyed("order", "1", "k", `{}`))
			}
			again.expect("reply 1 done")
			if n := s.handled.Load(); n != 1 {
				t.Errorf("handled %d times", n)
			}
		})
	}
}

// What the handler returns is the outcome: which errors are kept, and which are not.
func TestWhichErrorsAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    func(*router.Context, order) (said, error)
		first string
		kept  bool
	}{
		"not found":   {func(*router.Context, order) (said, error) { return said{}, errors.NotFound.New("none") }, "NOT_FOUND", true},
		"unavailable": {func(*router.Context, order) (said, error) { return said{}, errors.Unavailable.New("away") }, "UNAVAILABLE", false},
		"cancelled":   {func(*router.Context, order) (said, error) { return said{}, context.Canceled }, "CANCELLED", false},
		"fault":       {func(*router.Context, order) (said, error) { return said{}, errors.New("secret") }, "INTERNAL", true},
		"panic":       {func(*router.Context, order) (said, error) { panic("secret") }, "INTERNAL", true},
		"a limit": {func(*router.Context, order) (said, error) {
			return said{}, &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, Never: true}
		}, "FAILED_PRECONDITION", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, shopOptions{}, c.do)
			p := s.as("a/ann")
			for i := range 3 {
				p.write(keyed("order", fmt.Sprint(i), "k", `{}`))
				p.expect(fmt.Sprintf("RPC_ERROR %d %s", i, c.first))
			}
			want := int64(3)
			if c.kept {
				want = 1
			}
			if n := s.handled.Load(); n != want {
				t.Errorf("handled %d times", n)
			}
			if f := s.faults.String(); strings.Count(f, "secret") > 1 {
				t.Errorf("the fault is reported again: %s", f)
			}
		})
	}
}

// An error is repeated with all that it says, and the id of the request that asks.
func TestErrorIsRepeatedWhole(t *testing.T) {
	t.Parallel()
	s := openShop(t, shopOptions{}, func(*router.Context, order) (said, error) {
		return said{}, errors.AlreadyExists.New("taken").WithDetails(map[string]any{"by": "bob"})
	})
	p := s.as("a/ann")
	for _, id := range []string{"1", "2"} {
		p.write(keyed("order", id, "k", `{}`))
		f, err := p.read()
		want := `{"type":"RPC_ERROR","meta":{"correlationId":"` + id + `"},"payload":{"code":"ALREADY_EXISTS","message":"taken","retryable":false,"details":{"by":"bob"}}}`
		if err != nil || string(f.payload) != want {
			t.Errorf("got %s, %v", f.payload, err)
		}
	}
}

// A request that waited for one that ends without an answer to keep may be sent again.
func TestWaitingForAnAnswerThatIsNotKept(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	var times atomic.Int64
	s := openShop(t, shopOptions{}, func(c *router.Context, m order) (said, error) {
		if times.Add(1) == 1 {
			_ = c.Progress(1)
			<-goOn
			return said{}, errors.Unavailable.New("away")
		}
		return said{"done"}, nil
	})
	first, second := s.as("a/ann"), s.as("a/ann")
	first.write(keyed("order", "1", "k", `{}`))
	first.expect("$ws:rpc-progress 1")
	second.write(keyed("order", "1", "k", `{}`), textFrame(`{"type":"echo","meta":{"correlationId":"2"},"payload":{"text":"hi"}}`))
	second.expect("reply 2 hi") // it waits by now
	close(goOn)
	first.expect("RPC_ERROR 1 UNAVAILABLE")
	second.expect("RPC_ERROR 1 ABORTED")
	second.write(keyed("order", "1", "k", `{}`))
	second.expect("reply 1 done")
}

// The client is answered when the time is over or it aborts; what the handler does then
// decides what a retry gets.
func TestDeadlinesAndAborts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		s, server := openShopInMemory(t, shopOptions{}, func(c *router.Context, m order) (said, error) {
			switch m.Text {
			case "heeds":
				<-c.Done()
				return said{}, c.Err()
			case "ignores":
				<-goOn
			}
			return said{"done"}, nil
		})
		c := server.Dial(bearer("a/ann"))
		send := func(id, key, text string, timeout time.Duration) {
			t.Helper()
			c.SendRaw(fmt.Sprintf(`{"type":"beside","meta":{"correlationId":%q,"idempotencyKey":%q,"timeoutMs":%d},"payload":{"text":%q}}`,
				id, key, timeout.Milliseconds(), text))
			synctest.Wait()
		}
		abort := func(id string) {
			t.Helper()
			c.SendRaw(fmt.Sprintf(`{"type":"$ws:abort","meta":{"correlationId":%q}}`, id))
		}
		fails := func(id string, code errors.Code) {
			t.Helper()
			if f := routertest.ExpectFailure(c, id); f.Code != code {
				t.Errorf("%s is answered %s, want %s", id, f.Code, code)
			}
		}
		replies := func(id string) {
			t.Helper()
			if f := c.ExpectAny("beside.reply"); f.Meta.CorrelationID != id || string(f.Payload) != `{"text":"done"}` {
				t.Errorf("%s is answered %s", id, f.Raw)
			}
		}
		handled := func(want int64) {
			t.Helper()
			if n := s.handled.Load(); n != want {
				t.Errorf("handled %d times, want %d", n, want)
			}
		}
		send("1", "late", "ignores", 30*time.Millisecond)
		handled(1)
		fails("1", errors.DeadlineExceeded)
		send("2", "aborted", "ignores", time.Minute)
		handled(2)
		abort("2")
		fails("2", errors.Cancelled)

		// Requests that wait have deadlines and may be aborted as well.
		send("3", "late", "ignores", 30*time.Millisecond)
		fails("3", errors.DeadlineExceeded)
		send("4", "late", "ignores", time.Minute)
		abort("4")
		fails("4", errors.Cancelled)
		close(goOn)
		send("6", "late", "ignores", time.Minute)
		replies("6")
		send("7", "aborted", "ignores", time.Minute)
		replies("7")
		handled(2)

		// A handler that stopped is called again.
		send("8", "heeds", "heeds", time.Minute)
		handled(3)
		abort("8")
		fails("8", errors.Cancelled)
		synctest.Wait()
		send("9", "heeds", "heeds", 50*time.Millisecond)
		handled(4)
		fails("9", errors.DeadlineExceeded)
		synctest.Wait()
		if f := c.Frames(); len(f) > 0 {
			t.Errorf("left are %v", f)
		}
	})
}

// An answer that is too large to be kept is sent, and not handled again.
func TestAnswerThatIsTooLargeToBeKept(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]shopOptions{
		"MaxAnswer": {MaxAnswer: 100},
		"the store": {Store: memory.NewIdempotency(memory.IdempotencyOptions{MaxBytes: 150})},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, opts, func(*router.Context, order) (said, error) { return said{strings.Repeat("x", 200)}, nil })
			p := s.as("a/ann")
			p.write(keyed("order", "1", "k", `{}`))
			p.expect("reply 1 " + strings.Repeat("x", 200))
			p.write(keyed("order", "2", "k", `{}`))
			p.expect("RPC_ERROR 2 FAILED_PRECONDITION")
			if n, f := s.handled.Load(), s.faults.String(); n != 1 || !strings.Contains(f, "is not kept") {
				t.Errorf("handled %d times, faults: %s", n, f)
			}
		})
	}
}

// A store without room refuses new keys, and answers those that it has.
func TestStoreWithoutRoom(t *testing.T) {
	t.Parallel()
	s := openShop(t, shopOptions{Store: memory.NewIdempotency(memory.IdempotencyOptions{MaxPerSubject: 1})}, nil)
	p := s.as("a/ann")
	p.write(keyed("order", "1", "k", `{}`), keyed("order", "2", "l", `{}`), keyed("order", "3", "k", `{}`))
	p.expect("reply 1 order 1", "RPC_ERROR 2 RESOURCE_EXHAUSTED", "reply 3 order 1")
}

// Clients without an identity share what the store has for their address: however many
// messages with keys they send on however many connections, those of users are handled once, and the
// log has one line.
func TestStrangersLeaveRoomForKeysOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewIdempotency(memory.IdempotencyOptions{MaxKeys: 1000, MaxPerSubject: 400, MaxBytes: 100 << 10})
		large := strings.Repeat("x", 1000)
		s := &shop{do: func(*router.Context, order) (said, error) { return said{large}, nil }}
		r := router.New(s.options(shopOptions{Store: store}))
		s.register(r)
		server := routertest.New(t, r)
		ask := func(c *routertest.Client, key string) string {
			t.Helper()
			c.SendRaw(fmt.Sprintf(`{"type":"order","meta":{"correlationId":%[1]q,"idempotencyKey":%[1]q},"payload":{}}`, key))
			synctest.Wait()
			frames := c.Frames()
			if len(frames) != 1 {
				t.Fatalf("got %v", frames)
			}
			return frames[0].Type
		}
		handled := func() (strangers int64) {
			for range 5 {
				c := server.Dial()
				for i := range 300 {
					ask(c, fmt.Sprint(i))
				}
			}
			return s.handled.Load()
		}
		if n := handled(); n != 400 {
			t.Errorf("%d messages with keys of one address are handled, of a bound of 400", n)
		}
		ann := server.Dial(bearer("a/ann"))
		for i := range 20 {
			before := s.handled.Load()
			for range 2 {
				if got := ask(ann, fmt.Sprint(i)); got != "order.reply" {
					t.Fatalf("message %d of a user: %s", i, got)
				}
			}
			if n := s.handled.Load() - before; n != 1 {
				t.Fatalf("message %d of a user is handled %d times", i, n)
			}
		}
		if n := len(s.faults.all); n != 1 || !strings.Contains(s.faults.String(), "no room for the answer") {
			t.Errorf("%d faults are reported: %.300s", n, s.faults.String())
		}
		if n := r.Stats().Faults; n < 300 {
			t.Errorf("%d faults are counted", n)
		}
	})
}

// troubledStore fails where a test sets a flag.
type troubledStore struct {
	idempotency.Store
	begin, finish atomic.Bool // fail
	renewals      atomic.Int64
	junk          atomic.Bool
	released      atomic.Int64
	lose          atomic.Bool
	begins        atomic.Int64
	slow          atomic.Pointer[chan struct{}] // Begin waits for it
}

var errAway = errors.New("the store is away")

func (s *troubledStore) Begin(ctx context.Context, c idempotency.Claim, lease time.Duration) (idempotency.State, []byte, error) {
	s.begins.Add(1)
	if slow := s.slow.Load(); slow != nil {
		<-*slow
	}
	switch {
	case s.begin.Load():
		return 0, nil, errAway
	case s.junk.Load():
		return idempotency.Answered, []byte("r,x"), nil
	}
	return s.Store.Begin(ctx, c, lease)
}

func (s *troubledStore) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	s.renewals.Add(1)
	return s.Store.Renew(ctx, c, lease)
}

func (s *troubledStore) Finish(ctx context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
	switch {
	case s.finish.Load():
		return errAway
	case s.lose.Load():
		return idempotency.ErrLost
	}
	return s.Store.Finish(ctx, c, answer, keep)
}

func (s *troubledStore) Release(ctx context.Context, c idempotency.Claim) error {
	s.released.Add(1)
	return s.Store.Release(ctx, c)
}

func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	store := &troubledStore{Store: memory.NewIdempotency()}
	closed := openShop(t, shopOptions{Store: store}, nil)
	open := openShop(t, shopOptions{Store: store, FailOpen: true}, nil)
	defer closeServers(t, closed.socketServer, open.socketServer)
	p, q := closed.as("a/ann"), open.as("a/ann")

	store.begin.Store(true)
	p.write(keyed("order", "1", "k", `{}`), textFrame(`{"type":"order","meta":{"correlationId":"2"},"payload":{}}`))
	p.expect("RPC_ERROR 1 UNAVAILABLE", "reply 2 order 1")
	q.write(keyed("order", "1", "k", `{}`), keyed("order", "2", "k", `{}`))
	q.expect("reply 1 order 1", "reply 2 order 2")
	eventually(t, "what may have been claimed is released", func() bool { return store.released.Load() >= 3 })
	store.begin.Store(false)
	p.write(keyed("order", "3", "k", `{}`))
	p.expect("reply 3 order 2")

	// The answer is sent all the same, and kept when the store is back.
	store.finish.Store(true)
	p.write(keyed("order", "4", "late", `{}`))
	p.expect("reply 4 order 3")
	p.write(keyed("order", "5", "late", `{}`), textFrame(`{"type":"echo","meta":{"correlationId":"6"},"payload":{"text":"hi"}}`))
	p.expect("reply 6 hi")
	store.finish.Store(false)
	p.expect("reply 5 order 3")

	store.lose.Store(true)
	p.write(keyed("order", "7", "lost", `{}`))
	p.expect("reply 7 order 4")
	if f := closed.faults.String(); !strings.Contains(f, "handled again") {
		t.Errorf("faults: %q", f)
	}
	store.junk.Store(true)
	p.write(keyed("order", "8", "junk", `{}`))
	p.expect("RPC_ERROR 8 INTERNAL")
}

// A request whose time is over while the store is asked has had its answer, and one whose
// client has gone stops waiting.
func TestRequestsThatStopWaiting(t *testing.T) {
	t.Parallel()
	takesTime(t)
	store := &troubledStore{Store: memory.NewIdempotency()}
	goOn := make(chan struct{})
	s := openShop(t, shopOptions{Store: store, Timeout: patience}, func(*router.Context, order) (said, error) { <-goOn; return said{"done"}, nil })
	first, second := s.as("a/ann"), s.as("a/ann")
	first.write(keyed("order", "1", "k", `{}`))
	eventually(t, "the handler runs", func() bool { return s.handled.Load() == 1 })

	slow := make(chan struct{})
	store.slow.Store(&slow)
	second.write(textFrame(`{"type":"order","meta":{"correlationId":"1","idempotencyKey":"k","timeoutMs":50},"payload":{}}`))
	second.expect("RPC_ERROR 1 DEADLINE_EXCEEDED")
	store.slow.Store(nil)
	close(slow)
	second.write(keyed("order", "2", "k", `{}`))
	begins := store.begins.Load()
	eventually(t, "it waits", func() bool { return store.begins.Load() > begins+2 })
	second.write(textFrame(`{"type":"echo","meta":{"correlationId":"3"},"payload":{"text":"hi"}}`))
	second.expect("reply 3 hi")
	second.hangUp()
	eventually(t, "only the first to be under way", func() bool { return s.r.Stats().InFlight == 1 })
	close(goOn)
	first.expect("reply 1 done")
}

// A claim lasts for as long as the handler runs, which may be longer than the lease, and not
// longer. Two routers that share a store stand for two processes.
func TestLongHandlerKeepsItsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = time.Second
		store := &troubledStore{Store: memory.NewIdempotency()}
		opts := shopOptions{Store: store, Lease: lease}
		goOn := make(chan struct{})
		_, one := openShopInMemory(t, opts, func(*router.Context, order) (said, error) { <-goOn; return said{"done"}, nil })
		second, two := openShopInMemory(t, opts, nil)
		p, q := one.Dial(bearer("a/ann")), two.Dial(bearer("a/ann"))
		keyed := `{"type":"order","meta":{"correlationId":"1","idempotencyKey":"k"},"payload":{}}`
		p.SendRaw(keyed)
		synctest.Wait()
		q.SendRaw(keyed)
		time.Sleep(10 * lease)
		if n := store.renewals.Load(); n < 10 {
			t.Errorf("in ten leases, the claim was renewed %d times", n)
		}
		close(goOn)
		for _, c := range []*routertest.Client{p, q} {
			if f := c.ExpectAny("order.reply"); string(f.Payload) != `{"text":"done"}` {
				t.Errorf("got %s", f.Raw)
			}
		}
		n := store.renewals.Load()
		time.Sleep(10 * lease)
		if store.renewals.Load() != n {
			t.Error("the claim is renewed after the answer")
		}
		if second.handled.Load() != 0 {
			t.Error("it was handled twice")
		}
	})
}

// An event with a key is handled once.
func TestEventWithAKey(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := openShop(t, shopOptions{}, func(c *router.Context, m order) (said, error) {
		if m.Text == "fails" {
			return said{}, errors.NotFound.New("none")
		}
		<-goOn
		return said{}, nil
	})
	event := func(key, payload string) []byte {
		return textFrame(fmt.Sprintf(`{"type":"order.event","meta":{"idempotencyKey":%q},"payload":%s}`, key, payload))
	}
	first, second := s.as("a/ann"), s.as("a/ann")
	first.write(event("k", `{}`))
	eventually(t, "the handler runs", func() bool { return s.handled.Load() == 1 })
	second.write(event("k", `{}`), event("k", `{"n":1}`), textFrame(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"hi"}}`))
	second.expect("ERROR FAILED_PRECONDITION", "reply 1 hi")
	close(goOn)
	first.write(event("k", `{}`), event("bad", `{"text":"fails"}`), event("bad", `{"text":"fails"}`))
	first.expect("ERROR NOT_FOUND", "ERROR NOT_FOUND")
	if n := s.handled.Load(); n != 2 {
		t.Errorf("handled %d times", n)
	}
}

// Shutdown waits for requests that wait for an answer, and they get it.
func TestShutdownWhileARequestWaits(t *testing.T) {
	t.Parallel()
	store := memory.NewIdempotency()
	goOn := make(chan struct{})
	one := openShop(t, shopOptions{Store: store}, func(*router.Context, order) (said, error) { <-goOn; return said{"done"}, nil })
	two := openShop(t, shopOptions{Store: store}, nil)
	defer closeServers(t, one.socketServer, two.socketServer)
	p, q := one.as("a/ann"), two.as("a/ann")
	p.write(keyed("order", "1", "k", `{}`))
	eventually(t, "the handler runs", func() bool { return one.handled.Load() == 1 })
	q.write(keyed("order", "1", "k", `{}`), textFrame(`{"type":"echo","meta":{"correlationId":"2"},"payload":{"text":"hi"}}`))
	q.expect("reply 2 hi")
	over := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		over <- two.r.Shutdown(ctx)
	}()
	eventually(t, "it drains", func() bool {
		q.write(textFrame(`{"type":"echo","meta":{"correlationId":"3"},"payload":{"text":"hi"}}`))
		return strings.HasSuffix(q.next(), "UNAVAILABLE")
	})
	close(goOn)
	p.expect("reply 1 done")
	if got, then := q.next(), q.next(); got != "reply 1 done" || then != "close 1001" {
		t.Errorf("the client of the router that drains got %s, and then %s", got, then)
	}
	q.hangUp()
	if err := <-over; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestIdempotencyOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, o := range []router.IdempotencyOptions{{Keep: -1}, {MaxAnswer: -1}, {Timeout: -1}} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "router: Options.Idempotency") {
					t.Errorf("%+v: the panic says %q", o, text)
				}
			}()
			router.New(router.Options{Idempotency: o})
		}()
	}
}

// A client that does not know what became of its order sends it again.
func ExampleOptions_idempotency() {
	r := router.New(router.Options{
		Backend: adapters.Backend{Idempotency: memory.NewIdempotency()},
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
	})
	orders := 0
	router.RPC(r, "order", func(*router.Context, struct{}) (string, error) {
		orders++
		return fmt.Sprintf("order %d", orders), nil
	})

	for range 2 { // on two connections
		c := connect(r, "ann")
		c.send(`{"type":"order","meta":{"correlationId":"1","idempotencyKey":"8c1f"}}`)
		c.receive(1)
		c.close()
	}
	// Output:
	// {"type":"order.reply","meta":{"correlationId":"1"},"payload":"order 1"}
	// {"type":"order.reply","meta":{"correlationId":"1"},"payload":"order 1"}
}
