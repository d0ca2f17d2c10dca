package router_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// onReadLog is a log that calls a function before each Read of messages.
type onReadLog struct {
	*faultyLog
	onRead func(topic string)
}

func (l *onReadLog) Read(ctx context.Context, topic string, h pubsub.History, o pubsub.ReadOptions) (pubsub.Page, error) {
	if o.Messages > 0 {
		l.onRead(topic)
	}
	return l.faultyLog.Read(ctx, topic, h, o)
}

var talk = textFrame(`{"type":"talk","meta":{"correlationId":"t"},"payload":{"text":""}}`)

// talking returns a client that is not silent any more: it has sent messages within seconds, and got the answers.
func (s *socketServer) talking() *peer {
	p := s.dial()
	for range 2 {
		p.write(talk)
		p.next()
	}
	return p
}

// Clients that do not read, a hook that waits and a log that does not answer delay no other client that resumes.
func TestResumesThatWaitDelayNoOther(t *testing.T) {
	t.Parallel()
	const missed, queue = 300, 32 << 10
	for _, c := range []struct{ name, topic string }{
		{"clients that do not read", "room:a"}, {"a hook", "room:hook"}, {"the log", "room:paused"}, {"the log, for those too far behind", "few:paused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := make(chan struct{})
			l := &onReadLog{faultyLog: newFaultyLog(), onRead: func(topic string) {
				if strings.HasSuffix(topic, "paused") {
					<-end
				}
			}}
			s := serveSocket(t, router.Options{
				Backend: adapters.Backend{Broker: l}, Limits: router.Limits{MaxQueued: queue},
				Resume: router.ResumeOptions{Allow: func(_ context.Context, _ *router.Conn, topic string) error {
					if topic == "room:hook" {
						<-end
					}
					return nil
				}},
			}, func(r *router.Router) {
				subscribing(r)
				r.History("room:*", router.HistoryOptions{Bytes: 64 << 20})
				r.History("few:*", router.HistoryOptions{Bytes: 64 << 20, Replay: 3})
			})
			left := func(topic string) *reader {
				p := s.reader(l.faultyLog, topic)
				p.hangUp()
				return p
			}
			waits, goes := left(c.topic), left("room:b")
			for _, topic := range []string{c.topic, "room:b"} {
				for i := range missed {
					if err := s.r.Publish(t.Context(), topic, "heard", said{fmt.Sprint(i) + strings.Repeat(" ", 2000)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			stalled := make([]*peer, 4*runtime.GOMAXPROCS(0))
			for i := range stalled {
				stalled[i] = s.dial()
				_ = stalled[i].nc.SetReadBuffer(4 << 10)
				stalled[i].write(resumption(heldTopic(waits)))
			}
			if c.topic == "room:a" {
				eventually(t, "all of them to be sent something", func() bool {
					for _, p := range stalled {
						if _, err := p.br.Peek(1); err != nil {
							t.Fatal(err)
						}
					}
					return true
				})
			}
			goes.peer = s.dial()
			goes.write(resumption(heldTopic(goes)))
			goes.until(l.head("room:b"))
			if len(goes.texts) != missed {
				t.Errorf("the client got %d messages of %d", len(goes.texts), missed)
			}
			close(end)
			for _, p := range stalled {
				p.hangUp()
			}
			goes.hangUp()
			s.recovered()
		})
	}
}

func heldTopic(p *reader) held { return held{p.ticket, p.at.String()} }

// When many clients that were silent send something at the same moment, or many resume, a client that talks is answered
// before most of them, although its message came last.
func TestActiveClientsGoFirst(t *testing.T) {
	const clients, missed = 200, 100
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that nothing is handled before all is sent, or little
	var worked, seen atomic.Int64
	l := newFaultyLog()
	var s *socketServer
	s = serveSocket(t, router.Options{Backend: adapters.Backend{Broker: l}}, func(r *router.Router) {
		subscribing(r)
		r.History("room:*")
		router.On(r, "work", func(*router.Context, struct{}) error {
			worked.Add(1)
			return nil
		})
		router.RPC(r, "talk", func(_ *router.Context, m said) (said, error) {
			seen.Store(worked.Load() + s.r.Stats().Resumes["resumed"])
			return m, nil
		})
	})
	left := s.reader(l, "room:a")
	left.hangUp()
	s.appends(0, missed)
	talker := s.talking()
	for _, c := range []struct {
		name    string
		frame   []byte
		connect func() *peer
	}{
		{"silent", textFrame(`{"type":"work"}`), func() *peer { return s.dial() }},
		{"silent, and resume", resumption(heldTopic(left)), func() *peer { return s.dial() }},
		{"resume", resumption(heldTopic(left)), s.talking},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := func() int64 { return worked.Load() + s.r.Stats().Resumes["resumed"] }
			first := atBest(t, clients/4, func() int64 {
				for {
					peers := make([]*peer, clients)
					for i := range peers {
						peers[i] = c.connect()
					}
					start := done()
					for _, p := range peers {
						p.write(c.frame)
					}
					talker.write(talk)
					before := done() // perhaps too many, if the machine stood still
					talker.next()
					first := seen.Load() - before
					eventually(t, "all of them to be served", func() bool { return done()-start == clients })
					for _, p := range peers {
						p.hangUp()
					}
					if before-start <= clients/2 { // otherwise most had been served before the message was sent
						return first
					}
				}
			})
			if first > clients/4 {
				t.Errorf("of %d, %d were served first", clients, first)
			}
		})
	}
}

// atBest returns the smallest of what up to five calls return, and the first that is at most enough. Single ones may be
// far above: when the machine stands still, that looks like other work, and what waits for turns gets its share beside
// it.
func atBest(t *testing.T, enough int64, count func() int64) int64 {
	t.Helper()
	var counts []int64
	for len(counts) < 5 {
		n := count()
		counts = append(counts, n)
		if n <= enough {
			break
		}
	}
	t.Log(counts)
	return slices.Min(counts)
}

// When many clients resume at the same moment, the first are done before most of the others begin, so that not all of
// them need memory for it at once.
func TestResumesAreDoneBeforeOthersBegin(t *testing.T) {
	const clients, missed = 200, 600
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that nothing is handled before all is sent, or little
	var begun, most atomic.Int64
	l := newFaultyLog()
	var s *socketServer
	s = serveSocket(t, router.Options{Backend: adapters.Backend{Broker: l}, Resume: router.ResumeOptions{Allow: func(context.Context, *router.Conn, string) error {
		underWay := begun.Add(1) - s.r.Stats().Resumes["resumed"]
		most.Store(max(most.Load(), underWay))
		return nil
	}}}, func(r *router.Router) {
		subscribing(r)
		r.History("room:*")
	})
	left := s.reader(l, "room:a")
	left.hangUp()
	s.appends(0, missed)
	peers := make([]*peer, clients)
	for i := range peers {
		peers[i] = s.dial()
	}
	resumption := resumption(heldTopic(left))
	goes := s.dial() // reads the log for all of them: others may begin while it is read
	goes.write(resumption)
	eventually(t, "one to resume", func() bool { return s.r.Stats().Resumes["resumed"] == 1 })
	for _, p := range peers {
		p.write(resumption)
	}
	eventually(t, "all of them to resume", func() bool { return s.r.Stats().Resumes["resumed"] == 1+clients })
	goes.hangUp()
	for _, p := range peers {
		p.hangUp()
	}
	if most.Load() > clients/2 {
		t.Errorf("%d of %d were under way at the same time", most.Load(), clients)
	}
	t.Logf("%d under way at the same time", most.Load())
}

// A client that resumes a long topic lets the messages of others be handled between any two pages, also while it is the
// only one.
func TestMessagesAreHandledBetweenPages(t *testing.T) {
	const missed = 1500
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that a resume which waits for nothing lets nothing else run
	var reads, seen atomic.Int64
	var talker *peer
	l := &onReadLog{faultyLog: newFaultyLog(), onRead: func(string) {
		if reads.Add(1) == 2 {
			talker.write(talk)
		}
	}}
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: l}}, func(r *router.Router) {
		subscribing(r)
		r.History("room:*", router.HistoryOptions{Messages: missed})
		router.RPC(r, "talk", func(_ *router.Context, m said) (said, error) {
			seen.Store(reads.Load())
			return m, nil
		})
	})
	left := s.reader(l.faultyLog, "room:a")
	left.hangUp()
	s.appends(0, missed)
	talker = s.talking()
	during := atBest(t, 3, func() int64 {
		goes := s.dial()
		spend(20 * time.Millisecond) // turns begin at once again
		reads.Store(0)
		goes.write(resumption(heldTopic(left)))
		talker.next()
		goes.hangUp()
		eventually(t, "the client to be forgotten", func() bool { return s.r.Stats().Connections == 1 })
		return seen.Load()
	})
	if during > 3 {
		t.Errorf("a message that came before page 2 was handled after page %d", during)
	}
	talker.hangUp()
}
