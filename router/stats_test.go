package router_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// outcomesOf returns the figures of a type, without those that are 0.
func outcomesOf(t *testing.T, s router.Stats, typ string) map[errors.Code]int64 {
	t.Helper()
	for _, of := range s.Types {
		if of.Type == typ {
			return of.Outcomes
		}
	}
	t.Fatalf("there are no figures of %q", typ)
	return nil
}

// Each message is counted once, under its type and the code that its client got, however it was
// handled: on the spot, concurrently, after a wait, detached, aborted, or not at all.
func TestEachMessageIsCountedOnce(t *testing.T) {
	t.Parallel()
	takesTime(t)
	fail := func(c *router.Context, m said) (said, error) {
		switch m.Text {
		case "missing":
			return m, errors.NotFound.New("it is not there")
		case "own":
			return m, errors.Code("OWN_CODE").New("of the application")
		case "panic":
			panic("on purpose")
		case "slow":
			if !spendUntil(c.Done(), 50*time.Millisecond) {
				return m, c.Err()
			}
		}
		return m, nil
	}
	s := serveSocket(t, router.Options{Logger: quiet, Limits: router.Limits{MaxPayload: 1 << 10}}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "limited" {
					return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Limit: 1, RetryAfter: time.Second, Limiter: "test"})
				}
				return next(c)
			}
		})
		router.RPC(r, "ordered", fail, router.RouteOptions{Timeout: 40 * time.Millisecond})
		router.RPC(r, "beside", fail, router.RouteOptions{Concurrent: true})
		router.RPC(r, "limited", fail)
	})
	types := []string{"ordered", "beside", "limited", "made up", "made up too"}
	texts := []string{"", "", "", "missing", "own", "panic", "slow"}

	want := make(map[string]map[errors.Code]int64) // by registered type
	var mu sync.Mutex
	count := func(typ, code string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(typ, "made up") {
			typ = ""
		}
		if code == "OWN_CODE" {
			code = "OTHER"
		}
		if want[typ] == nil {
			want[typ] = make(map[errors.Code]int64)
		}
		want[typ][errors.Code(code)]++
	}
	var clients sync.WaitGroup
	for range 8 {
		p := s.dial()
		clients.Go(func() {
			for range 60 {
				var batch bytes.Buffer
				sent := make(map[string]string) // type by id
				for i := range 1 + rand.IntN(20) {
					id, typ := fmt.Sprint(i), types[rand.IntN(len(types))]
					sent[id] = typ
					batch.Write(textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":%q},"payload":{"text":%q}}`, typ, id, texts[rand.IntN(len(texts))])))
					if rand.IntN(5) == 0 {
						batch.Write(textFrame(fmt.Sprintf(`{"type":"$ws:abort","meta":{"correlationId":%q}}`, id)))
						count("$ws:abort", "OK")
					}
				}
				switch rand.IntN(4) {
				case 0:
					sent[""] = ""
					batch.Write(textFrame(`{"type":`))
				case 1:
					sent[""] = ""
					batch.Write(textFrame(`{"type":"ordered","payload":"` + strings.Repeat("x", 2<<10) + `"}`))
				}
				p.write(batch.Bytes())
				for range sent {
					f := strings.Fields(p.next())
					switch f[0] {
					case "reply":
						count(sent[f[1]], "OK")
					case "RPC_ERROR":
						count(sent[f[1]], f[2])
					case "ERROR":
						count("", f[1])
					default:
						t.Errorf("got %q", f)
					}
				}
			}
			p.bye()
		})
	}
	clients.Wait()
	s.settled()
	stats := s.r.Stats()
	for typ, codes := range want {
		if got := outcomesOf(t, stats, typ); !maps.Equal(got, codes) {
			t.Errorf("type %q:\n got %v\nwant %v", typ, got, codes)
		}
	}
	if len(want["ordered"]) < 5 || len(want["beside"]) < 5 {
		t.Errorf("the clients got too few kinds of answers: %v", want)
	}
	if n := stats.InFlight; n != 0 {
		t.Errorf("%d messages are in flight, and all are answered", n)
	}
	if want := []router.RejectionStats{{Limiter: "", Kind: errors.LimitPayload}, {Limiter: "test", Kind: errors.LimitRate, Count: want["limited"][errors.ResourceExhausted]}}; len(stats.Rejections) != 2 ||
		stats.Rejections[0].Kind != want[0].Kind || stats.Rejections[1] != want[1] || stats.Rejections[0].Count+stats.Rejections[1].Count != stats.Rejected {
		t.Errorf("rejections: %v of %d, want %v", stats.Rejections, stats.Rejected, want)
	}
}

// The histograms have the times that a client sees: a handler of 100 ms, and the wait behind it.
func TestTimesOfMessages(t *testing.T) {
	t.Parallel()
	const took = 100 * time.Millisecond
	seen := make(chan struct{})
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "slow", func(_ *router.Context, m said) (said, error) {
			<-seen
			spend(took)
			return m, nil
		})
	})
	p := s.dial()
	slow := func(id string) []byte {
		return textFrame(`{"type":"slow","meta":{"correlationId":"` + id + `"},"payload":{"text":""}}`)
	}
	p.write(join(slow("1"), slow("2"), slow("3"), echo("4", "last")))
	eventually(t, "messages in flight", func() bool { return s.r.Stats().InFlight > 0 })
	close(seen)
	p.expect("reply 1 ", "reply 2 ", "reply 3 ", "reply 4 last")
	p.bye()
	s.settled()
	stats := s.r.Stats()
	// Of the one connection, whose messages come one after the other; it is counted in quarters of a millisecond.
	all := stats.ConnectionTime.Sum + time.Millisecond
	for _, of := range stats.Types {
		want, atLeast := int64(0), time.Duration(0)
		switch of.Type {
		case "slow":
			want, atLeast = 3, 3*took
		case "echo":
			want = 1
		}
		if h := of.Handling; h.Count() != want || h.Sum < atLeast || h.Sum > all {
			t.Errorf("%q: %d messages took %v; want %d, and %v to %v", of.Type, h.Count(), h.Sum, want, atLeast, all)
		}
	}
	// The second waited for one, the third for two, the last for three.
	if w := stats.Waiting; w.Count() != 4 || w.Sum < 5*took || w.Sum > 4*all {
		t.Errorf("%d messages waited %v, want 4, and about %v", w.Count(), w.Sum, 6*took)
	}
	if c := stats.ConnectionTime; c.Count() != 1 || c.Sum < 3*took || c.Bounds()[0] != time.Second {
		t.Errorf("connections: %v", c)
	}
}

// Connections are counted by what became of their handshake, and by how they ended.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	conns := make(chan *router.Conn, 4)
	s := serveSocket(t, router.Options{Logger: quiet, OnOpen: func(c *router.Conn) error { conns <- c; return nil }}, nil)
	s.dial().bye()
	other := s.dial()
	other.write(closing(3999, "of the client's choice"))
	other.rest()
	s.dial().hangUp()
	s.settled()
	for range 3 {
		<-conns
	}
	p := s.dial()
	(<-conns).Close(errors.CloseTooManyRequests, "")
	p.expect("close 4429")
	p.write(closing(4429, ""))
	refused := s.connect()
	refused.write([]byte(s.handshake("Origin: https://evil.example")))
	if got := refused.response().StatusCode; got != 403 {
		t.Fatalf("answered %d", got)
	}
	s.settled()
	stats := s.r.Stats()
	if want := map[errors.CloseCode]int64{1000: 1, 0: 1, 1006: 1}; !maps.Equal(stats.ClosedByClient, want) {
		t.Errorf("closed by clients: %v, want %v", stats.ClosedByClient, want)
	}
	if want := map[errors.CloseCode]int64{4429: 1}; !maps.Equal(stats.ClosedByServer, want) {
		t.Errorf("closed by the server: %v, want %v", stats.ClosedByServer, want)
	}
	if want := map[router.RefusedKind]int64{router.RefusedOrigin: 1}; !maps.Equal(stats.RefusedHandshakes, want) {
		t.Errorf("refused: %v, want %v", stats.RefusedHandshakes, want)
	}
	if n := stats.ConnectionTime.Count(); n != 4 || stats.Accepted != 4 {
		t.Errorf("%d connections have a duration, %d were accepted, want 4", n, stats.Accepted)
	}
}

// Bytes and frames are those on the wire, and what a client does not read shows as a backlog.
func TestTrafficIsCounted(t *testing.T) {
	t.Parallel()
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxQueued: 8 << 20}, OnOpen: func(c *router.Conn) error { conns <- c; return nil }}, nil)
	p := s.dial()
	c := <-conns
	before := s.r.Stats()
	request := echo("1", strings.Repeat("x", 300))
	var want int64
	for range 10 {
		p.write(request)
		f, err := p.read()
		if err != nil {
			t.Fatal(err)
		}
		want += int64(len(f.payload)) + 4 // the header of a frame of 126 to 65,535 bytes
	}
	after := s.r.Stats()
	if got := after.BytesRead - before.BytesRead; got != int64(10*len(request)) {
		t.Errorf("read %d bytes, want %d", got, 10*len(request))
	}
	eventually(t, "what was written to be counted", func() bool {
		after = s.r.Stats()
		return after.BytesWritten-before.BytesWritten == want && after.FramesWritten-before.FramesWritten == 10
	})
	if after.Backlogged != 0 || after.BacklogBytes != 0 {
		t.Errorf("a backlog of %d connections, %d bytes, and all was read", after.Backlogged, after.BacklogBytes)
	}
	for c.Queued() < 1<<20 {
		if err := c.Send("large", strings.Repeat("x", 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the backlog to be counted", func() bool {
		s := s.r.Stats()
		return s.Backlogged == 1 && s.BacklogBytes == int64(c.Queued())
	})
	p.hangUp()
	eventually(t, "the backlog to be gone", func() bool {
		s := s.r.Stats()
		return s.Backlogged == 0 && s.BacklogBytes == 0
	})
}

// Deliveries are counted where the subscribers are, and publishing where it is done, with and without
// a broker and a history.
func TestPublishingIsCounted(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"local", "broker", "history"} {
		t.Run(topic, func(t *testing.T) {
			opts := router.Options{}
			if topic != "local" {
				opts.Backend.Broker = memory.NewBroker()
			}
			opts.OnOpen = func(c *router.Conn) error { return c.Subscribe(context.Background(), topic) }
			s := serveSocket(t, opts, func(r *router.Router) {
				if topic == "history" {
					r.History(topic)
				}
			})
			a, b := s.dial(), s.dial()
			for _, p := range []*peer{a, b} {
				if topic == "history" {
					p.next() // $ws:subscribed
				}
			}
			eventually(t, "both to be subscribed", func() bool { return s.r.LocalSubscribers(topic) == 2 })
			for range 3 {
				if err := s.r.Publish(t.Context(), topic, "news", nil); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				a.next()
				b.next()
			}
			eventually(t, "6 deliveries of 3 messages", func() bool {
				stats := s.r.Stats()
				return stats.Published == 3 && stats.Delivered == 6 && stats.PublishFailed == 0
			})
		})
	}
}

// The number of figures does not grow with what clients send, nor with names of limits that are made up.
func TestFiguresAreBounded(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if err := next(c); err != nil {
					return err
				}
				return c.Reject(errors.LimitExceeded{Kind: errors.LimitKind(c.SentType()), Limiter: c.SentType(), Limit: 1, RetryAfter: time.Second})
			}
		})
	})
	figures := func(s router.Stats) int {
		n := len(s.Types) + len(s.Rejections) + len(s.RefusedMessages) + len(s.ClosedByClient)
		for _, of := range s.Types {
			n += len(of.Outcomes)
		}
		return n
	}
	flood := func(from, to int) {
		p := s.dial()
		for i := from; i < to; i++ {
			p.write(textFrame(fmt.Sprintf(`{"type":"made up %d","payload":{}}`, i)))
		}
		for range to - from {
			p.expect("ERROR RESOURCE_EXHAUSTED")
		}
		p.bye()
	}
	flood(0, 100)
	s.settled()
	before := s.r.Stats()
	flood(100, 2000)
	s.settled()
	after := s.r.Stats()
	if figures(before) != figures(after) || len(after.Rejections) != 64 {
		t.Errorf("%d figures before and %d after; %d limits", figures(before), figures(after), len(after.Rejections))
	}
	sum := int64(0)
	for _, l := range after.Rejections {
		sum += l.Count
	}
	if sum != 2000 || after.Rejected != 2000 || outcomesOf(t, after, "")[errors.ResourceExhausted] != 2000 {
		t.Errorf("%d rejections by limit, %d in all, %v", sum, after.Rejected, outcomesOf(t, after, ""))
	}
}

// The name of the limiter that rejected a message is in the figures.
func TestRejectionsByLimiter(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		r.Use(ratelimit.New(limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour},
			limit.Options{Name: "frames"}), ratelimit.PerUserOrIPPerType))
	})
	p := s.dial()
	for range 5 {
		p.write(echo("1", ""))
		p.next()
	}
	if got := s.r.Stats().Rejections; len(got) != 1 || got[0] != (router.RejectionStats{Limiter: "frames", Kind: errors.LimitRate, Count: 3}) {
		t.Errorf("got %v", got)
	}
}
