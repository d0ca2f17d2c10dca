package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// stalling is a broker in memory whose Subscribe stalls while the gate is shut.
type stalling struct {
	memory.Broker
	ignoresContext bool
	delay          func() time.Duration // of each Subscribe, after the gate; half of the calls end with their context
	fail           atomic.Pointer[error]

	mu      sync.Mutex
	gate    chan struct{} // closed: open
	calls   map[string]int
	running map[string]int
	latest  map[string]context.Context // of the last call
	most    int                        // calls of one topic that ran at once
	subs    int                        // subscriptions that are not closed
}

func newStalling() *stalling {
	b := &stalling{
		Broker: memory.NewBroker(), gate: make(chan struct{}),
		calls: map[string]int{}, running: map[string]int{}, latest: map[string]context.Context{},
	}
	close(b.gate)
	return b
}

func (b *stalling) stall() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = make(chan struct{})
}

func (b *stalling) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.gate)
}

func (b *stalling) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	b.mu.Lock()
	gate := b.gate
	b.calls[topic]++
	b.running[topic]++
	b.latest[topic] = ctx
	b.most = max(b.most, b.running[topic])
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.running[topic]--
	}()
	over := ctx.Done()
	if b.ignoresContext {
		over = nil
	}
	select {
	case <-gate:
	case <-over:
		return nil, ctx.Err()
	}
	if b.delay != nil {
		spend(b.delay())
		if err := ctx.Err(); err != nil && rand.N(2) == 0 {
			return nil, err
		}
	}
	if err := b.fail.Load(); err != nil {
		return nil, *err
	}
	sub, err := b.Broker.Subscribe(ctx, topic, deliver)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subs++
	}
	return &counted{Subscription: sub, b: b}, err
}

// counted is a subscription that is counted until it is closed.
type counted struct {
	pubsub.Subscription
	b    *stalling
	once sync.Once
}

func (s *counted) Close() error {
	s.once.Do(func() {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		s.b.subs--
	})
	return s.Subscription.Close()
}

// callsOf is how often a topic has been subscribed to.
func (b *stalling) callsOf(topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[topic]
}

// isAsked reports whether a call for a topic is running that has not been given up.
func (b *stalling) isAsked(topic string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[topic] > 0 && b.latest[topic].Err() == nil
}

func (b *stalling) subscriptions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.subs
}

// stalledServer serves a router on a broker. The test gets each connection from conns.
func stalledServer(t *testing.T, broker pubsub.Broker, opts router.Options) (s *socketServer, conns <-chan *router.Conn, closed *atomic.Int64) {
	t.Helper()
	opened := make(chan *router.Conn, 100)
	closed = new(atomic.Int64)
	opts.Backend.Broker = broker
	opts.RequestTimeout = -1 // how long a client waits is for it to say
	opts.OnOpen = func(c *router.Conn) error { opened <- c; return nil }
	opts.OnClose = func(*router.Conn, router.CloseInfo) { closed.Add(1) }
	return serveSocket(t, opts, subscribing), opened, closed
}

// joinWithin is a request to join that the client waits for only so long.
func joinWithin(topic string, wait time.Duration) []byte {
	return textFrame(fmt.Sprintf(`{"type":"join","meta":{"correlationId":"j","timeoutMs":%d},"payload":{"text":%q}}`, wait.Milliseconds(), topic))
}

// waiting waits until all of the connections are joining a topic, or have joined.
func waiting(t *testing.T, conns []*router.Conn) {
	t.Helper()
	eventually(t, "all to wait for the broker", func() bool {
		return !slices.ContainsFunc(conns, func(c *router.Conn) bool { return len(c.Topics()) == 0 })
	})
}

// Joining a topic whose subscription stalls ends with each client's own deadline,
// whatever the others wait for.
func TestJoiningAStalledTopicEndsWithTheClientsOwnDeadline(t *testing.T) {
	t.Parallel()
	broker := newStalling()
	broker.stall()
	s, conns, _ := stalledServer(t, broker, router.Options{})
	var peers []*peer
	var joining []*router.Conn
	for range 40 {
		p := s.dial()
		p.write(joinWithin("room", 300*time.Millisecond))
		peers, joining = append(peers, p), append(joining, <-conns)
	}
	// Its own deadline is beyond the guard of this test. Where it comes when all others have given up, another call is
	// made for it.
	patient := s.dial()
	patient.write(joinWithin("room", 10*poll.Guard))
	waiting(t, []*router.Conn{<-conns})
	for _, p := range peers {
		p.expect("RPC_ERROR j DEADLINE_EXCEEDED")
	}
	eventually(t, "their handlers to give up", func() bool {
		return !slices.ContainsFunc(joining, func(c *router.Conn) bool { return len(c.Topics()) > 0 })
	})
	eventually(t, "the broker to be asked", func() bool { return broker.isAsked("room") })
	if broker.most != 1 {
		t.Errorf("Subscribe was called %d times at once", broker.most)
	}
	before := broker.callsOf("room")
	broker.resume()
	patient.expect("reply j room")
	if n := broker.callsOf("room"); n != before {
		t.Errorf("Subscribe was called %d times more for one that waited all the time", n-before)
	}
	// What is published after Subscribe returned reaches the member.
	if err := s.r.Publish(context.Background(), "room", "heard", nil); err != nil {
		t.Fatal(err)
	}
	patient.expect("heard ")
	patient.bye()
	for _, p := range peers {
		p.bye()
	}
	s.settled()
	if n := broker.subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// A client that goes while it joins is gone at once; a topic that does not stall does
// not notice.
func TestClientsThatLeaveAStalledTopicAreGone(t *testing.T) {
	t.Parallel()
	for _, ignores := range []bool{false, true} {
		t.Run(fmt.Sprintf("broker ignores its context: %t", ignores), func(t *testing.T) {
			broker := newStalling()
			broker.ignoresContext = ignores
			s, conns, closed := stalledServer(t, broker, router.Options{})
			other := s.dial()
			<-conns
			other.write(join1("other"))
			other.expect("reply j other")
			broker.stall()
			var peers []*peer
			var joining []*router.Conn
			for range 20 {
				p := s.dial()
				p.write(joinWithin("room", 10*poll.Guard))
				peers, joining = append(peers, p), append(joining, <-conns)
			}
			waiting(t, joining)
			for i, p := range peers {
				switch i % 3 {
				case 0:
					p.hangUp()
				case 1:
					p.write(closing(1000, ""))
				default:
					joining[i].Close(errors.CloseNormal, "")
					p.expect("close 1000")
					p.write(closing(1000, ""))
				}
			}
			eventually(t, "those that left to be gone", func() bool {
				return s.r.Stats().Connections == 1 && closed.Load() == int64(len(peers))
			})
			if err := s.r.Publish(context.Background(), "other", "heard", nil); err != nil {
				t.Fatal(err)
			}
			other.expect("heard ")
			other.write(join1("other"))
			other.expect("reply j other")

			broker.resume()
			other.bye()
			s.settled()
			if n := broker.subscriptions(); n != 0 {
				t.Errorf("%d subscriptions are left", n)
			}
		})
	}
}

// Unsubscribing, and the end of the call's context, end a call of Subscribe.
func TestSubscribeEndsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	broker := newStalling()
	broker.ignoresContext = true
	broker.stall()
	s, conns, _ := stalledServer(t, broker, router.Options{})
	p := s.dial()
	c := <-conns
	result := make(chan error)
	subscribe := func(ctx context.Context) { result <- c.Subscribe(ctx, "room") }

	go subscribe(context.Background())
	eventually(t, "it waits", func() bool { return len(c.Topics()) == 1 })
	c.Unsubscribe("room")
	if err := <-result; !errors.Is(err, router.ErrClosed) {
		t.Errorf("after Unsubscribe: %v", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	go subscribe(ctx)
	eventually(t, "it waits", func() bool { return len(c.Topics()) == 1 })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("after its context was cancelled: %v", err)
	}

	// A second call for the same connection waits, too, and takes over when the first
	// has given up.
	ctx, cancel = context.WithCancel(context.Background())
	go subscribe(ctx)
	eventually(t, "it waits", func() bool { return len(c.Topics()) == 1 })
	go subscribe(context.Background())
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the first call: %v", err)
	}
	broker.resume()
	if err := <-result; err != nil {
		t.Errorf("the second call: %v", err)
	}
	if err := s.r.Publish(context.Background(), "room", "heard", nil); err != nil {
		t.Fatal(err)
	}
	p.expect("heard ")
	if n := broker.most; n != 1 {
		t.Errorf("%d calls of one topic ran at once", n)
	}
	p.bye()
	s.settled()
	if n := broker.subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// A broker that fails, or panics, fails those that wait for it, and the next are
// subscribed.
func TestABrokerThatFailsToSubscribe(t *testing.T) {
	t.Parallel()
	faults := make(chan router.Fault, 10)
	broker := newStalling()
	panics := &panicking{stalling: broker}
	s, _, _ := stalledServer(t, panics, router.Options{OnError: func(f router.Fault) { faults <- f }})
	a, b := s.dial(), s.dial()
	refused := errors.New("no more subscriptions")
	broker.fail.Store(&refused)
	broker.stall()
	a.write(join1("room"))
	b.write(join1("room"))
	eventually(t, "both to wait", func() bool { return broker.callsOf("room") > 0 })
	broker.resume()
	a.expect("RPC_ERROR j UNAVAILABLE")
	b.expect("RPC_ERROR j UNAVAILABLE")
	broker.fail.Store(nil)
	for _, how := range []string{"panic", "exit"} {
		panics.how.Store(&how)
		a.write(join1("room"))
		a.expect("RPC_ERROR j UNAVAILABLE")
		if f := <-faults; f.Err == nil || f.Stack == nil {
			t.Errorf("%s: the fault is %+v", how, f)
		}
	}
	panics.how.Store(nil)
	a.write(join1("room"))
	a.expect("reply j room")
	a.bye()
	b.bye()
	s.settled()
}

type panicking struct {
	*stalling
	how atomic.Pointer[string]
}

func (b *panicking) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	if how := b.how.Load(); how != nil {
		if *how == "exit" {
			runtime.Goexit()
		}
		panic("the broker is wrong")
	}
	return b.stalling.Subscribe(ctx, topic, deliver)
}

// Shutdown returns with its context, while the broker stalls and hooks wait.
func TestShutdownOverAStalledBroker(t *testing.T) {
	t.Parallel()
	for _, ignores := range []bool{false, true} {
		t.Run(fmt.Sprintf("broker ignores its context: %t", ignores), func(t *testing.T) {
			overPipe(t, false, func(t *testing.T, serve transport) {
				broker := newStalling()
				broker.ignoresContext = ignores
				broker.stall()
				hold := make(chan struct{})
				var closed atomic.Int64
				conns := make(chan *router.Conn, 20)
				s := serve(t, router.Options{
					Backend: adapters.Backend{Broker: broker}, RequestTimeout: -1,
					OnOpen: func(c *router.Conn) error { conns <- c; return nil },
					// As a hook that publishes waits for the same broker.
					OnClose: func(*router.Conn, router.CloseInfo) { <-hold; closed.Add(1) },
				}, subscribing)
				const clients = 20
				var joining []*router.Conn
				for range clients {
					s.dial().write(joinWithin("room", 10*poll.Guard))
					joining = append(joining, <-conns)
				}
				waiting(t, joining)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				done := make(chan error)
				go func() { done <- s.r.Shutdown(ctx) }()
				if err := poll.Receive(t, done, "Shutdown to return with its context"); err != context.DeadlineExceeded {
					t.Errorf("Shutdown: %v", err)
				}
				close(hold)
				broker.resume()
				eventually(t, "all to have ended", func() bool { return closed.Load() == clients && s.r.Stats().Connections == 0 })
				s.settled()
				if n := broker.subscriptions(); n != 0 {
					t.Errorf("%d subscriptions are left", n)
				}
			})
		})
	}
}

// The same with a real Redis that stands still. All that join share one subscription, and
// so fail together after the broker's timeout; those that left are gone, and when Redis
// goes on, so does joining.
func TestJoiningWhileRedisStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redis.OpenStore(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	broker := redis.NewBroker(store.Client())
	s, conns, closed := stalledServer(t, broker, router.Options{})
	t.Cleanup(func() { _ = broker.Close() })
	var stay, leave []*peer
	var joining []*router.Conn
	for i := range 60 {
		p := s.dial()
		joining = append(joining, <-conns)
		if i%3 == 2 {
			leave = append(leave, p)
		} else {
			stay = append(stay, p)
		}
	}
	server.Stall()
	defer server.Resume()
	for _, p := range slices.Concat(stay, leave) {
		p.write(joinWithin("room", time.Minute))
	}
	waiting(t, joining)
	for _, p := range leave {
		p.reset()
	}
	eventually(t, "those that left to be gone", func() bool {
		return closed.Load() == int64(len(leave)) && s.r.Stats().Connections == int64(len(stay))
	})
	for _, p := range stay {
		p.expect("RPC_ERROR j UNAVAILABLE")
	}
	server.Resume()
	eventually(t, "joining to work again", func() bool {
		stay[0].write(join1("room"))
		return stay[0].next() == "reply j room"
	})
	stay[0].write(join1("room"))
	stay[0].expect("reply j room")
	// The broker may have to replace its connection, and what is published meanwhile is lost.
	arrived := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		eventually(t, "a message to arrive", func() bool {
			select {
			case <-arrived:
				return true
			default:
				_ = s.r.Publish(context.Background(), "room", "heard", nil)
				return false
			}
		})
	})
	stay[0].expect("heard ")
	close(arrived)
	publishing.Wait()
}

// Whatever joins, leaves and ends at once with a broker that is slow and sometimes
// fails: when all has settled, the broker has one subscription for each topic with
// members, every member receives, and no other connection.
func TestMembershipsSettle(t *testing.T) {
	t.Parallel()
	const clients, topics, steps = 12, 12, 2000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	broker := newStalling()
	broker.delay = func() time.Duration { return rand.N(2 * time.Millisecond) }
	s, conns, _ := stalledServer(t, broker, router.Options{})
	name := func(i int) string { return fmt.Sprintf("topic %d", i) }

	type client struct {
		*peer
		conn   *router.Conn
		member [topics]bool // as its last calls have left it
	}
	var all []*client
	for range clients {
		p := s.dial()
		all = append(all, &client{peer: p, conn: <-conns})
	}
	var settled sync.WaitGroup
	for i, c := range all {
		settled.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for range steps {
				topic := rnd.IntN(topics)
				switch rnd.IntN(4) {
				case 0:
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(3000))*time.Microsecond)
					err := c.conn.Subscribe(ctx, name(topic))
					cancel()
					c.member[topic] = c.member[topic] || err == nil
				case 1, 2:
					c.conn.Unsubscribe(name(topic))
					c.member[topic] = false
				default:
					// Two calls at once, of which one may take the other's effect away.
					var both sync.WaitGroup
					both.Go(func() { _ = c.conn.Subscribe(context.Background(), name(topic)) })
					both.Go(func() { c.conn.Unsubscribe(name(topic)) })
					both.Wait()
					c.member[topic] = slices.Contains(c.conn.Topics(), name(topic))
				}
			}
			if i%4 == 0 { // and in the midst of it, a connection ends
				c.hangUp()
				_ = c.conn.Subscribe(context.Background(), name(0))
			}
		})
	}
	settled.Wait()

	ended := 0
	var members [topics]int
	for i, c := range all {
		if i%4 == 0 {
			ended++
			continue
		}
		for topic, is := range c.member {
			if is != slices.Contains(c.conn.Topics(), name(topic)) {
				t.Errorf("client %d: a member of topic %d: %t; it is of %q", i, topic, is, c.conn.Topics())
			}
			if is {
				members[topic]++
			}
		}
	}
	eventually(t, "the ended connections to be gone", func() bool { return s.r.Stats().Connections == int64(clients-ended) })
	populated := 0
	for topic, n := range members {
		if got := s.r.LocalSubscribers(name(topic)); got != n {
			t.Errorf("topic %d has %d members, want %d", topic, got, n)
		}
		if n > 0 {
			populated++
		}
	}
	eventually(t, fmt.Sprintf("%d subscriptions for as many topics with members", populated), func() bool {
		return broker.subscriptions() == populated && int(s.r.Stats().Topics) == populated
	})
	for topic := range topics {
		if err := s.r.Publish(context.Background(), name(topic), "heard", topic); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range all {
		if i%4 == 0 {
			continue
		}
		for topic, is := range c.member {
			if is {
				c.expect(fmt.Sprintf("heard %d", topic))
			}
		}
		c.write(echo("last", ""))
		c.expect("reply last ") // and nothing before it
		c.bye()
	}
	s.settled()
	if n := broker.subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}
