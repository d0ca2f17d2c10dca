package router_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// revoking are servers that share a broker in memory, or one without any.
type revoking struct {
	*testing.T
	routers  []*router.Router
	servers  []*routertest.Server
	presence pubsub.PresenceWatcher
	asked    func(topic string) // by the handler of "enter", before it subscribes
}

type topicNews struct {
	Topic  string `json:"topic"`
	Reason string `json:"reason,omitzero"` // of $ws:unsubscribed
}

// forRevoking runs a test in a bubble with one server, and with two.
func forRevoking(t *testing.T, test func(s *revoking)) {
	run := func(name string, brokers ...pubsub.Broker) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &revoking{T: t, presence: memory.NewPresence()}
				for _, b := range brokers {
					s.start(b)
				}
				test(s)
			})
		})
	}
	run("one", nil)
	shared := memory.NewBroker()
	run("two", shared, shared)
}

func (s *revoking) start(b pubsub.Broker) {
	opts := router.Options{Backend: adapters.Backend{Broker: b, Presence: s.presence}, Authenticate: asUser}
	opts.Addressing.Enabled = b != nil
	opts.Resume.Keys = [][]byte{[]byte(strings.Repeat("k", 32))}
	r := router.New(opts)
	r.History("log:*")
	router.RPC(r, "enter", func(c *router.Context, topic string) (bool, error) {
		if s.asked != nil {
			s.asked(topic)
		}
		return true, c.Subscribe(topic)
	})
	router.RPC(r, "from", func(c *router.Context, topic string) (bool, error) { return true, c.SubscribeFrom(topic, "") })
	router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Join(topic, nil) })
	s.routers = append(s.routers, r)
	s.servers = append(s.servers, routertest.New(s.T, r))
}

func (s *revoking) dial(i int, user string) *routertest.Client {
	header := map[string][]string{"X-Tenant": {"acme"}, "X-User": {user}}
	return s.servers[i%len(s.servers)].Dial(routertest.DialOptions{Header: header})
}

// revoke revokes a right of ann.
func (s *revoking) revoke(topics string) {
	s.Helper()
	if err := s.routers[0].Revoke(s.Context(), router.Right{Tenant: "acme", User: "ann", Topics: topics}); err != nil {
		s.Fatal(err)
	}
}

// reached publishes to topics, and returns of which of them it reaches a client, behind what it was told of ended memberships.
func (s *revoking) reached(c *routertest.Client, topics ...string) string {
	s.Helper()
	for _, topic := range topics {
		if err := s.routers[0].Publish(s.Context(), topic, "news", topicNews{Topic: topic}); err != nil {
			s.Fatal(err)
		}
	}
	synctest.Wait()
	var reached []string
	for _, f := range c.Frames() {
		var e topicNews
		if err := json.Unmarshal(f.Payload, &e); err != nil {
			s.Fatal(err)
		}
		switch f.Type {
		case "news":
			reached = append(reached, e.Topic)
		case "$ws:unsubscribed":
			reached = append(reached, "-"+e.Topic, e.Reason)
		}
	}
	return strings.Join(reached, " ")
}

// Nothing of the topics of a revoked right reaches the user any more, on any connection; everything else does.
func TestRevoke(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		topics := []string{"room:a", "log:room", "hall"}
		ann, phone, bob := t.dial(0, "ann"), t.dial(1, "ann"), t.dial(1, "bob")
		for _, c := range []*routertest.Client{ann, phone, bob} {
			for _, topic := range topics {
				routertest.ExpectReply[bool](c.Request("enter", topic))
			}
			routertest.ExpectReply[bool](c.Request("join", "room:b"))
		}
		for _, c := range []*routertest.Client{ann, phone, bob} {
			c.Frames()
			if got := t.reached(c, topics...); got != "room:a log:room hall" {
				t.Fatalf("before, %q reach a member", got)
			}
		}
		for _, c := range []*routertest.Client{ann, phone, bob} {
			c.Frames()
		}
		for _, right := range []string{"room:*", "log:room", "nothing"} {
			t.revoke(right)
		}
		revoked := int64(0)
		for _, r := range t.routers {
			revoked += r.Stats().Revoked
		}
		if revoked != 6 {
			t.Errorf("%d memberships are counted", revoked)
		}
		if got := t.reached(ann, topics...); got != "-room:a revoked -room:b revoked -log:room revoked hall" {
			t.Errorf("the user gets %q", got)
		}
		for _, c := range []*routertest.Client{ann, phone} {
			c.Frames()
			if got := t.reached(c, topics...); got != "hall" {
				t.Errorf("%q reach the user", got)
			}
		}
		bob.Frames()
		if got := t.reached(bob, topics...); got != "room:a log:room hall" {
			t.Errorf("%q reach another user", got)
		}
		present, err := t.routers[0].Presence(t.Context(), "room:b")
		if err != nil || len(present) != 1 || present[0].User != "bob" {
			t.Errorf("present: %v, %v", present, err)
		}
		// What is decided from now on holds.
		routertest.ExpectReply[bool](ann.Request("enter", "room:a"))
		ann.Frames()
		if got := t.reached(ann, topics...); got != "room:a hall" {
			t.Errorf("after the user was let in again, %q reach it", got)
		}
	})
}

// A ticket of before a revocation resumes nothing, on any server; one of after it does, also if the right was given back.
func TestRevokedTickets(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		ann := t.dial(0, "ann")
		enter := func(topic string) ticketed {
			routertest.ExpectReply[bool](ann.Request("enter", topic))
			return routertest.ExpectEvent[ticketed](ann, "$ws:subscribed")
		}
		room, hall := enter("log:room"), enter("log:hall")
		t.revoke("log:room")
		again := enter("log:room")
		t.revoke("log:other")
		later := enter("log:other")
		for i, c := range []*routertest.Client{t.dial(0, "ann"), t.dial(1, "ann")} {
			got := routertest.ExpectReply[resumedAs](c.Request("$ws:resume", map[string]any{"topics": []ticketed{room, hall, again, later}}))
			for j, want := range []string{"denied", "", "", ""} {
				if got.Topics[j].Reason != want {
					t.Errorf("server %d: ticket %d is answered %q, want %q", i, j, got.Topics[j].Reason, want)
				}
			}
			for _, f := range c.Frames() {
				if f.Type == "news" {
					t.Errorf("server %d: %v", i, f)
				}
			}
		}
	})
}

// A server that starts after a revocation knows it.
func TestRevokedTicketOnAServerThatStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.NewBroker()
		s := &revoking{T: t, presence: memory.NewPresence()}
		s.start(shared)
		ann := s.dial(0, "ann")
		routertest.ExpectReply[bool](ann.Request("enter", "log:room"))
		old := routertest.ExpectEvent[ticketed](ann, "$ws:subscribed")
		s.revoke("log:*")
		s.start(shared)
		c := s.dial(1, "ann")
		got := routertest.ExpectReply[resumedAs](c.Request("$ws:resume", map[string]any{"topics": []ticketed{old}}))
		if got.Topics[0].Reason != "denied" {
			t.Errorf("%+v", got)
		}
		routertest.ExpectReply[bool](c.Request("enter", "log:room")) // revocations of before end nothing
		if n := s.routers[1].LocalSubscribers("log:room"); n != 1 {
			t.Errorf("%d members", n)
		}
	})
}

// A handler, and OnOpen, that have found that the user may enter, and subscribe after the right was revoked, do not.
func TestRevokedWhileAHandlerDecides(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		c := t.dial(1, "ann")
		t.asked = func(topic string) {
			t.asked = nil
			t.revoke("*")
		}
		c.Request("enter", "room:a").ExpectError(errors.PermissionDenied)
		t.asked = func(topic string) {
			t.asked = nil
			t.revoke("*")
		}
		c.Request("enter", "log:room").ExpectError(errors.PermissionDenied)
		if got := t.reached(c, "room:a", "log:room"); got != "" {
			t.Errorf("%q reach the user", got)
		}
		for _, f := range c.Frames() {
			if strings.HasPrefix(f.Type, "$ws:") {
				t.Errorf("the client is sent %s", f.Raw)
			}
		}
	})
}

// What cannot be revoked is said.
func TestRevokeRefuses(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		for _, right := range []router.Right{
			{Topics: "room:a"}, {User: "ann"}, {User: "ann", Topics: "$ws:all"}, {User: "ann", Topics: "$ws:*"},
			{User: "ann", Topics: strings.Repeat("a", 257)}, {User: "ann", Topics: "\xff*"},
		} {
			if err := t.routers[0].Revoke(t.Context(), right); errors.CodeOf(err) != errors.InvalidArgument {
				t.Errorf("%q: %v", right, err)
			}
		}
		over, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		err := t.routers[0].Revoke(over, router.Right{User: "ann", Topics: "a"})
		if errors.CodeOf(err) != errors.Unavailable || !strings.Contains(err.Error(), "nothing was revoked") {
			t.Errorf("without time: %v", err)
		}
	})
}

// Nothing that is queued for a client reaches it after Revoke has returned: one that does not read is waited for, and then
// disconnected.
func TestRevokeOfAClientThatDoesNotRead(t *testing.T) {
	overPipes(t, func(t *testing.T, serve transport) {
		closed := make(chan router.CloseInfo, 1)
		s := serve(t, router.Options{
			Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{User: "ann"}, nil },
			OnClose:      func(_ *router.Conn, i router.CloseInfo) { closed <- i },
		}, subscribing)
		publish := func() {
			if err := s.r.Publish(t.Context(), "room", "news", "x"); err != nil {
				t.Fatal(err)
			}
		}
		revoke := func() time.Duration {
			start := time.Now()
			if err := s.r.Revoke(t.Context(), router.Right{User: "ann", Topics: "room"}); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		p := s.dial()
		p.write(join1("room"))
		p.expect("reply j room")
		publish()
		revoked := make(chan time.Duration)
		go func() { revoked <- revoke() }()
		synctest.Wait()
		select {
		case <-revoked:
			t.Error("Revoke has returned, and a message is queued")
		default:
		}
		p.expect(`news "x"`)
		p.expect(`$ws:unsubscribed {"topic":"room","reason":"revoked"}`)
		if took := <-revoked; took != 0 {
			t.Errorf("a client that reads is waited for, for %v", took)
		}
		p.write(join1("room"))
		p.expect("reply j room")
		publish()
		if took := revoke(); took != 2*time.Second {
			t.Errorf("a client that does not read is waited for, for %v", took)
		}
		if i := <-closed; i.Code != errors.CloseSlowConsumer {
			t.Errorf("it is closed with %+v", i)
		}
	})
}

// countedBroker is a Broker that is no Log.
type countedBroker struct{ pubsub.ReceiverCounter }

// With a broker that is no log everything but Revoke works.
func TestRevokeNeedsALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &revoking{T: t, presence: memory.NewPresence()}
		opts := router.Options{Authenticate: asUser, Backend: adapters.Backend{Broker: countedBroker{memory.NewBroker()}}}
		opts.Addressing.Enabled = true
		r := router.New(opts)
		router.RPC(r, "enter", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
		s.routers, s.servers = []*router.Router{r}, []*routertest.Server{routertest.New(t, r)}
		ann := s.dial(0, "ann")
		routertest.ExpectReply[bool](ann.Request("enter", "room"))
		if got := s.reached(ann, "room"); got != "room" {
			t.Errorf("%q reach a member", got)
		}
		if err := r.Revoke(t.Context(), router.Right{Tenant: "acme", User: "ann", Topics: "room"}); errors.CodeOf(err) != errors.Internal {
			t.Errorf("Revoke: %v", err)
		}
	})
}

// A server that is cut off from what others publish, for less than ProcessTimeout, and can read, denies a revoked ticket.
func TestRevokedTicketOnAServerThatHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.NewBroker()
		cut := newCutBroker(shared)
		s := &revoking{T: t, presence: memory.NewPresence()}
		s.start(shared)
		s.start(cut)
		ann, there := s.dial(0, "ann"), s.dial(1, "ann")
		routertest.ExpectReply[bool](ann.Request("enter", "log:room"))
		ticket := routertest.ExpectEvent[ticketed](ann, "$ws:subscribed")
		cut.mu.Lock()
		for _, sub := range cut.subs { // new ones work
			_ = sub.Close()
		}
		cut.mu.Unlock()
		err := s.routers[0].Revoke(t.Context(), router.Right{Tenant: "acme", User: "ann", Topics: "log:room"})
		if errors.CodeOf(err) != errors.Unavailable {
			t.Errorf("Revoke without an answer: %v", err)
		}
		got := routertest.ExpectReply[resumedAs](there.Request("$ws:resume", map[string]any{"topics": []ticketed{ticket}}))
		if got.Topics[0].Resumed || got.Topics[0].Reason != "denied" {
			t.Errorf("%+v", got)
		}
	})
}
