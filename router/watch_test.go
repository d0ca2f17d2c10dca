package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// room serves "join" (joins the room with a text and watches it), "look" (subscribes, and
// watches by user) and "leave".
func openRoom(t *testing.T, presence pubsub.Presence) *socketServer {
	t.Helper()
	return serveSocket(t, router.Options{
		Backend: adapters.Backend{Presence: presence},
		Authenticate: func(r *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(r)}, nil
		},
	}, func(r *router.Router) {
		router.On(r, "join", func(c *router.Context, m said) error {
			if err := c.Join("room", m); err != nil {
				return err
			}
			return c.WatchPresence("room")
		})
		router.On(r, "enter", func(c *router.Context, m said) error { return c.Join("room", m) })
		router.On(r, "watch", func(c *router.Context, _ struct{}) error { return c.WatchPresence("room") })
		router.On(r, "look", func(c *router.Context, _ struct{}) error {
			if err := c.Subscribe("room"); err != nil {
				return err
			}
			return c.WatchPresence("room", router.WatchOptions{ByUser: true})
		})
		router.On(r, "leave", func(c *router.Context, _ struct{}) error { c.Unsubscribe("room"); return nil })
	})
}

func event(typ, payload string) []byte {
	return textFrame(fmt.Sprintf(`{"type":%q,"payload":%s}`, typ, payload))
}

type entry struct {
	ID   string `json:"id"`
	User string `json:"user"`
	Data struct {
		Text string `json:"text"`
	} `json:"data"`
}

func (e entry) key() string {
	if e.User != "" && e.ID == "" {
		return e.User
	}
	return e.ID
}

// watcher is what a client has from the frames of $ws:presence, and how it came to.
type watcher struct {
	*peer
	known map[string]entry
	log   []string // +user, ~user, -user, in the order of the frames, sorted within a frame
	lists int
	count int
}

func (s *socketServer) client(user string) *watcher {
	return &watcher{peer: s.dial("Authorization: Bearer " + user), known: make(map[string]entry)}
}

// presence reads the next frame, which has to be one of $ws:presence, and applies it.
func (c *watcher) presence() {
	c.t.Helper()
	f, err := c.read()
	if err != nil {
		c.t.Fatalf("no $ws:presence: %v", err)
	}
	var m struct {
		Type    string
		Payload struct {
			Topic                 string
			Count                 int
			Members               *[]entry
			Joined, Changed, Left []entry
		}
	}
	if err := json.Unmarshal(f.payload, &m); err != nil || m.Type != "$ws:presence" || m.Payload.Topic != "room" {
		c.t.Fatalf("got %.300s, %v", f.payload, err)
	}
	p := m.Payload
	c.count = p.Count
	var log []string
	if p.Members != nil {
		c.lists++
		clear(c.known)
		for _, e := range *p.Members {
			c.known[e.key()] = e
		}
	}
	if p.Members == nil && len(p.Joined)+len(p.Changed)+len(p.Left) == 0 { // too many
		clear(c.known)
	}
	for _, e := range p.Joined {
		if _, ok := c.known[e.key()]; ok {
			c.t.Errorf("%s joins a second time", e.User)
		}
		c.known[e.key()] = e
		log = append(log, "+"+e.User)
	}
	for _, e := range p.Changed {
		if _, ok := c.known[e.key()]; !ok {
			c.t.Errorf("%s changes and is not there", e.User)
		}
		c.known[e.key()] = e
		log = append(log, "~"+e.User+"="+e.Data.Text)
	}
	for _, e := range p.Left {
		if c.known[e.key()].User != e.User {
			c.t.Errorf("%q leaves and was not there", e.User)
		}
		delete(c.known, e.key())
		log = append(log, "-"+e.User)
	}
	slices.Sort(log)
	c.log = append(c.log, log...)
	if (p.Members != nil || len(log) > 0) && p.Count != len(c.known) {
		c.t.Errorf("the count is %d, known are %d", p.Count, len(c.known))
	}
}

// users are those that the client has, as user=text.
func (c *watcher) users() string {
	var list []string
	for _, e := range c.known {
		list = append(list, e.User+"="+e.Data.Text)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (c *watcher) becomes(want string) {
	c.t.Helper()
	for c.users() != want {
		c.presence()
	}
}

// watchedPresence counts the watchers.
type watchedPresence struct {
	pubsub.PresenceWatcher
	open atomic.Int64
}

func (p *watchedPresence) Watch(ctx context.Context, topic string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	sub, err := p.PresenceWatcher.Watch(ctx, topic, report)
	if err == nil {
		p.open.Add(1)
	}
	return &watching{sub, p}, err
}

type watching struct {
	pubsub.Subscription
	of *watchedPresence
}

func (w *watching) Close() error {
	w.of.open.Add(-1)
	return w.Subscription.Close()
}

// Joins, changes and leaves are sent to the watchers, once, in two routers that share
// a presence.
func TestWatchingPresence(t *testing.T) {
	t.Parallel()
	shared := &watchedPresence{PresenceWatcher: memory.NewPresence()}
	one, two := openRoom(t, shared), openRoom(t, shared)
	defer closeServers(t, one, two)
	ann, bob, eve := one.client("ann"), two.client("bob"), one.client("eve")
	ann.write(event("join", `{"text":"1"}`))
	ann.becomes("ann=1")
	bob.write(event("join", `{"text":"1"}`))
	bob.becomes("ann=1 bob=1")
	ann.becomes("ann=1 bob=1")
	eve.write(event("enter", `{"text":"1"}`)) // is seen, and does not watch
	ann.becomes("ann=1 bob=1 eve=1")
	bob.becomes("ann=1 bob=1 eve=1")
	eve.write(event("enter", `{"text":"2"}`))
	ann.becomes("ann=1 bob=1 eve=2")
	bob.becomes("ann=1 bob=1 eve=2")
	eve.write(textFrame(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"hi"}}`))
	eve.expect("reply 1 hi") // and nothing before it
	eve.write(event("leave", `{}`))
	ann.becomes("ann=1 bob=1")
	bob.reset()
	ann.becomes("ann=1")
	ann.write(event("leave", `{}`), textFrame(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"hi"}}`))
	ann.expect("reply 1 hi")
	if got := strings.Join(ann.log, " "); got != "+bob +eve ~eve=2 -eve -bob" || ann.lists != 1 {
		t.Errorf("ann was sent %s, and %d lists", got, ann.lists)
	}
	eventually(t, "the topic is not watched any more", func() bool { return shared.open.Load() == 0 })
}

// closeServers ends several at once: each looks for goroutines that outlive it.
func closeServers(t *testing.T, servers ...*socketServer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range servers {
		s.hangUpAll()
		if err := s.r.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}
}

// A user with three connections joins once and leaves once.
func TestWatchingUsers(t *testing.T) {
	t.Parallel()
	s := openRoom(t, memory.NewPresence())
	look := s.client("eve")
	look.write(event("look", `{}`))
	for look.lists == 0 {
		look.presence()
	}
	var tabs []*watcher
	for i := range 3 {
		tab := s.client("ann")
		tab.write(event("enter", `{"text":"same"}`), echo("1", "in"))
		tab.expect("reply 1 in")
		tabs = append(tabs, tab)
		for look.known["ann"].Data.Text != "same" {
			look.presence()
		}
		other := s.client("")
		other.write(event("enter", fmt.Sprintf(`{"text":"%d"}`, i)))
		for len(look.known) != i+2 {
			look.presence()
		}
		defer other.hangUp()
	}
	for _, tab := range tabs {
		if len(look.known) != 4 {
			t.Errorf("known are %s", look.users())
		}
		tab.reset()
		look.write(textFrame(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"hi"}}`))
		if tab != tabs[2] {
			look.expect("reply 1 hi")
		}
	}
	for len(look.known) != 3 {
		if f := look.next(); strings.HasPrefix(f, "$ws:presence") && strings.Contains(f, `"left":[{"user":"ann"}]`) {
			delete(look.known, "ann")
			look.log = append(look.log, "-ann")
		}
	}
	if got := strings.Join(look.log, " "); strings.Count(got, "ann") != 2 {
		t.Errorf("sent were %s", got)
	}
}

// A list and then its changes, however they meet: in the end all know the same, and it is
// what is so.
func TestWatchingWhileMembersComeAndGo(t *testing.T) {
	t.Parallel()
	shared := memory.NewPresence()
	s := openRoom(t, shared)
	const clients = 12
	var wg sync.WaitGroup
	var stay [clients]*watcher
	for i := range clients {
		stay[i] = s.client(fmt.Sprint("stays", i))
		guest := s.client(fmt.Sprint("goes", i))
		wg.Go(func() {
			for n := range 15 {
				_ = guest.tryWrite(event("join", fmt.Sprintf(`{"text":"%d"}`, n)))
				if n%2 == 1 {
					_ = guest.tryWrite(event("leave", `{}`))
				}
			}
			_ = guest.tryWrite(event("leave", `{}`))
			_ = guest.tryWrite(textFrame(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"hi"}}`))
			for f := guest.next(); f != "reply 1 hi"; f = guest.next() {
				if f == "end" {
					t.Error("a guest was cut off")
					return
				}
			}
		})
		wg.Go(func() { _ = stay[i].tryWrite(event("join", `{"text":"here"}`)) })
	}
	wg.Wait()
	var want []string
	for i := range clients {
		want = append(want, fmt.Sprintf("stays%d=here", i))
	}
	slices.Sort(want)
	for _, c := range stay {
		c.becomes(strings.Join(want, " "))
		if c.lists != 1 {
			t.Errorf("%d lists", c.lists)
		}
	}
}

// Changes come together: of a thousand joins each watcher gets few frames. Beyond a thousand
// members only the number is sent, and the list again when they are fewer.
func TestWatchingACrowd(t *testing.T) {
	t.Parallel()
	presence := memory.NewPresence()
	s := openRoom(t, presence)
	ann := s.client("ann")
	ann.write(event("join", `{"text":""}`))
	ann.becomes("ann=")
	const crowd = 1200
	join := func(i int) {
		if err := presence.Join(context.Background(), "room", pubsub.Member{ID: fmt.Sprint("m", i), User: "crowd", Data: []byte(`{"text":"x"}`)}); err != nil {
			t.Error(err)
		}
	}
	for i := range crowd {
		join(i)
	}
	frames := 0
	for ; ann.count != crowd+1; frames++ {
		ann.presence()
	}
	if frames > 20 {
		t.Errorf("%d frames for %d joins at once", frames, crowd)
	}
	// A member that changes is not sent to a client that has the number alone.
	join(0)
	join(crowd)
	for ann.count != crowd+2 {
		ann.presence()
	}
	log, lists := len(ann.log), ann.lists
	for i := range crowd + 1 {
		if i != 7 {
			presence.Leave("room", fmt.Sprint("m", i))
		}
	}
	ann.becomes("ann= crowd=x")
	if ann.lists != lists+1 || len(ann.log)-log > 1200 {
		t.Errorf("%d lists, %d changes", ann.lists-lists, len(ann.log)-log)
	}
	presence.Leave("room", "m7")
	ann.becomes("ann=")
}

// A list that would not fit the queue of a client is not sent.
func TestWatchingLargeMembers(t *testing.T) {
	t.Parallel()
	presence := memory.NewPresence()
	s := openRoom(t, presence)
	for i := range 300 { // over 512 KiB
		data, _ := json.Marshal(said{strings.Repeat("x", 2000)})
		if err := presence.Join(context.Background(), "room", pubsub.Member{ID: fmt.Sprint(i), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	ann := s.client("ann")
	ann.write(event("join", `{"text":""}`))
	for ann.count != 301 {
		ann.presence()
	}
	if ann.lists != 0 {
		t.Error("it got the list")
	}
	for i := range 300 {
		presence.Leave("room", fmt.Sprint(i))
	}
	ann.becomes("ann=")
}

// Watching by member and by user are two views of one crowd; watching again the same way does
// nothing.
func TestWatchingTwice(t *testing.T) {
	t.Parallel()
	s := openRoom(t, memory.NewPresence())
	a, b := s.client("ann"), s.client("ann")
	b.write(event("enter", `{"text":"b"}`))
	a.write(event("join", `{"text":"a"}`))
	for len(a.known) != 2 {
		a.presence()
	}
	a.write(event("watch", `{}`), event("look", `{}`))
	lists := a.lists
	for a.lists == lists {
		a.presence()
	}
	if a.lists != lists+1 || len(a.known) != 1 {
		t.Errorf("%d lists, known are %v", a.lists, slices.Collect(maps.Keys(a.known)))
	}
	b.write(event("leave", `{}`)) // a member leaves, and the user stays
	eve := s.client("eve")
	eve.write(event("enter", `{"text":""}`))
	for len(a.known) != 2 {
		a.presence()
	}
	if got := strings.Join(a.log, " "); strings.Contains(got, "-ann") {
		t.Errorf("it was sent %s", got)
	}
}

// A connection that leaves the topic gets nothing more of it, while others do.
func TestWatchingEndsWithLeaving(t *testing.T) {
	t.Parallel()
	s := openRoom(t, memory.NewPresence())
	ann, bob, eve := s.client("ann"), s.client("bob"), s.client("eve")
	ann.write(event("join", `{"text":""}`))
	ann.becomes("ann=")
	bob.write(event("join", `{"text":""}`))
	bob.becomes("ann= bob=")
	bob.write(event("leave", `{}`))
	ann.becomes("ann= bob=")
	ann.becomes("ann=")
	eve.write(event("enter", `{"text":""}`))
	ann.becomes("ann= eve=")
	bob.write(textFrame(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"hi"}}`))
	bob.expect("reply 1 hi")
}

// dictated is a presence whose reports a test makes.
type dictated struct {
	pubsub.PresenceWatcher
	report func(pubsub.PresenceReport)
}

func (d *dictated) Watch(_ context.Context, _ string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	d.report = report
	report(pubsub.PresenceReport{Complete: true})
	return d, nil
}

func (d *dictated) Close() error { return nil }

func (d *dictated) present(members ...pubsub.Member) {
	d.report(pubsub.PresenceReport{Present: members})
}

func data(text string) []byte { return []byte(`{"text":"` + text + `"}`) }

// What is reported is sent as it is at the end: of members, and of users.
func TestWhatIsReported(t *testing.T) {
	t.Parallel()
	d := &dictated{PresenceWatcher: memory.NewPresence()}
	s := openRoom(t, d)
	members, users := s.client(""), s.client("")
	members.write(event("join", `{"text":""}`))
	for members.lists == 0 {
		members.presence()
	}
	users.write(event("look", `{}`))
	for users.lists == 0 {
		users.presence()
	}
	both := func(wantMembers, wantUsers string) {
		t.Helper()
		members.becomes(wantMembers)
		users.becomes(wantUsers)
	}
	d.present(pubsub.Member{ID: "2", User: "ann", Data: data("two")}, pubsub.Member{ID: "1", User: "ann", Data: data("one")})
	both("ann=one ann=two", "ann=one")
	// A user's data is that of the lowest ID.
	d.present(pubsub.Member{ID: "0", User: "ann", Data: data("zero")}, pubsub.Member{ID: "3", User: "ann", Data: data("three")})
	both("ann=one ann=three ann=two ann=zero", "ann=zero")
	d.report(pubsub.PresenceReport{Left: []string{"0", "unknown"}})
	both("ann=one ann=three ann=two", "ann=one")
	// A member that is missing in a complete list has left.
	d.report(pubsub.PresenceReport{Complete: true, Present: []pubsub.Member{{ID: "2", User: "ann", Data: data("two")}, {ID: "4", User: "bob"}}})
	both("ann=two bob=", "ann=two bob=")
	// A member may become another user's.
	d.present(pubsub.Member{ID: "2", User: "bob", Data: data("two")})
	both("bob= bob=two", "bob=two")
	d.present(pubsub.Member{ID: "2"})
	both("= bob=", "= bob=")
	// Data of others may be anything, and IDs and users as well.
	d.present(pubsub.Member{ID: "2", User: "\xff\"", Data: []byte("{not JSON")}, pubsub.Member{ID: "\xfe", Data: []byte(`{"text":"x"} {}`)})
	both("= bob= \ufffd\"=", "= bob= \ufffd\"=")
}

// Changes come together, the longer the more members there are.
func TestChangesComeTogether(t *testing.T) {
	t.Parallel()
	d := &dictated{PresenceWatcher: memory.NewPresence()}
	s := openRoom(t, d)
	p := s.client("")
	p.write(event("join", `{"text":""}`))
	for p.lists == 0 {
		p.presence()
	}
	var all []pubsub.Member
	for i := range 900 { // 200 ms
		all = append(all, pubsub.Member{ID: fmt.Sprint("m", i)})
	}
	d.present(all...)
	for len(p.known) != 900 {
		p.presence()
	}
	go func() {
		for i := range 200 {
			d.present(pubsub.Member{ID: "m0", Data: data(fmt.Sprint(i))})
			spend(time.Millisecond)
		}
	}()
	frames := 0
	for ; p.known["m0"].Data.Text != "199"; frames++ {
		p.presence()
	}
	if frames > 100 { // the slower the machine, the fewer changes come in the pause between two
		t.Errorf("200 changes came in %d frames", frames)
	}
}

// deafPresence is no PresenceWatcher.
type deafPresence struct{ pubsub.Presence }

// stalledPresence is one whose Watch waits, fails or panics.
type stalledPresence struct {
	watchedPresence
	stall   chan struct{}
	err     error
	panics  bool
	watches atomic.Int64
}

func (p *stalledPresence) Watch(ctx context.Context, topic string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	p.watches.Add(1)
	if p.panics {
		panic("secret")
	}
	if p.stall != nil {
		select {
		case <-p.stall:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.watchedPresence.Watch(ctx, topic, report)
}

func TestWatchingThatFails(t *testing.T) {
	t.Parallel()
	presence := &stalledPresence{watchedPresence: watchedPresence{PresenceWatcher: memory.NewPresence()}, err: errors.New("away")}
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Presence: presence}, OnError: func(router.Fault) {},
		OnOpen: func(c *router.Conn) error { conns <- c; return nil },
	}, nil)
	p := s.dial()
	c, ctx := <-conns, context.Background()
	if err := c.WatchPresence(ctx, "room"); errors.CodeOf(err) != errors.FailedPrecondition {
		t.Errorf("watching a topic of others: %v", err)
	}
	if err := c.WatchPresence(ctx, ""); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("watching without a name: %v", err)
	}
	if err := c.Join(ctx, "room", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.WatchPresence(ctx, "room", router.WatchOptions{}, router.WatchOptions{}); err == nil || !strings.Contains(err.Error(), "WatchOptions") {
		t.Errorf("with two options: %v", err)
	}
	if err := c.WatchPresence(ctx, "room"); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("a presence that fails: %v", err)
	}
	for range 100 { // each tries anew
		before := presence.watches.Load()
		if err := c.WatchPresence(ctx, "room"); errors.CodeOf(err) != errors.Unavailable || presence.watches.Load() == before {
			t.Fatalf("a presence that fails: %v, %d calls", err, presence.watches.Load()-before)
		}
	}
	presence.panics = true
	if err := c.WatchPresence(ctx, "room"); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("a presence that panics: %v", err)
	}
	presence.err, presence.panics, presence.stall = nil, false, make(chan struct{})
	before := presence.watches.Load()
	short, cancel := context.WithCancel(ctx)
	failed := make(chan error)
	go func() { failed <- c.WatchPresence(short, "room") }()
	eventually(t, "it waits", func() bool { return presence.watches.Load() > before })
	cancel()
	if err := <-failed; errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("a context that is over: %v", err)
	}
	// The connection leaves while it waits.
	before = presence.watches.Load()
	go func() { failed <- c.WatchPresence(ctx, "room") }()
	eventually(t, "it waits", func() bool { return presence.watches.Load() > before })
	c.Unsubscribe("room")
	close(presence.stall)
	if err := <-failed; !errors.Is(err, router.ErrClosed) {
		t.Errorf("leaving meanwhile: %v", err)
	}
	eventually(t, "the topic is not watched any more", func() bool { return presence.open.Load() == 0 })
	p.bye()
	s.recovered()
}

func TestWatchingAPresenceThatReportsNothing(t *testing.T) {
	t.Parallel()
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Presence: deafPresence{memory.NewPresence()}},
		OnOpen:  func(c *router.Conn) error { conns <- c; return nil },
	}, nil)
	p := s.dial()
	c := <-conns
	if err := c.Join(context.Background(), "room", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.WatchPresence(context.Background(), "room"); err == nil || !strings.Contains(err.Error(), "PresenceWatcher") {
		t.Errorf("WatchPresence: %v", err)
	}
	p.bye()
}

// A client that reads nothing is closed like any slow one, and holds up no other.
func TestWatchingWithoutReading(t *testing.T) {
	t.Parallel()
	takesTime(t)
	presence := memory.NewPresence()
	s := openRoom(t, presence)
	ann, deaf := s.client("ann"), s.client("deaf")
	ann.write(event("join", `{"text":""}`))
	deaf.write(event("join", `{"text":""}`))
	ann.becomes("ann= deaf=")
	big, _ := json.Marshal(said{strings.Repeat("x", 3900)})
	n := 0
	poll.Until(t, "the client that reads nothing is closed", func() bool {
		for i := range 100 {
			data := append([]byte(nil), big...)
			data[20] = byte('a' + n%20)
			if err := presence.Join(context.Background(), "room", pubsub.Member{ID: fmt.Sprint("m", i), User: "m", Data: data}); err != nil {
				t.Fatal(err)
			}
		}
		ann.presence()
		n++
		return s.r.Stats().SlowConsumers > 0
	})
	for i := range 100 {
		presence.Leave("room", fmt.Sprint("m", i))
	}
	ann.becomes("ann=")
}

// The members of a room come as a list, and then the joins and leaves.
func ExampleContext_WatchPresence() {
	r := router.New(router.Options{
		Backend: adapters.Backend{Presence: memory.NewPresence()},
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
	})
	router.On(r, "room.join", func(c *router.Context, _ struct{}) error {
		if err := c.Join("room", nil); err != nil {
			return err
		}
		return c.WatchPresence("room", router.WatchOptions{ByUser: true})
	})

	ann := connect(r, "ann")
	ann.send(`{"type":"room.join"}`)
	ann.receive(1)
	bob := connect(r, "bob")
	bob.send(`{"type":"room.join"}`)
	ann.receive(1)
	bob.close()
	ann.receive(1)
	ann.close()
	// Output:
	// {"type":"$ws:presence","payload":{"topic":"room","count":1,"members":[{"user":"ann"}]}}
	// {"type":"$ws:presence","payload":{"topic":"room","count":2,"joined":[{"user":"bob"}]}}
	// {"type":"$ws:presence","payload":{"topic":"room","count":1,"left":[{"user":"bob"}]}}
}
