package router_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// withHistory serves a router whose topics "room:…" have a history.
func withHistory(t *testing.T, l *faultyLog, opts router.Options, o router.HistoryOptions) *socketServer {
	t.Helper()
	opts.Backend.Broker = l
	return serveSocket(t, opts, func(r *router.Router) {
		subscribing(r)
		r.History("room:*", o)
		router.RPC(r, "leave", func(c *router.Context, m said) (said, error) { c.Unsubscribe(m.Text); return m, nil })
		router.RPC(r, "say", func(c *router.Context, m said) (struct{}, error) {
			return struct{}{}, c.Publish("room:a", "heard", m)
		})
	})
}

// appends publishes messages, numbered from first.
func (s *socketServer) appends(first, n int) {
	s.t.Helper()
	for i := range n {
		if err := s.r.Publish(context.Background(), "room:a", "heard", say(first+i)); err != nil {
			s.t.Fatal(err)
		}
	}
}

const fastCheck = 20 * time.Millisecond

// A subscriber gets its position and each message with its own, in the order of the log.
func TestMessagesHavePositions(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{}, router.HistoryOptions{})
	s.appends(0, 3)
	p := s.reader(l, "room:a")
	if p.at != l.head("room:a") || p.ticket == "" {
		t.Errorf("the subscriber begins at %+v, with the ticket %q", p.at, p.ticket)
	}
	s.appends(3, 5)
	p.until(l.head("room:a"))
	if fmt.Sprint(p.texts) != "[3 4 5 6 7]" {
		t.Errorf("the subscriber got %v", p.texts)
	}
	// The one that publishes gets it as well.
	p.write(textFrame(`{"type":"say","meta":{"correlationId":"1"},"payload":{"text":"8"}}`))
	for got := map[string]bool{}; len(got) < 2; {
		got[p.step()] = true
	}
	if p.at != l.head("room:a") {
		t.Errorf("the publisher is at %+v", p.at)
	}
	// Subscribing again sends nothing.
	p.write(join1("room:a"))
	if got := p.step(); got != "join.reply" {
		t.Errorf("subscribing again is answered %s", got)
	}
	p.hangUp()
	s.recovered()
}

// A topic without history is as before, on a broker that could.
func TestTopicsWithoutHistory(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{}, router.HistoryOptions{})
	p := s.dial()
	p.write(join1("hall"))
	p.expect("reply j hall")
	if err := s.r.Publish(context.Background(), "hall", "heard", say(1)); err != nil {
		t.Fatal(err)
	}
	p.expect(`heard {"text":"1"}`)
	if l.reads.Load()+l.heads.Load() > 0 {
		t.Error("the log of a topic without history is read")
	}
	for _, o := range []router.PublishOptions{{ID: "x"}} {
		if err := s.r.Publish(context.Background(), "hall", "heard", nil, o); err == nil {
			t.Errorf("%+v is accepted without a history", o)
		}
	}
	for _, o := range []router.PublishOptions{{Overflow: router.OverflowDropOldest}, {ID: strings.Repeat("x", 129)}} {
		if err := s.r.Publish(context.Background(), "room:a", "heard", nil, o); err == nil {
			t.Errorf("%+v is accepted with a history", o)
		}
	}
	p.bye()
	s.recovered()
}

// Messages that are lost on the way are read from the log.
func TestLostMessagesAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		check time.Duration
		fault func(*socketServer, *faultyLog)
	}{
		{"in the middle", time.Hour, func(s *socketServer, l *faultyLog) { l.lose(300); s.appends(1, 301) }},
		{"at the end", fastCheck, func(s *socketServer, l *faultyLog) { l.lose(3); s.appends(1, 3) }},
		{"with a report", time.Hour, func(s *socketServer, l *faultyLog) {
			l.lose(3)
			s.appends(1, 3)
			l.inject(pubsub.Message{Topic: "room:a", Lost: true})
		}},
		{"while the log cannot be read", time.Hour, func(s *socketServer, l *faultyLog) {
			l.failing(errors.New("no connection"))
			l.lose(3)
			s.appends(1, 10)
			eventually(s.t, "reads to fail", func() bool { return l.reads.Load() > 3 })
			s.appends(11, 1000) // more than are held
			l.failing(nil)
		}},
		{"while the heads cannot be read", fastCheck, func(s *socketServer, l *faultyLog) {
			l.failing(errors.New("no connection"))
			l.lose(3)
			s.appends(1, 3)
			eventually(s.t, "looks to fail", func() bool { return l.heads.Load() > 2 })
			l.failing(nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newFaultyLog()
			s := withHistory(t, l, router.Options{HistoryCheck: c.check}, router.HistoryOptions{Messages: 2000})
			a, b := s.reader(l, "room:a"), s.reader(l, "room:a")
			s.appends(0, 1)
			c.fault(s, l)
			for _, p := range []*reader{a, b} {
				if others := p.until(l.head("room:a")); len(others) > 0 {
					t.Errorf("a client got %v", others)
				}
				p.hangUp()
			}
			s.recovered()
		})
	}
}

// What the log has lost is reported with its reason, and the topic goes on.
func TestResets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		o      router.HistoryOptions
		fault  func(*socketServer, *faultyLog)
	}{
		{"epoch", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { l.wipe("room:a") }},
		{"rewound", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { l.rewind("room:a", 2) }},
		{"rewound", router.HistoryOptions{}, func(s *socketServer, l *faultyLog) { l.rewind("room:a", 1); s.appends(0, 1) }},
		{"trimmed", router.HistoryOptions{Messages: 3}, func(s *socketServer, l *faultyLog) { l.unread(func() { l.lose(5); s.appends(0, 5) }) }},
		{"tooFar", router.HistoryOptions{Replay: 3}, func(s *socketServer, l *faultyLog) { l.unread(func() { l.lose(5); s.appends(0, 5) }) }},
	} {
		t.Run(c.reason, func(t *testing.T) {
			l := newFaultyLog()
			s := withHistory(t, l, router.Options{HistoryCheck: fastCheck}, c.o)
			p := s.reader(l, "room:a")
			s.appends(0, 3)
			p.until(l.head("room:a"))
			c.fault(s, l)
			if got := p.step(); got != "$ws:reset "+c.reason {
				t.Errorf("the client gets %s", got)
			}
			s.appends(100, 2)
			if others := p.until(l.head("room:a")); len(others) > 0 {
				t.Errorf("the client got %v", others)
			}
			if got := p.texts[len(p.texts)-1]; got != "101" {
				t.Errorf("the last message is %s", got)
			}
			p.hangUp()
			s.recovered()
		})
	}
}

// Whatever else writes to the broker, the server goes on, and clients get messages of routers only.
func TestForeignMessagesOfALog(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{HistoryCheck: fastCheck}, router.HistoryOptions{})
	p := s.reader(l, "room:a")
	s.appends(0, 1)
	p.until(l.head("room:a"))
	bad := []string{
		"", "x", `{}`, `{"type":"heard"}`, `{"meta":{"topic":"room:b"},"type":"heard"}`, `{"meta":{"topic":"room:a"`,
		`{"meta":{"topic":"room:a","pos":"x"},"type":"heard"}`, `{"meta":{"topic":"room:a"},"type":"$ws:reset"}`,
		`{"meta":{"topic":"room:a"},"type":"heard","type":"heard"}`, `{"meta":{"topic":"room:a","correlationId":"1"},"type":"heard"}`,
		`{"meta":{"topic":"room:a"}x`, "{\"meta\":{\"topic\":\"room:a\"},\"type\":\"\xff\"}",
	}
	for _, frame := range bad {
		if _, err := l.Append(context.Background(), pubsub.Message{Topic: "room:a", Frame: []byte(frame)}, pubsub.History{Messages: 100, Bytes: 1 << 20, Age: time.Hour}, ""); err != nil {
			t.Fatal(err)
		}
	}
	// One that a look at the log has found first is counted when the read has ended.
	eventually(t, "all foreign messages to be counted", func() bool { return s.r.Stats().Foreign == int64(len(bad)) })
	p.at = l.head("room:a") // none is delivered
	// Positions that cannot be, or are those of no message.
	head := l.head("room:a")
	for range 200 {
		m := pubsub.Message{Topic: "room:a", Frame: []byte(`{"meta":{"topic":"room:a"},"type":"heard","payload":{"text":"foreign"}}`), Previous: rand.Uint32() | 1<<20}
		m.Position = pubsub.Position{Epoch: head.Epoch + uint64(rand.IntN(2)), Offset: head.Offset + uint64(rand.IntN(5)) - 2, Tag: rand.Uint32() >> rand.IntN(33)}
		l.inject(m)
	}
	s.appends(1, 5)
	if others := p.until(l.head("room:a")); len(others) > 0 {
		t.Errorf("the client got %v", others)
	}
	if !slices.Equal(p.texts, []string{"0", "1", "2", "3", "4", "5"}) {
		t.Errorf("the client got %v", p.texts)
	}
	// One that was published, not appended, is delivered as it is.
	l.inject(pubsub.Message{Topic: "room:a", Frame: []byte(`{"type":"note"}`)})
	p.expect("note ")
	p.hangUp()
	s.recovered()
}

// Publishing with an ID can be repeated.
func TestPublishWithID(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{}, router.HistoryOptions{})
	p := s.reader(l, "room:a")
	for range 3 {
		if err := s.r.Publish(context.Background(), "room:a", "heard", say(1), router.PublishOptions{ID: "one"}); err != nil {
			t.Fatal(err)
		}
	}
	s.appends(2, 1)
	p.until(l.head("room:a"))
	if fmt.Sprint(p.texts) != "[1 2]" {
		t.Errorf("the client got %v", p.texts)
	}
	p.hangUp()
	s.recovered()
}

// Clients that join and leave while messages are published and lost get each message after the
// position that they got.
func TestSubscribingWhileMessagesAreLost(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{HistoryCheck: fastCheck}, router.HistoryOptions{Messages: 100_000})
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	for range 2 {
		publishing.Go(func() {
			for i := 0; ; i++ {
				if !spendUntil(stop, time.Duration(rand.IntN(300))*time.Microsecond) {
					return
				}
				switch rand.IntN(20) {
				case 0:
					l.lose(1 + rand.IntN(5))
				case 1:
					l.inject(pubsub.Message{Topic: "room:a", Lost: true})
				}
				_ = s.r.Publish(context.Background(), "room:a", "heard", say(i))
			}
		})
	}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 5 {
				p := s.reader(l, "room:a")
				for range 50 {
					if got := p.step(); got != "message" {
						t.Errorf("a client got %s", got)
					}
				}
				p.hangUp()
			}
		})
	}
	clients.Wait()
	close(stop)
	publishing.Wait()
	s.recovered()
}

func TestHistoryMustMakeSense(t *testing.T) {
	t.Parallel()
	r := router.New(router.Options{Backend: adapters.Backend{Broker: newFaultyLog()}})
	r.History("room:*")
	r.History("room:a")
	for want, f := range map[string]func(){
		"and not a pubsub.Log": func() {
			broker := struct{ pubsub.Broker }{newFaultyLog()} // without the methods of a Log
			router.New(router.Options{Backend: adapters.Backend{Broker: broker}}).History("a")
		},
		"declared twice": func() { r.History("room:*") },
		"at least 1s":    func() { r.History("b", router.HistoryOptions{Age: 1}) },
		"negative":       func() { r.History("b", router.HistoryOptions{Messages: -1}) },
		"1 to 256 bytes": func() { r.History("") },
		"at least 10ms":  func() { router.New(router.Options{HistoryCheck: 1}) },
		"at least 1m":    func() { router.New(router.Options{Resume: router.ResumeOptions{MaxAge: 1}}) },
		"at least 32":    func() { router.New(router.Options{Resume: router.ResumeOptions{Keys: [][]byte{{1}}}}) },
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, want) {
					t.Errorf("the panic is %q and does not contain %q", v, want)
				}
			}()
			f()
		}()
	}
}
