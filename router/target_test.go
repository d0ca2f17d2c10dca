package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// asUser authenticates by the header lines of [as].
func asUser(req *http.Request) (ingress.Identity, error) {
	return ingress.Identity{Tenant: req.Header.Get("X-Tenant"), User: req.Header.Get("X-User")}, nil
}

func as(tenant, user string) string { return "X-Tenant: " + tenant + "\r\nX-User: " + user }

// addressed are servers as one, or as several processes.
type addressed struct {
	*testing.T
	servers []*socketServer
	events  atomic.Int64 // handled
}

// forServers runs a test on one server, and on several that share what makes them one.
func forServers(t *testing.T, opts router.Options, test func(t *testing.T, a *addressed)) {
	run := func(name string, n int, share func(*router.Options)) {
		t.Run(name, func(t *testing.T) {
			a := &addressed{T: t}
			shared := opts
			shared.Authenticate, shared.Addressing.Enabled = asUser, true
			share(&shared)
			for range n {
				a.servers = append(a.servers, serveSocket(t, shared, func(r *router.Router) {
					router.On(r, "note", func(*router.Context, struct{}) error { a.events.Add(1); return nil })
					subscribing(r)
				}))
			}
			t.Cleanup(a.shutdown) // before any of them looks for what is left
			test(t, a)
		})
	}
	run("one", 1, func(*router.Options) {})
	run("several", 3, func(o *router.Options) {
		// A process that does not get to run for a fifth of it may have missed messages, and Close fails; a seventh is waited for.
		o.Backend.Broker, o.Backend.ProcessTimeout = memory.NewBroker(), 20*time.Second
		o.Addressing.Timeout = patience // it comes back when it runs again
	})
}

func (a *addressed) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range a.servers {
		s.hangUpAll()
		_ = s.r.Shutdown(ctx)
		_ = s.hs.Close()
	}
}

func (a *addressed) server(i int) *socketServer { return a.servers[i%len(a.servers)] }

// dial opens a connection that can be addressed when it returns. Its id is known.
func (a *addressed) dial(i int, tenant, user string) (p *peer, id string) {
	a.Helper()
	p = a.server(i).connect()
	p.write([]byte(a.server(i).handshake(as(tenant, user))))
	res := p.response()
	if res.StatusCode != http.StatusSwitchingProtocols {
		a.Fatalf("the handshake is answered %s", res.Status)
	}
	p.write(echo("open", "x"))
	p.expect(`reply open x`)
	return p, res.Header.Get("X-Client-Id")
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fromAll asks until all processes have answered: a call fails while another process, or Redis, does not run.
func fromAll[T any](t testing.TB, ask func() (T, error)) (v T) {
	t.Helper()
	poll.Until(t, "all processes to answer", func() (answered bool) {
		var err error
		if v, err = ask(); err != nil && errors.CodeOf(err) != errors.Unavailable {
			t.Fatal(err)
		}
		return err == nil
	})
	return v
}

func TestSendToTargets(t *testing.T) {
	t.Parallel()
	forServers(t, router.Options{}, func(t *testing.T, a *addressed) {
		ann1, id1 := a.dial(0, "acme", "ann")
		ann2, id2 := a.dial(1, "acme", "ann")
		bob, _ := a.dial(0, "acme", "bob")
		other, _ := a.dial(1, "globex", "ann")
		similar, _ := a.dial(0, "acmea", "nn") // the same letters in a row
		anonymous, anonymousID := a.dial(0, "", "")
		ctx := context.Background()
		for i, s := range a.servers {
			r := s.r
			n := 0
			send := func(to router.Target) (want string) {
				t.Helper()
				n++
				if err := to.Send(ctx, "event", n); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint("event ", n)
			}
			for range 3 {
				user := send(r.User("acme", "ann"))
				ann1.expect(user)
				ann2.expect(user)
			}
			one := send(r.Connection(id1))
			ann1.expect(one)
			one = send(r.Connection(id2))
			ann2.expect(one)
			anonymous.expect(send(r.Connection(anonymousID)))
			ann2.expect(send(r.User("acme", "ann").Except(id1)))
			send(r.User("acme", "carl"))
			send(r.Connection("unknown"))
			send(r.Connection(id1).Except(id1))
			// What none of them should have got would be here before this.
			all := send(r.AllConnections())
			for _, p := range []*peer{ann1, ann2, bob, other, similar, anonymous} {
				p.expect(all)
			}
			exceptOne := send(r.AllConnections().Except(anonymousID))
			for _, p := range []*peer{ann1, ann2, bob, other, similar} {
				p.expect(exceptOne)
			}
			anonymous.write(echo(fmt.Sprint(i), "nothing else"))
			anonymous.expect(fmt.Sprintf("reply %d nothing else", i))
		}
	})
}

func TestCountAndListTargets(t *testing.T) {
	t.Parallel()
	forServers(t, router.Options{}, func(t *testing.T, a *addressed) {
		_, id1 := a.dial(0, "acme", "ann")
		ann2, id2 := a.dial(1, "acme", "ann")
		_, id3 := a.dial(1, "acme", "bob")
		_, id4 := a.dial(0, "", "")
		ctx := context.Background()
		check := func(what string, to func(*router.Router) router.Target, want ...string) {
			t.Helper()
			slices.Sort(want)
			for i, s := range a.servers {
				if n := fromAll(t, func() (int, error) { return to(s.r).Count(ctx) }); n != len(want) {
					t.Errorf("server %d counts %d connections of %s, want %d", i, n, what, len(want))
				}
				var ids []string
				for _, c := range fromAll(t, func() ([]router.ConnInfo, error) { return to(s.r).List(ctx) }) {
					ids = append(ids, c.ID)
					user := "acme/ann"
					switch c.ID {
					case id3:
						user = "acme/bob"
					case id4:
						user = "/"
					}
					if c.Tenant+"/"+c.User != user || c.IP.String() != "127.0.0.1" || c.OpenedAt.IsZero() {
						t.Errorf("server %d lists %+v", i, c)
					}
				}
				slices.Sort(ids)
				if !slices.Equal(ids, want) {
					t.Errorf("server %d lists %s of %s, want %s", i, ids, what, want)
				}
			}
		}
		ann := func(r *router.Router) router.Target { return r.User("acme", "ann") }
		check("ann", ann, id1, id2)
		check("ann but one", func(r *router.Router) router.Target { return ann(r).Except(id2) }, id1)
		check("carl", func(r *router.Router) router.Target { return r.User("acme", "carl") })
		check("one", func(r *router.Router) router.Target { return r.Connection(id2) }, id2)
		check("one but itself", func(r *router.Router) router.Target { return r.Connection(id2).Except(id2) })
		check("none", func(r *router.Router) router.Target { return r.Connection("unknown") })
		check("all", (*router.Router).AllConnections, id1, id2, id3, id4)
		ann2.bye()
		check("ann, with one connection left", ann, id1)
		check("one that has left", func(r *router.Router) router.Target { return r.Connection(id2) })
	})
}

// When Close returns, what the client sends is not handled.
func TestCloseTargets(t *testing.T) {
	t.Parallel()
	forServers(t, router.Options{}, func(t *testing.T, a *addressed) {
		ctx := context.Background()
		for i, s := range a.servers {
			ann1, id1 := a.dial(i, "acme", "ann")
			ann2, _ := a.dial(i+1, "acme", "ann")
			bob, _ := a.dial(i, "acme", "bob")
			carl, id := a.dial(i+1, "acme", "carl")
			closed := func(n, want int, peers ...*peer) {
				t.Helper()
				if n != want {
					t.Errorf("%d were closed, want %d", n, want)
				}
				handled := a.events.Load()
				for _, p := range peers {
					_ = p.tryWrite(textFrame(`{"type":"note"}`))
					f, err := p.read()
					if err != nil || f.String() != "close 4001" || string(f.payload[2:]) != "signed out" {
						t.Fatalf("got %s %v", f, err)
					}
					p.write(closing(4001, ""))
					p.expect("end")
				}
				if n := a.events.Load() - handled; n != 0 {
					t.Errorf("%d messages were handled after Close had returned", n)
				}
			}
			closed(must[int](t)(s.r.User("acme", "ann").Except(id1).Close(ctx, 4001, "signed out")), 1, ann2)
			n := must[int](t)(s.r.User("acme", "ann").Close(ctx, 4001, "signed out"))
			if n := must[int](t)(s.r.User("acme", "ann").Count(ctx)); n != 0 {
				t.Errorf("%d are counted after they were closed", n)
			}
			closed(n, 1, ann1)
			closed(must[int](t)(s.r.User("acme", "ann").Close(ctx, 4001, "signed out")), 0)
			closed(must[int](t)(s.r.Connection(id).Close(ctx, 4001, "signed out")), 1, carl)
			closed(must[int](t)(s.r.Connection(id).Close(ctx, 4001, "signed out")), 0)
			bob.write(textFrame(`{"type":"note"}`), echo("1", "still here"))
			bob.expect("reply 1 still here")
			closed(must[int](t)(s.r.AllConnections().Close(ctx, 4001, "signed out")), 1, bob)
			eventually(t, "all have ended", func() bool { return a.server(0).r.Stats().Connections+a.server(1).r.Stats().Connections == 0 })
		}
		defer func() {
			if recover() == nil {
				t.Error("a code that may not be sent is accepted")
			}
		}()
		_, _ = a.server(0).r.AllConnections().Close(ctx, 1005, "")
	})
}

// What is published to a topic reaches a connection of a target from when Subscribe has returned until Unsubscribe is called,
// in whatever process. Its client is told.
func TestSubscribeTargets(t *testing.T) {
	t.Parallel()
	event := func(topic string) string { return fmt.Sprintf("event %q", topic) }
	unsubscribed := func(topic string) string { return fmt.Sprintf(`$ws:unsubscribed {"topic":%q}`, topic) }
	forServers(t, router.Options{}, func(t *testing.T, a *addressed) {
		ctx := context.Background()
		for i, s := range a.servers {
			ann := fmt.Sprint("ann", i)
			ann1, id1 := a.dial(i, "acme", ann)
			ann2, _ := a.dial(i+1, "acme", ann)
			bob, _ := a.dial(i, "acme", "bob")
			room, other := fmt.Sprint("room", i), fmt.Sprint("other", i)
			publish := func(topic string) {
				t.Helper()
				if err := a.server(i+2).r.Publish(ctx, topic, "event", topic); err != nil {
					t.Fatal(err)
				}
			}
			if n := must[int](t)(s.r.User("acme", ann).Subscribe(ctx, room, other)); n != 2 {
				t.Errorf("%d connections were subscribed, want 2", n)
			}
			if n := must[int](t)(s.r.User("acme", ann).Subscribe(ctx, room)); n != 2 {
				t.Errorf("%d connections are members when they are subscribed again, want 2", n)
			}
			for _, topic := range []string{room, other} {
				publish(topic)
				ann1.expect(event(topic))
				ann2.expect(event(topic))
			}
			if n := must[int](t)(s.r.User("acme", ann).Except(id1).Unsubscribe(ctx, room)); n != 1 {
				t.Errorf("%d connections were unsubscribed, want 1", n)
			}
			publish(room)
			publish(other)
			ann1.expect(event(room))
			ann1.expect(event(other))
			ann2.expect(unsubscribed(room))
			ann2.expect(event(other))
			if n := must[int](t)(s.r.Connection(id1).Unsubscribe(ctx, room, other, "unknown")); n != 1 {
				t.Errorf("%d connections were unsubscribed, want 1", n)
			}
			ann1.expect(unsubscribed(room))
			ann1.expect(unsubscribed(other))
			if n := must[int](t)(s.r.User("acme", ann).Unsubscribe(ctx, room)); n != 0 {
				t.Errorf("%d connections were unsubscribed twice", n)
			}
			publish(room)
			for _, p := range []*peer{ann1, ann2, bob} {
				p.write(echo("1", "nothing else"))
				p.expect("reply 1 nothing else")
			}
		}
	})
}

// Unsubscribing ends presence, in whatever way it was joined, and a subscription that waits for the broker. What cannot be
// subscribed is an error.
func TestSubscribingTargetsThatCannot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var conn atomic.Pointer[router.Conn]
	open := func(c *router.Conn) error { conn.Store(c); return nil }
	s := serveSocket(t, router.Options{Authenticate: asUser, OnOpen: open, Limits: router.Limits{MaxTopics: 2}}, func(r *router.Router) {
		router.RPC(r, "join", func(c *router.Context, m said) (said, error) { return m, c.Join(m.Text, "here") })
	})
	p := s.connect()
	p.write([]byte(s.handshake(as("acme", "ann"))))
	p.response()
	p.write(join1("room"))
	p.expect("reply j room")
	ann := s.r.User("acme", "ann")
	if n, err := ann.Subscribe(ctx, "room", "b", "c"); n != 0 || errors.CodeOf(err) != errors.ResourceExhausted {
		t.Errorf("three topics of two: %d, %v", n, err)
	}
	member := func(want bool, topics ...string) {
		t.Helper()
		for _, topic := range topics {
			if got := conn.Load().IsSubscribed(topic); got != want {
				t.Errorf("a member of %s: %v", topic, got)
			}
		}
	}
	member(true, "room", "b")
	member(false, "c", "$ws:all", "")
	if n, err := ann.Unsubscribe(ctx, "room"); n != 1 || err != nil {
		t.Errorf("unsubscribed %d, %v", n, err)
	}
	member(false, "room")
	p.expect(`$ws:unsubscribed {"topic":"room"}`)
	if members, err := s.r.Presence(ctx, "room"); err != nil || len(members) > 0 {
		t.Errorf("present: %v, %v", members, err)
	}
	if n, err := s.r.User("acme", "nobody").Subscribe(ctx, "room"); n != 0 || err != nil {
		t.Errorf("nobody: %d, %v", n, err)
	}
	for what, topics := range map[string][]string{
		"no topic": {}, "an empty one": {"room", ""}, "a reserved one": {"$ws:all"}, "too many": make([]string, 1001),
	} {
		for i := range topics {
			if what == "too many" {
				topics[i] = fmt.Sprint(i)
			}
		}
		if _, err := ann.Subscribe(ctx, topics...); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%s: Subscribe fails with %v", what, err)
		}
		if _, err := ann.Unsubscribe(ctx, topics...); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%s: Unsubscribe fails with %v", what, err)
		}
	}
}

// A user is banned while clients connect: OnOpen sees the ban, or Close finds the connection.
func TestNoConnectionOfABannedUserStaysOpen(t *testing.T) {
	t.Parallel()
	takesTime(t)
	var banned atomic.Bool
	opts := router.Options{OnOpen: func(*router.Conn) error {
		isBanned := banned.Load()
		spend(rand.N(2 * time.Millisecond))
		if isBanned {
			return errors.PermissionDenied.New("banned")
		}
		return nil
	}}
	forServers(t, opts, func(t *testing.T, a *addressed) {
		for round := range 30 {
			banned.Store(false)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					p := a.server(i).connect()
					p.write([]byte(a.server(i).handshake(as("acme", "ann"))))
					p.response()
					if f, err := p.read(); err != nil || f.String() != "close 4003" && f.String() != "close 1008" {
						t.Errorf("a banned client got %s, %v", f, err)
					}
					p.hangUp()
				})
			}
			r := a.server(round).r
			eventually(t, "one is open", func() bool { return r.Stats().Connections > 0 })
			banned.Store(true)
			must[int](t)(r.User("acme", "ann").Close(context.Background(), 4003, "banned"))
			wg.Wait()
		}
	})
}

func TestReservedTopics(t *testing.T) {
	t.Parallel()
	conns, infos := make(chan *router.Conn, 1), make(chan router.CloseInfo, 1)
	s := serveSocket(t, router.Options{
		Addressing: router.AddressingOptions{Enabled: true}, Authenticate: asUser,
		Limits:  router.Limits{MaxTopics: 1},
		OnOpen:  func(c *router.Conn) error { conns <- c; return nil },
		OnClose: func(_ *router.Conn, info router.CloseInfo) { infos <- info },
	}, subscribing)
	p := s.dial(as("acme", "ann"))
	c := <-conns
	if topics := c.Topics(); len(topics) != 0 {
		t.Errorf("a connection that subscribed to nothing is in %q", topics)
	}
	p.write(join1("$ws:all"), join1("room"), join1("another"))
	p.expect("RPC_ERROR j INVALID_ARGUMENT", "reply j room", "RPC_ERROR j RESOURCE_EXHAUSTED")
	if err := s.r.Publish(context.Background(), "$ws:all", "event", nil); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("publishing to a reserved topic: %v", err)
	}
	c.Unsubscribe("$ws:all")
	if topics := c.Topics(); !slices.Equal(topics, []string{"room"}) {
		t.Errorf("it is in %q", topics)
	}
	if err := s.r.AllConnections().Send(context.Background(), "event", 1); err != nil {
		t.Fatal(err)
	}
	p.expect("event 1")
	p.hangUp()
	if info := <-infos; !slices.Equal(info.Topics, []string{"room"}) {
		t.Errorf("at its end it was in %q", info.Topics)
	}
}

// In one process nothing has to be switched on: what is sent to all reaches every connection that was open before,
// while others open and close, and each is counted once.
func TestTargetsInOneProcess(t *testing.T) {
	t.Parallel()
	for name, backend := range map[string]adapters.Backend{"no backend": {}, "in memory": memory.New()} {
		t.Run(name, func(t *testing.T) {
			opened := make(chan struct{}, 60)
			s := serveSocket(t, router.Options{
				Authenticate: asUser, Backend: backend,
				OnOpen: func(*router.Conn) error { opened <- struct{}{}; return nil },
			}, nil)
			var before []*peer
			for i := range 20 {
				before = append(before, s.dial(as("acme", fmt.Sprint("user", i%10))))
			}
			for range before { // the answer to a handshake comes before OnOpen
				<-opened
			}
			var opening sync.WaitGroup
			for range 4 {
				opening.Go(func() {
					for range 10 {
						s.dial(as("acme", "other")).hangUp()
					}
				})
			}
			ctx := context.Background()
			var sending sync.WaitGroup
			for i := range 4 { // all at once are the first to use a target
				sending.Go(func() {
					if err := s.r.AllConnections().Send(ctx, "all", i); err != nil {
						t.Error(err)
					}
				})
			}
			sending.Wait()
			if err := s.r.User("acme", "user3").Send(ctx, "you", nil); err != nil {
				t.Error(err)
			}
			for i, p := range before {
				p.expectInAnyOrder("all 0", "all 1", "all 2", "all 3")
				if i%10 == 3 {
					p.expect("you ")
				}
			}
			opening.Wait()
			eventually(t, "those that came and went are not counted", func() bool {
				n, err := s.r.AllConnections().Count(ctx)
				return n == len(before) && err == nil
			})
			if n, err := s.r.User("acme", "user3").Close(ctx, 4001, "bye"); n != 2 || err != nil {
				t.Errorf("%d are closed, %v", n, err)
			}
			before[3].expect("close 4001")
			for _, p := range before {
				p.hangUp()
			}
		})
	}
}

func TestTargetsThatCannotBeAddressed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	off, on := router.New(router.Options{Backend: adapters.Backend{Broker: memory.NewBroker(), Shared: true}}), router.New()
	for name, c := range map[string]struct {
		to   router.Target
		code errors.Code
	}{
		"off":                          {off.AllConnections(), errors.Internal},
		"the zero Target":              {router.Target{}, errors.Internal},
		"a user without a name":        {on.User("acme", ""), errors.InvalidArgument},
		"a connection without an id":   {on.Connection(""), errors.InvalidArgument},
		"a connection that is unknown": {on.Connection("unknown"), ""},
	} {
		_, count := c.to.Count(ctx)
		_, list := c.to.List(ctx)
		_, closed := c.to.Close(ctx, 1000, "")
		for what, err := range map[string]error{"Send": c.to.Send(ctx, "event", nil), "Count": count, "List": list, "Close": closed} {
			if (err != nil) != (c.code != "") || err != nil && errors.CodeOf(err) != c.code {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	for want, o := range map[string]router.Options{
		"Options.Addressing.Timeout is -1ns":     {Addressing: router.AddressingOptions{Timeout: -1}},
		"Options.Backend.ProcessTimeout is 11m":  {Backend: adapters.Backend{ProcessTimeout: 11 * time.Minute}},
		"Options.Backend.ProcessTimeout is 10ms": {Backend: adapters.Backend{ProcessTimeout: 10 * time.Millisecond}},
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, want) {
					t.Errorf("New: %s", v)
				}
			}()
			router.New(o)
		}()
	}
}

// Each client's queue is bounded, and Overflow says what happens to a slow one.
func TestSendingToSlowClients(t *testing.T) {
	t.Parallel()
	forServers(t, router.Options{Limits: router.Limits{MaxQueued: 64 << 10}}, func(t *testing.T, a *addressed) {
		slow, id := a.dial(0, "acme", "ann")
		r := a.server(1).r
		type filled struct {
			N    int    `json:"n"`
			Fill string `json:"fill"`
		}
		fill := strings.Repeat("x", 8<<10)
		for name, to := range map[string]router.Target{"user": r.User("acme", "ann"), "connection": r.Connection(id), "all": r.AllConnections()} {
			sent := 0
			dropped := a.server(0).r.Stats().FramesDropped
			eventually(t, name+": messages are dropped", func() bool {
				sent++
				if err := to.Send(context.Background(), "latest", filled{sent, fill}, router.PublishOptions{
					Overflow: router.OverflowLatestOnly, Key: name,
				}); err != nil {
					t.Fatal(err)
				}
				return a.server(0).r.Stats().FramesDropped > dropped+20
			})
		}
		if err := r.Connection(id).Send(context.Background(), "large", strings.Repeat("x", 64<<10)); errors.CodeOf(err) != errors.Internal {
			t.Errorf("a message that fits no queue: %v", err)
		}
		eventually(t, "the default closes the connection", func() bool {
			if err := r.User("acme", "ann").Send(context.Background(), "all", fill); err != nil {
				t.Fatal(err)
			}
			return a.server(0).r.Stats().SlowConsumers == 1
		})
		_ = slow
	})
}

func TestSendingDeclaredEventsToTargets(t *testing.T) {
	t.Parallel()
	type greeting struct {
		Text string `json:"text" validate:"required"`
	}
	var hello router.Event[greeting]
	s := serveSocket(t, router.Options{
		Addressing: router.AddressingOptions{Enabled: true}, Authenticate: asUser, ValidateOutgoing: true,
	}, func(r *router.Router) { hello = router.Declare[greeting](r, "hello") })
	p := s.dial(as("acme", "ann"))
	p.write(echo("1", "x"))
	p.expect("reply 1 x")
	ctx := context.Background()
	to := s.r.User("acme", "ann")
	for what, err := range map[string]error{
		"another type": to.Send(ctx, "hello", 1), "not valid": hello.Send(ctx, to, greeting{}),
		"with an id": hello.Send(ctx, to, greeting{"x"}, router.PublishOptions{ID: "1"}), "reserved": to.Send(ctx, "$ws:hello", nil), "two options": hello.Send(ctx, to, greeting{"x"}, router.PublishOptions{}, router.PublishOptions{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := hello.Send(ctx, to, greeting{"hi"}); err != nil {
		t.Fatal(err)
	}
	p.expect(`hello {"text":"hi"}`)
}

// mute is a broker that cannot publish.
type mute struct{ stage }

func (*mute) Publish(context.Context, pubsub.Message) error { return errors.New("not reachable") }

func TestPublishingWithinTheProcess(t *testing.T) {
	t.Parallel()
	broker := new(mute)
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: broker}}, subscribing)
	p := s.dial()
	p.write(join1("room"))
	p.expect("reply j room")
	if err := s.r.Publish(context.Background(), "room", "event", 1); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("publishing through the broker: %v", err)
	}
	if err := s.r.Publish(context.Background(), "room", "event", 2, router.PublishOptions{LocalOnly: true}); err != nil {
		t.Errorf("publishing within the process: %v", err)
	}
	p.expect("event 2")
}
