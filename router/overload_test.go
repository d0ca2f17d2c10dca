package router_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// safeLog may be written while it is read.
type safeLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *safeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *safeLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// overloadTest is a server of which a test says whether it is busy.
type overloadTest struct {
	r       *router.Router
	busy    atomic.Bool
	log     safeLog
	refused refusalLog
	sent    int

	confirm router.Question[text, text]
	conns   sync.Map // by user
}

const (
	overloadBegins = "this process cannot keep up"
	overloadEnds   = "this process keeps up again"
)

// overloaded runs a test in a bubble. The user of a connection, and its tier, are in its query.
func overloaded(t *testing.T, test func(t *testing.T, o *overloadTest, s *routertest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &overloadTest{}
		o.r = router.New(router.Options{
			Authenticate: func(req *http.Request) (ingress.Identity, error) {
				return ingress.Identity{User: req.URL.Query().Get("user"), Tier: req.URL.Query().Get("tier")}, nil
			},
			Renew: func(_ context.Context, c *router.Conn, _ string) (ingress.Identity, error) {
				return *c.Identity(), nil
			},
			Overload:  router.OverloadOptions{Enabled: true, Busy: o.busy.Load, Tiers: map[string]int{"paid": 2}},
			Logger:    slog.New(slog.NewTextHandler(&o.log, nil)),
			OnRefused: o.refused.hook,
			OnOpen:    func(c *router.Conn) error { o.conns.Store(c.Identity().User, c); return nil },
		})
		o.confirm = router.DeclareQuestion[text, text](o.r, "sure")
		low := o.r.Group("low.", router.RouteOptions{Priority: -2})
		for _, g := range []router.Registrar{o.r, low} {
			router.RPC(g, "work", func(_ *router.Context, m text) (text, error) { return m, nil })
			router.On(g, "note", func(*router.Context, text) error { return nil })
		}
		router.On(low, "cursor", func(*router.Context, text) error { return nil }, router.RouteOptions{Silent: true})
		test(t, o, routertest.New(t, o.r))
	})
}

// answers are how many requests of a type were answered.
type answers struct{ ok, refused int }

// load sends a request of each type on its client every 10 ms for some seconds, and returns how they were answered.
func (o *overloadTest) load(t *testing.T, seconds int, types map[string]*routertest.Client) map[string]answers {
	t.Helper()
	for range seconds * 100 {
		for typ, c := range types {
			o.sent++
			c.SendRaw(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"%s#%d"},"payload":{}}`, typ, typ, o.sent))
		}
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
	got := make(map[string]answers)
	for typ, c := range types {
		a := got[typ]
		for _, f := range c.Frames() {
			if of, _, _ := strings.Cut(f.Meta.CorrelationID, "#"); of != typ {
				continue
			}
			if f.Type != "RPC_ERROR" {
				a.ok++
				continue
			}
			a.refused++
			var failure routertest.Failure
			if err := json.Unmarshal(f.Payload, &failure); err != nil || failure.Code != errors.Unavailable || !failure.Retryable ||
				failure.RetryAfterMs == nil || *failure.RetryAfterMs < 500 || *failure.RetryAfterMs > 45_000 {
				t.Errorf("%s is answered %s", typ, f.Payload)
			}
		}
		got[typ] = a
	}
	return got
}

func TestOverloadRefusesByPriority(t *testing.T) {
	t.Parallel()
	overloaded(t, func(t *testing.T, o *overloadTest, s *routertest.Server) {
		paid := s.Dial(routertest.DialOptions{Query: "user=bob&tier=paid"})
		low := s.Dial(routertest.DialOptions{Query: "user=cid"})
		loads := map[string]*routertest.Client{"work": paid, "low.work": low}
		if got := o.load(t, 3, loads); got["work"] != (answers{300, 0}) || got["low.work"] != (answers{300, 0}) {
			t.Errorf("while nothing is busy: %v", got)
		}
		o.busy.Store(true)
		o.load(t, 3, loads)
		if n := o.log.count(overloadBegins); n != 1 {
			t.Errorf("the beginning is logged %d times", n)
		}
		if s := o.r.Stats().Overload; !s.Refusing {
			t.Errorf("Stats are %+v", s)
		}
		o.busy.Store(false)
		o.load(t, 15, loads)
		if got := o.load(t, 1, loads); got["work"].refused+got["low.work"].refused > 0 || o.r.Stats().Overload.Refusing {
			t.Errorf("15 s after the end: %v, %+v", got, o.r.Stats().Overload)
		}
		if n := o.log.count(overloadEnds); n != 1 {
			t.Errorf("the end is logged %d times", n)
		}
		shed := o.r.Stats().Overload.Shed
		if shed[-2] == 0 || shed[2] >= shed[-2] {
			t.Errorf("refused by priority: %v", shed)
		}
		reported := int64(0)
		for _, info := range o.refused.take() {
			if info.Kind != router.RefusedOverload || info.Code != errors.Unavailable || info.Conn == nil || info.Type == "" {
				t.Errorf("OnRefused gets %+v", info)
			}
			reported++
		}
		if n := o.r.Stats().RefusedMessages[router.RefusedOverload]; n != shed[-2]+shed[2] || n != reported {
			t.Errorf("%d messages were shed, %d are counted as refused, %d reported", shed[-2]+shed[2], n, reported)
		}
	})
}

// While nearly everything is refused: what the protocol needs is not, handshakes are answered 503, nothing
// is decoded, and events are answered as their route says.
func TestWhatIsRefusedAndWhatIsNot(t *testing.T) {
	t.Parallel()
	overloaded(t, func(t *testing.T, o *overloadTest, s *routertest.Server) {
		c := s.Dial(routertest.DialOptions{Query: "user=ann"})
		other := s.Dial(routertest.DialOptions{Query: "user=bob"})
		o.busy.Store(true)
		// More than the limit will be, of a higher priority than everything below.
		stop := make(chan struct{})
		var floods sync.WaitGroup
		defer func() { close(stop); floods.Wait() }()
		for range 8 {
			flood := s.Dial(routertest.DialOptions{Query: "user=cid&tier=paid"})
			floods.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
					}
					flood.SendRaw(fmt.Sprintf(`{"type":"work","meta":{"correlationId":"%d"},"payload":{}}`, i))
				}
			})
		}
		time.Sleep(2 * time.Second)

		c.Request("work", text{"a"}).ExpectError(errors.Unavailable)
		c.Request("work", 7).ExpectError(errors.Unavailable) // would be INVALID_ARGUMENT
		c.Send("note", text{"a"})
		if f := c.ExpectError(errors.Unavailable); f.Type != "note" || f.RetryAfterMs == nil {
			t.Errorf("an event is answered %+v", f)
		}
		c.Request("unknown", text{}).ExpectError(errors.Unimplemented)
		c.SendRaw(`{"type":"$ws:renew","meta":{"correlationId":"renewal"},"payload":{"token":"fresh"}}`)
		if f := c.ExpectAny("$ws:renewed"); f.Type == "" {
			t.Error("a renewal is not answered")
		}
		before := o.r.Stats().Unanswered
		c.Send("low.cursor", text{"a"})
		c.SendRaw(`{"type":"__heartbeat"}`)
		if f := c.ExpectAny("__heartbeat_ack"); f.Type == "" {
			t.Error("a heartbeat is not answered")
		}
		if n := o.r.Stats().Unanswered - before; n != 1 {
			t.Errorf("%d events are dropped, want the one whose route drops", n)
		}
		for _, f := range c.Frames() {
			if f.Type == "ERROR" {
				t.Errorf("the client gets %s", f.Raw)
			}
		}

		_, res, err := s.TryDial(routertest.DialOptions{Query: "user=dan"})
		if err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("a handshake is answered %v, %v", res, err)
		}
		if n := o.r.Stats().RefusedHandshakes[router.RefusedOverload]; n != 1 {
			t.Errorf("%d handshakes are counted as refused", n)
		}

		routertest.Answer(other, "sure", func(q text) (text, error) { return q, nil })
		bob, _ := o.conns.Load("bob")
		if answer, err := o.confirm.Ask(t.Context(), bob.(*router.Conn), text{"sure?"}); err != nil || answer.Text != "sure?" {
			t.Errorf("a question is answered %v, %v", answer, err)
		}
	})
}

// A server that really cannot keep up sees it, and answers all it is sent: it handles it or refuses it.
func TestOverloadOfTheCPU(t *testing.T) {
	takesTime(t)
	var log safeLog
	s := serveSocket(t, router.Options{
		Overload: router.OverloadOptions{Enabled: true, Target: 5 * time.Millisecond},
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
	}, func(r *router.Router) {
		router.RPC(r, "burn", func(*router.Context, struct{}) (int, error) {
			var block [sha256.BlockSize]byte
			for range 50_000 { // some milliseconds
				sum := sha256.Sum256(block[:])
				copy(block[:], sum[:])
			}
			return int(block[0]), nil
		}, router.RouteOptions{Priority: -1})
	})
	const clients = 24
	var stop atomic.Bool
	var handled, refused atomic.Int64
	var all sync.WaitGroup
	// A machine that is busy for a moment is overloaded for as long: it refuses handshakes.
	accepted := func() (p *peer) {
		eventually(t, "a connection to be accepted", func() bool {
			p = s.connect()
			p.write([]byte(s.handshake()))
			return p.response().StatusCode == http.StatusSwitchingProtocols
		})
		return p
	}
	var peers []*peer
	for range clients {
		peers = append(peers, accepted())
	}
	for _, p := range peers {
		all.Go(func() {
			for !stop.Load() {
				p.write(textFrame(`{"type":"burn","meta":{"correlationId":"1"}}`))
				switch got := p.next(); {
				case strings.HasPrefix(got, "reply 1"):
					handled.Add(1)
				case got == "RPC_ERROR 1 UNAVAILABLE":
					refused.Add(1)
				default:
					t.Errorf("a request is answered %q", got)
					return
				}
			}
		})
	}
	eventually(t, "messages to be refused", func() bool {
		return s.r.Stats().Overload.Shed[-1] > 100
	})
	eventually(t, "a line in the log", func() bool { return log.count(overloadBegins) > 0 })
	more := handled.Load() + 20
	eventually(t, "messages to be handled beside those that are refused", func() bool { return handled.Load() > more })
	stop.Store(true)
	all.Wait()
	if refused.Load() == 0 || log.count(overloadBegins) != 1 {
		t.Errorf("%d are handled, %d refused; the log has the beginning %d times", handled.Load(), refused.Load(), log.count(overloadBegins))
	}
	p := accepted()
	eventually(t, "a request to be handled again", func() bool {
		p.write(echo("1", "a"))
		got := p.next()
		if got != "reply 1 a" && got != "RPC_ERROR 1 UNAVAILABLE" {
			t.Fatalf("a request is answered %q", got)
		}
		return got == "reply 1 a"
	})
	eventually(t, "everything to be admitted again", func() bool { return !s.r.Stats().Overload.Refusing })
}
