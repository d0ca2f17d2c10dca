package router_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

var ticketKey = bytes.Repeat([]byte{7}, 32)

// byName identifies clients by the header fields Tenant and User.
func byName(r *http.Request) (ingress.Identity, error) {
	return ingress.Identity{Tenant: r.Header.Get("Tenant"), User: r.Header.Get("User")}, nil
}

// A client that comes back gets what it has missed, and then what comes, on this process or another.
func TestResume(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	opts := router.Options{Resume: router.ResumeOptions{Keys: [][]byte{ticketKey}}}
	here, there := withHistory(t, l, opts, router.HistoryOptions{}), withHistory(t, l, opts, router.HistoryOptions{})
	stays := there.reader(l, "room:a")
	p := here.reader(l, "room:a")
	total := 0
	for round, missed := range []int{0, 1, 5, 127, 128, 129, 300, 0} {
		s := here
		if round%2 == 0 {
			s = there
		}
		p.hangUp()
		here.appends(total, missed)
		if others := p.resume(s); len(others) > 0 || fmt.Sprint(p.resumed) != fmt.Sprintf("[room:a resumed after %d]", missed) {
			t.Fatalf("after %d missed messages: %v, %v", missed, others, p.resumed)
		}
		if p.resumed[0].Pos != p.at.String() {
			t.Errorf("the answer says %s, the client is at %s", p.resumed[0].Pos, p.at)
		}
		s.appends(total+missed, 2)
		p.until(l.head("room:a"))
		if total += missed + 2; len(p.texts) != total || p.texts[total-1] != fmt.Sprint(total-1) {
			t.Fatalf("the client has %d messages of %d", len(p.texts), total)
		}
	}
	stays.until(l.head("room:a"))
	stays.hangUp()
	p.hangUp()
	here.recovered()
	there.recovered()
}

// The same with the logs of memory.Broker.
func TestResumeInMemory(t *testing.T) {
	t.Parallel()
	broker := memory.NewBroker()
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: broker}}, func(r *router.Router) {
		subscribing(r)
		r.History("room:*", router.HistoryOptions{Messages: 200})
	})
	p := &reader{peer: s.dial(), log: newFaultyLog(), topic: "room:a"}
	p.write(join1("room:a"))
	p.step()
	p.step()
	p.hangUp()
	s.appends(0, 150)
	p.peer = s.dial()
	p.write(resumption(held{p.ticket, p.at.String()}))
	for i := range 150 {
		p.expect(fmt.Sprintf(`heard {"text":"%d"}`, i))
	}
	if p.step(); fmt.Sprint(p.resumed) != "[room:a resumed after 150]" {
		t.Errorf("the client gets %v", p.resumed)
	}
	s.appends(150, 1)
	p.expect(`heard {"text":"150"}`)
	p.hangUp()
	s.recovered()
}

// A ticket is for its topic and its identity, for a time.
func TestTicketsThatAreDenied(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	var refuse error
	opts := router.Options{Authenticate: byName, Resume: router.ResumeOptions{Keys: [][]byte{ticketKey}, Allow: func(_ context.Context, _ *router.Conn, topic string) error { return refuse }}}
	s := withHistory(t, l, opts, router.HistoryOptions{})
	join := func(topic string, lines ...string) *reader {
		p := &reader{peer: s.dial(lines...), log: l, topic: topic}
		p.write(join1(topic))
		for p.step() != "join.reply" {
		}
		p.hangUp()
		eventually(t, "the connection to end", func() bool { return s.r.LocalSubscribers(topic) == 0 })
		return p
	}
	ann := []string{"Tenant: x", "User: ann"}
	for _, c := range []struct {
		name  string
		lines []string
		spoil func(string) string
		err   error
	}{
		{"another user", []string{"Tenant: x", "User: bob"}, nil, nil},
		{"another tenant", []string{"Tenant: y", "User: ann"}, nil, nil},
		{"no user", nil, nil, nil},
		{"the border between tenant and user", []string{"Tenant: xa", "User: nn"}, nil, nil},
		{"one character changed", ann, func(s string) string {
			i := rand.IntN(len(s))
			c := byte('A')
			if s[i] == c {
				c = 'B'
			}
			return s[:i] + string(c) + s[i+1:]
		}, nil},
		{"cut off", ann, func(s string) string { return s[:rand.IntN(len(s))] }, nil},
		{"longer", ann, func(s string) string { return s + "AAAA" }, nil},
		{"the hook refuses", ann, nil, errors.PermissionDenied.New("no longer a member")},
		{"the hook knows no such user", ann, nil, errors.NotFound.New("no such user")},
		{"the hook has a code of its own", ann, nil, errors.Code("LEFT").New("has left the room")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := join("room:a", ann...)
			if c.spoil != nil {
				p.ticket = c.spoil(p.ticket)
			}
			refuse = c.err
			p.resume(s, c.lines...)
			refuse = nil
			if o := p.resumed[0]; o.Resumed || o.Reason != "denied" || o.Pos != "" || o.Ticket != "" || c.err == nil && o.Topic != "" {
				t.Errorf("the answer is %+v", o)
			}
			p.write(echo("1", "still there"))
			p.step()
			if n := s.r.LocalSubscribers("room:a"); n != 0 {
				t.Errorf("the topic has %d members", n)
			}
			p.hangUp()
		})
	}
	other := withHistory(t, l, router.Options{Authenticate: byName}, router.HistoryOptions{}) // with another key
	p := join("room:a", ann...)
	p.resume(other, ann...)
	if p.resumed[0].Reason != "denied" {
		t.Errorf("a ticket of another key is answered %v", p.resumed)
	}
	p.hangUp()
	rotated := withHistory(t, l, router.Options{Authenticate: byName, Resume: router.ResumeOptions{Keys: [][]byte{bytes.Repeat([]byte{8}, 40), ticketKey}}}, router.HistoryOptions{})
	old := p.ticket
	p.resume(rotated, ann...)
	if !p.resumed[0].Resumed || p.ticket == old {
		t.Errorf("a ticket of the second key is answered %v", p.resumed)
	}
	if p.resume(s, ann...); p.resumed[0].Resumed {
		t.Error("the new ticket is signed with the second key")
	}
	p.hangUp()
	s.recovered()
}

// While it cannot be found out whether a client may resume a topic, it may ask again, and then misses nothing.
func TestRightsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(ctx context.Context) error{
		"unavailable": func(context.Context) error { return errors.Unavailable.New("the database is away") },
		"limited": func(context.Context) error {
			return errors.ResourceExhausted.New("too many").WithRetryAfter(time.Second)
		},
		"the time of a query":  func(context.Context) error { return fmt.Errorf("query: %w", context.DeadlineExceeded) },
		"a cancelled query":    func(context.Context) error { return context.Canceled },
		"an error of a driver": func(context.Context) error { return errors.New("bad connection") },
		"a panic":              func(context.Context) error { panic("nil pool") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newFaultyLog()
			var away atomic.Bool
			s := withHistory(t, l, router.Options{Logger: slog.New(slog.DiscardHandler), Resume: router.ResumeOptions{
				Allow: func(ctx context.Context, _ *router.Conn, _ string) error {
					if away.Load() {
						return fails(ctx)
					}
					return ctx.Err()
				},
			}}, router.HistoryOptions{})
			p := s.reader(l, "room:a")
			p.hangUp()
			s.appends(0, 3)
			away.Store(true)
			p.resume(s)
			if o := p.resumed[0]; o.Resumed || o.Reason != "unavailable" || o.Pos != "" || o.Ticket != "" {
				t.Errorf("the answer is %+v", o)
			}
			eventually(t, "only the connection before was subscribed", func() bool { return s.r.LocalSubscribers("room:a") == 0 })
			away.Store(false)
			p.hangUp()
			p.resume(s)
			if o := p.resumed[0]; !o.Resumed || o.Replayed != 3 {
				t.Errorf("when it is known: %+v", o)
			}
			p.hangUp()
			s.recovered()
		})
	}
}

// What cannot be resumed has a reason, and the topic goes on from the position in the answer.
func TestResumesThatReset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		o      router.HistoryOptions
		fault  func(*socketServer, *faultyLog)
	}{
		{"epoch", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { l.wipe("room:a") }},
		{"rewound", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { l.rewind("room:a", 2) }},
		{"rewound", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { l.rewind("room:a", 2); s.appends(50, 5) }},
		{"rewound", router.HistoryOptions{Replay: 3}, func(s *socketServer, l *faultyLog) { l.rewind("room:a", 2); s.appends(50, 9) }},
		{"trimmed", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { s.appends(50, 5); l.trim("room:a", 3) }},
		{"tooFar", router.HistoryOptions{Replay: 3}, func(s *socketServer, l *faultyLog) { s.appends(50, 5) }},
	} {
		for _, followed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, followed %v", c.reason, followed), func(t *testing.T) {
				l := newFaultyLog()
				s := withHistory(t, l, router.Options{HistoryCheck: fastCheck}, c.o)
				p := s.reader(l, "room:a")
				s.appends(0, 3)
				p.until(l.head("room:a"))
				var stays *reader
				members := 0
				if followed {
					stays, members = s.reader(l, "room:a"), 1
				}
				p.hangUp()
				eventually(t, "the connection to end", func() bool { return s.r.LocalSubscribers("room:a") == members })
				c.fault(s, l)
				others := p.resume(s)
				if p.resumed[0].Resumed { // the fault has not been found yet
					p.resumed[0] = topicOutcome{Topic: "room:a", Reason: c.reason}
					others = append(others, p.step())
				}
				if fmt.Sprint(others) != "[$ws:reset "+c.reason+"]" || fmt.Sprint(p.resumed) != "[room:a "+c.reason+"]" {
					t.Fatalf("the client gets %v, %v", others, p.resumed)
				}
				s.appends(100, 2)
				for p.at != l.head("room:a") { // the members may be reset as well
					if got := p.step(); got != "message" && !strings.HasPrefix(got, "$ws:reset") {
						t.Errorf("the client gets %s", got)
					}
				}
				if stays != nil {
					stays.hangUp()
				}
				p.resume(s)
				if !p.resumed[0].Resumed {
					t.Errorf("a second resume is answered %v", p.resumed)
				}
				p.hangUp()
				s.recovered()
			})
		}
	}
}

// What clients may send in place of a $ws:resume.
func TestResumesThatAreRefused(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{Limits: router.Limits{MaxTopics: 2}}, router.HistoryOptions{})
	p := s.reader(l, "room:a")
	good := held{p.ticket, p.at.String()}
	for _, payload := range []string{
		``, `,"payload":{}`, `,"payload":{"topics":[]}`, `,"payload":{"topics":[{}]}`, `,"payload":{"topics":[{"ticket":"x","pos":"y"}]}`, `,"payload":{"topics":"x"}`,
	} {
		p.write(textFrame(`{"type":"$ws:resume","meta":{"correlationId":"1"}` + payload + `}`))
		p.expect("RPC_ERROR 1 INVALID_ARGUMENT")
	}
	p.write(resumption(good, good, good))
	p.expect("RPC_ERROR r INVALID_ARGUMENT")
	p.write(textFrame(`{"type":"$ws:resume","payload":{"topics":[]}}`))
	p.expect("ERROR INVALID_ARGUMENT")
	// It is a member already: it goes back, once.
	p.write(resumption(good))
	p.step() // $ws:subscribed
	p.step()
	if o := p.resumed[0]; !o.Resumed || o.Pos == "" {
		t.Errorf("the answer is %+v", o)
	}
	p.resumed = nil
	p.write(resumption(good))
	p.step()
	if o := p.resumed[0]; o.Resumed || o.Reason != "subscribed" || o.Pos != "" {
		t.Errorf("the answer is %+v", o)
	}
	p.hangUp()
	// Two more topics fill the connection.
	p.peer = s.dial()
	p.write(join1("x"), join1("y"))
	p.expect("reply j x", "reply j y")
	p.write(resumption(good))
	p.step()
	if o := p.resumed[0]; o.Reason != "denied" {
		t.Errorf("the answer is %+v", o)
	}
	p.hangUp()
	s.recovered()

	none := serveSocket(t, router.Options{}, nil)
	q := none.dial()
	q.write(resumption(good))
	q.expect("RPC_ERROR r UNIMPLEMENTED")
	q.bye()
}

// A client that reads slowly is not closed for what it has missed, however much that is.
func TestReplayToASlowClient(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	const queue = 32 << 10
	s := withHistory(t, l, router.Options{Limits: router.Limits{MaxQueued: queue}}, router.HistoryOptions{Bytes: 64 << 20, Messages: 10_000})
	p := s.reader(l, "room:a")
	p.hangUp()
	eventually(t, "the connection to end", func() bool { return s.r.LocalSubscribers("room:a") == 0 })
	const missed = 300
	for i := range missed {
		text := fmt.Sprint(i) + strings.Repeat(" ", rand.IntN(4000))
		if i%100 == 0 {
			text = fmt.Sprint(i) + strings.Repeat(" ", queue-1000) // as large as may be
		}
		if err := s.r.Publish(context.Background(), "room:a", "heard", said{text}); err != nil {
			t.Fatal(err)
		}
	}
	other := s.reader(l, "room:a")
	p.peer = s.dial()
	p.write(resumption(held{p.ticket, p.at.String()}))
	eventually(t, "the client to be too slow", func() bool { return s.r.Stats().Backlogged > 0 })
	s.appends(missed, 10)
	other.until(l.head("room:a")) // it is not delayed
	p.until(l.head("room:a"))
	if n := len(p.texts); n != missed+10 {
		t.Errorf("the client got %d messages", n)
	}
	if n := s.r.Stats().SlowConsumers; n > 0 {
		t.Errorf("%d clients are closed as slow", n)
	}
	p.hangUp()
	other.hangUp()
	s.recovered()
}

// Many clients that return at once share what is read of the log, wherever they are in it. How often each page is read is
// tested in package logcache, whose pages go two seconds after the last client.
func TestResumesShareWhatIsRead(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{HistoryCheck: time.Hour, Liveness: router.Liveness{PingInterval: -1}}, router.HistoryOptions{Messages: 5000})
	stays := s.reader(l, "room:a")
	positions := []pubsub.Position{stays.at}
	const messages, clients = 1000, 150
	for i := range messages {
		s.appends(i, 1)
		positions = append(positions, l.head("room:a"))
	}
	stays.until(l.head("room:a"))
	before := l.reads.Load()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			p := &reader{peer: s.dial(), log: l, topic: "room:a", ticket: stays.ticket}
			from := rand.IntN(len(positions))
			p.at = positions[from]
			p.write(resumption(held{p.ticket, p.at.String()}))
			p.until(l.head("room:a"))
			for p.resumed == nil {
				p.step()
			}
			if fmt.Sprint(p.resumed) != fmt.Sprintf("[room:a resumed after %d]", messages-from) {
				t.Errorf("a client gets %v", p.resumed)
			}
			p.hangUp()
		})
	}
	all.Wait()
	if reads := l.reads.Load() - before; reads > clients/3 {
		t.Errorf("%d clients have made %d reads", clients, reads)
	}
	stays.hangUp()
	s.recovered()
}

// A topic in which messages are published without a pause can be resumed, though each read of the log is
// late.
func TestResumeOnABusyTopic(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	l.delay = 5 * time.Millisecond
	s := withHistory(t, l, router.Options{}, router.HistoryOptions{Messages: 1_000_000})
	p := s.reader(l, "room:a")
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				spend(100 * time.Microsecond)
				_ = s.r.Publish(context.Background(), "room:a", "heard", say(i))
			}
		}
	})
	for range 5 {
		p.step()
		if p.resume(s); !p.resumed[0].Resumed {
			t.Errorf("the answer is %v", p.resumed)
		}
	}
	close(stop)
	publishing.Wait()
	p.hangUp()
	s.recovered()
}

// A client whose last message the log has lost is not sent what other clients that resume share.
func TestLostPositionsOnSharedPages(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{HistoryCheck: time.Hour}, router.HistoryOptions{})
	p := s.reader(l, "room:a")
	early := *p
	s.appends(0, 5)
	p.until(l.head("room:a"))
	p.hangUp()
	s.settled()
	l.rewind("room:a", 3)
	s.appends(5, 6)
	if early.resume(s); !early.resumed[0].Resumed || early.resumed[0].Replayed != 8 {
		t.Errorf("a client at the beginning: %v", early.resumed)
	}
	if p.resume(s); p.resumed[0].Reason != "rewound" {
		t.Errorf("a client whose message was lost: %v", p.resumed)
	}
	p.hangUp()
	early.hangUp()
	s.recovered()
}

// Whatever happens to the log, to what is delivered and to the connections, each client gets
// what follows its position, or a reset.
func TestResumingThroughFaults(t *testing.T) {
	t.Parallel()
	takesTime(t)
	l := newFaultyLog()
	opts := router.Options{HistoryCheck: fastCheck, Resume: router.ResumeOptions{Keys: [][]byte{ticketKey}}}
	servers := []*socketServer{withHistory(t, l, opts, router.HistoryOptions{Messages: 400}), withHistory(t, l, opts, router.HistoryOptions{Messages: 400})}
	var readers []*reader
	for range 6 { // before anything fails, as subscribing may then fail, too
		readers = append(readers, servers[0].reader(l, "room:a"))
	}
	stop := make(chan struct{})
	var background sync.WaitGroup
	pause := func(most time.Duration) bool { return spendUntil(stop, rand.N(most)) }
	background.Go(func() {
		for i := 0; pause(400 * time.Microsecond); i++ {
			_ = servers[i%2].r.Publish(context.Background(), "room:a", "heard", say(i))
		}
	})
	background.Go(func() {
		for pause(30 * time.Millisecond) {
			switch rand.IntN(8) {
			case 0, 1:
				l.lose(1 + rand.IntN(10))
			case 2:
				l.inject(pubsub.Message{Topic: "room:a", Lost: true})
			case 3:
				if l.head("room:a").Offset > 10 {
					l.rewind("room:a", 1+rand.IntN(3))
				}
			case 4:
				if rand.IntN(4) == 0 {
					l.wipe("room:a")
				}
			case 5:
				l.failing(errors.New("no connection"))
				pause(5 * time.Millisecond)
				l.failing(nil)
			case 6:
				if l.head("room:a").Offset > 10 {
					l.trim("room:a", 5)
				}
			}
		}
	})
	var clients sync.WaitGroup
	var mu sync.Mutex
	outcomes := make(map[string]int)
	for _, p := range readers {
		clients.Go(func() {
			for round := range 25 {
				for range rand.IntN(40) {
					p.step()
				}
				others := p.resume(servers[round%2])
				mu.Lock()
				if len(others) > 0 && others[0] == "RPC_ERROR" {
					t.Errorf("a resume is refused")
				}
				outcomes[p.resumed[0].String()[:10]]++
				mu.Unlock()
				for p.resumed[0].Reason == "unavailable" {
					p.resume(servers[round%2])
				}
			}
			p.hangUp()
		})
	}
	clients.Wait()
	close(stop)
	background.Wait()
	t.Log(outcomes)
	for _, s := range servers {
		s.recovered()
	}
}

// The tickets of a connection that lasts are replaced before they are too old.
func TestTicketsAreRenewed(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	inMemory(t, router.Options{Backend: adapters.Backend{Broker: l}, Resume: router.ResumeOptions{MaxAge: time.Hour}}, func(r *router.Router) {
		r.History("room:*")
		subscribing(r)
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		type subscribed struct {
			Topic  string `json:"topic"`
			Pos    string `json:"pos"`
			Ticket string `json:"ticket"`
		}
		c.Request("join", said{"room:a"})
		first := routertest.ExpectEvent[subscribed](c, "$ws:subscribed")
		if err := r.Publish(t.Context(), "room:a", "heard", said{"x"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Hour)
		var last subscribed
		for range 19 {
			last = routertest.ExpectEvent[subscribed](c, "$ws:subscribed")
		}
		if last.Topic != "room:a" || last.Ticket == first.Ticket || last.Pos != l.head("room:a").String() {
			t.Errorf("after 5 hours the client has %+v", last)
		}
		c.Send("$ws:resume", nil)
		c.ExpectError("INVALID_ARGUMENT")
		resume := func(ticket string) string {
			type topics struct {
				Topics []struct {
					Ticket string `json:"ticket"`
					Pos    string `json:"pos"`
				} `json:"topics"`
			}
			var q topics
			q.Topics = append(q.Topics, struct {
				Ticket string `json:"ticket"`
				Pos    string `json:"pos"`
			}{ticket, first.Pos})
			answer := routertest.ExpectReply[struct {
				Topics []struct {
					Reason string `json:"reason"`
				} `json:"topics"`
			}](c.Request("$ws:resume", q))
			return answer.Topics[0].Reason
		}
		if got := resume(first.Ticket); got != "denied" {
			t.Errorf("the first ticket: %q", got)
		}
		for _, want := range []string{"", "subscribed"} {
			if got := resume(last.Ticket); got != want {
				t.Errorf("the latest ticket: %q, want %q", got, want)
			}
		}
	})
}

// A client that had joined a topic is seen again after it has resumed, as what it was known by last.
func TestPresenceIsRestored(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: l, Presence: memory.NewPresence()}}, func(r *router.Router) {
		r.History("room:*")
		router.RPC(r, "join", func(c *router.Context, m said) (said, error) { return m, c.Join("room:a", m) })
		router.RPC(r, "enter", func(c *router.Context, m said) (said, error) { return m, c.Join("room:a", nil) })
		router.RPC(r, "follow", func(c *router.Context, m said) (said, error) { return m, c.Subscribe("room:a") })
	})
	seen := func() string {
		members, err := s.r.Presence(t.Context(), "room:a")
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range members {
			all = append(all, string(m.Data))
		}
		return fmt.Sprint(len(members), all)
	}
	for _, c := range []struct {
		calls []string
		want  string
	}{
		{[]string{"follow"}, "0 []"},
		{[]string{"enter"}, "1 []"},
		{[]string{"join"}, `1 [{"text":"Ann 0"}]`},
		{[]string{"follow", "join", "join"}, `1 [{"text":"Ann 2"}]`},
	} {
		p := &reader{peer: s.dial(), log: l, topic: "room:a"}
		for i, call := range c.calls {
			p.write(textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"},"payload":{"text":"Ann %d"}}`, call, i)))
			for p.step() != call+".reply" {
			}
		}
		if got := seen(); got != c.want {
			t.Errorf("%v: before: %s", c.calls, got)
		}
		for range 2 { // the new ticket is as good
			p.hangUp()
			eventually(t, "the client to be gone", func() bool { return seen() == "0 []" })
			s.appends(0, 1)
			p.resume(s)
			if o := p.resumed[0]; !o.Resumed || o.Joined != (c.want != "0 []") {
				t.Errorf("%v: the answer is %+v", c.calls, o)
			}
			if got := seen(); got != c.want {
				t.Errorf("%v: after: %s", c.calls, got)
			}
		}
		p.hangUp()
		s.recovered()
	}
}

// A client that OnOpen has joined goes back to where it was, and is seen as OnOpen says now, not as its ticket says.
func TestResumeOfATopicThatOnOpenJoins(t *testing.T) {
	t.Parallel()
	var shown atomic.Value
	shown.Store("Ann")
	r := router.New(router.Options{OnOpen: func(c *router.Conn) error { return c.Join(c.Context(), "room:a", shown.Load()) }})
	r.History("room:*")
	s := routertest.New(t, r)
	type subscribed struct {
		Pos     string `json:"pos"`
		Ticket  string `json:"ticket"`
		Resumed bool   `json:"resumed"`
	}
	first := s.Dial()
	routertest.ExpectEvent[subscribed](first, "$ws:subscribed")
	last := routertest.ExpectEvent[subscribed](first, "$ws:subscribed") // of Join
	first.Close()
	eventually(t, "the client to be gone", func() bool {
		all, err := r.Presence(t.Context(), "room:a")
		return err == nil && len(all) == 0
	})
	shown.Store("Anna")
	for n := range 3 {
		if err := r.Publish(t.Context(), "room:a", "said", n); err != nil {
			t.Fatal(err)
		}
	}
	second := s.Dial()
	var topics struct {
		Topics []subscribed `json:"topics"`
	}
	topics.Topics = append(topics.Topics, last)
	answer := routertest.ExpectReply[struct {
		Topics []struct {
			Resumed  bool `json:"resumed"`
			Joined   bool `json:"joined"`
			Replayed int  `json:"replayed"`
		} `json:"topics"`
	}](second.Request("$ws:resume", topics))
	if a := answer.Topics[0]; !a.Resumed || !a.Joined || a.Replayed != 3 {
		t.Errorf("the answer is %+v", a)
	}
	for n := range 3 {
		if got := routertest.ExpectEvent[int](second, "said"); got != n {
			t.Errorf("event %d is %d", n, got)
		}
	}
	all, err := r.Presence(t.Context(), "room:a")
	if err != nil || len(all) != 1 || string(all[0].Data) != `"Anna"` {
		t.Errorf("present are %+v, %v", all, err)
	}
}
