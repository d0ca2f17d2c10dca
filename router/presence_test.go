package router_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// present lists the members of the room, as user=data.
func present(t *testing.T, r *router.Router) (list []string) {
	t.Helper()
	members, err := r.Presence(context.Background(), "room")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.ID == "" {
			t.Errorf("%+v has no ID", m)
		}
		list = append(list, m.User+"="+string(m.Data))
	}
	slices.Sort(list)
	return list
}

func TestMembersAreListedUntilTheyLeave(t *testing.T) {
	t.Parallel()
	shared := memory.NewPresence()
	other := router.New(router.Options{Backend: adapters.Backend{Presence: shared}})
	conns := make(chan *router.Conn, 3)
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Presence: shared},
		OnOpen:  func(c *router.Conn) error { conns <- c; return nil },
	}, nil)
	listener, listens := s.dial(), <-conns
	ann, joins := s.dial(), <-conns
	ben, joinsToo := s.dial(), <-conns
	ctx := context.Background()

	if err := listens.Subscribe(ctx, "room"); err != nil {
		t.Fatal(err)
	}
	if got := present(t, s.r); len(got) != 0 {
		t.Errorf("a subscriber that has not joined is seen: %q", got)
	}
	for i, c := range []*router.Conn{joins, joinsToo} {
		if err := c.Join(ctx, "room", said{Text: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`={"text":"0"}`, `={"text":"1"}`}
	for _, r := range []*router.Router{s.r, other} {
		if got := present(t, r); len(got) != 2 || !strings.HasSuffix(got[0], want[0]) || !strings.HasSuffix(got[1], want[1]) {
			t.Errorf("seen are %q", got)
		}
	}
	if n := s.r.LocalSubscribers("room"); n != 3 {
		t.Errorf("%d members; a connection that joins is a member", n)
	}
	if err := joins.Join(ctx, "room", nil); err != nil {
		t.Fatal(err)
	}
	if got := present(t, s.r); len(got) != 2 || !strings.HasSuffix(got[0], "=") && !strings.HasSuffix(got[1], "=") {
		t.Errorf("after joining again seen are %q", got)
	}
	joins.Unsubscribe("room")
	if got := present(t, s.r); len(got) != 1 || !strings.HasSuffix(got[0], want[1]) {
		t.Errorf("after one has left seen are %q", got)
	}
	ben.reset()
	eventually(t, "no member is listed", func() bool { return len(present(t, s.r)) == 0 })
	if err := joinsToo.Join(ctx, "room", nil); !errors.Is(err, router.ErrClosed) {
		t.Errorf("joining after the end: %v", err)
	}
	ann.bye()
	listener.bye()
	s.recovered()
	if left, err := shared.Members(ctx, "room"); err != nil || len(left) != 0 {
		t.Errorf("%d members are left in the presence, %v", len(left), err)
	}
}

// troubled is a presence that fails, or does something while it is joined.
type troubled struct {
	pubsub.PresenceWatcher
	err     error
	joining func()
}

func (p *troubled) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if p.joining != nil {
		p.joining()
	}
	if p.err != nil {
		return p.err
	}
	return p.PresenceWatcher.Join(ctx, topic, m)
}

func (p *troubled) Members(ctx context.Context, topic string) ([]pubsub.Member, error) {
	if p.err != nil {
		return nil, p.err
	}
	return p.PresenceWatcher.Members(ctx, topic)
}

func TestJoiningThatFails(t *testing.T) {
	t.Parallel()
	presence := &troubled{PresenceWatcher: memory.NewPresence(), err: errors.New("away")}
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Presence: presence},
		OnOpen:  func(c *router.Conn) error { conns <- c; return nil },
	}, nil)
	p := s.dial()
	c, ctx := <-conns, context.Background()

	if err := c.Join(ctx, "room", nil); errors.CodeOf(err) != errors.Unavailable || s.r.Stats().Topics != 0 {
		t.Errorf("Join: %v, %d topics", err, s.r.Stats().Topics)
	}
	if _, err := s.r.Presence(ctx, "room"); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("Presence: %v", err)
	}
	if err := c.Subscribe(ctx, "room"); err != nil {
		t.Fatal(err)
	}
	if err := c.Join(ctx, "room", nil); errors.CodeOf(err) != errors.Unavailable || s.r.LocalSubscribers("room") != 1 {
		t.Errorf("Join of a member: %v, %d members", err, s.r.LocalSubscribers("room"))
	}
	presence.err = nil
	if err := c.Join(ctx, "room", strings.Repeat("x", 4<<10)); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("Join with too much: %v", err)
	}
	if err := c.Join(ctx, "", nil); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("Join without a name: %v", err)
	}
	if _, err := s.r.Presence(ctx, ""); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("Presence without a name: %v", err)
	}
	if err := c.Join(ctx, "room", func() {}); err == nil {
		t.Error("Join with what cannot be encoded has no error")
	}
	// The connection leaves while it joins.
	presence.joining = func() { c.Unsubscribe("room") }
	if err := c.Join(ctx, "room", nil); !errors.Is(err, router.ErrClosed) {
		t.Errorf("Join while leaving: %v", err)
	}
	if left, err := presence.PresenceWatcher.Members(ctx, "room"); err != nil || len(left) != 0 {
		t.Errorf("%d members are left in the presence, %v", len(left), err)
	}
	p.bye()
	s.recovered()
}

// A part of the backend that is shared, and another one that is not, would list members whom nothing reaches.
func TestSharedPresenceNeedsABroker(t *testing.T) {
	t.Parallel()
	broker := memory.NewBroker()
	for name, tc := range map[string]struct {
		backend adapters.Backend
		refused bool
	}{
		"a backend that says so":         {adapters.Backend{Presence: memory.NewPresence(), Shared: true}, true},
		"a presence that says so":        {adapters.Backend{Presence: sharedPresence{}}, true},
		"with a broker of one process":   {adapters.Backend{Presence: sharedPresence{}, Broker: broker}, true},
		"with a broker of all processes": {adapters.Backend{Presence: sharedPresence{}, Broker: struct{ pubsub.Broker }{broker}}, false},
		"one of the process":             {adapters.Backend{Presence: memory.NewPresence(), Broker: broker}, false},
		"one that says nothing":          {adapters.Backend{Presence: struct{ pubsub.Presence }{memory.NewPresence()}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				v := recover()
				if got := strings.Contains(fmt.Sprint(v), "set Broker, or set Presence to memory.NewPresence()"); got != tc.refused || !got && v != nil {
					t.Errorf("the panic is %v", v)
				}
			}()
			router.New(router.Options{Backend: tc.backend})
		})
	}
}

// sharedPresence says that other processes have it, too.
type sharedPresence struct{ pubsub.Presence }

func (sharedPresence) Shared() bool { return true }

// Join makes a connection one that others see.
func ExampleContext_Join() {
	type entry struct {
		Name string `json:"name"`
	}
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
	})
	router.RPC(r, "room.join", func(c *router.Context, e entry) ([]string, error) {
		grace := router.JoinOptions{Grace: 5 * time.Second} // for pages that are loaded again
		if err := c.Join("room", e, grace); err != nil {
			return nil, err
		}
		members, err := r.Presence(c, "room")
		var list []string
		for _, m := range members {
			list = append(list, fmt.Sprintf("%s is %s", m.User, m.Data))
		}
		return list, err
	})

	c := connect(r, "ann")
	c.send(`{"type":"room.join","meta":{"correlationId":"1"},"payload":{"name":"Ann"}}`)
	c.receive(1)
	c.close()
	// Output:
	// {"type":"room.join.reply","meta":{"correlationId":"1"},"payload":["ann is {\"name\":\"Ann\"}"]}
}
