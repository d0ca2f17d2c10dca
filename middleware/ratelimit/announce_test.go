package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// patience is how long a test waits before it calls something hung.
const patience = time.Minute

// follower is a client that follows its limits.
type follower struct {
	t      testing.TB
	user   string
	ws     *websocket.Conn
	in     chan []byte // what has come; closed when the connection has ended
	ids    int
	frames int // of $ws:limits that came by themselves
	last   shown
	at     time.Time // when the last state came
}

// shown is the payload of $ws:limits.
type shown struct {
	Limits []shownLimit     `json:"limits"`
	Seen   map[string]int64 `json:"seen"`
}

type shownLimit struct {
	Name      string            `json:"name"`
	Types     map[string]*int64 `json:"types"`
	Limit     float64           `json:"limit"`
	Remaining float64           `json:"remaining"`
	FullInMs  float64           `json:"fullInMs"`
	Refill    float64           `json:"refill"`
	PerMs     float64           `json:"perMs"`
}

type answered struct {
	id, code string
}

// pipes is a listener of connections in memory, which work in bubbles too.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

// serveFollowed serves a router with the requests and events that the tests send.
func serveFollowed(t testing.TB, middleware ...ingress.Middleware) (to pipes, r *router.Router) {
	t.Helper()
	w := newRouter(middleware...)
	router.RPC(w.Router, "report.run", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	to = make(pipes)
	server := &http.Server{Handler: w, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(to) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Shutdown(ctx)
		_ = server.Close()
		<-done
	})
	return to, w.Router
}

func follow(t testing.TB, to pipes, user string) *follower {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		to <- theirs
		return ours, nil
	}}
	ws, _, err := websocket.Dial(ctx, "ws://server/?tenant=acme&user="+url.QueryEscape(user), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, user: user, ws: ws, in: make(chan []byte, 1000)}
	ended := context.WithoutCancel(t.Context())
	go func() {
		defer close(f.in)
		for {
			_, data, err := ws.Read(ended)
			if err != nil {
				return
			}
			f.in <- data
		}
	}()
	t.Cleanup(func() {
		_ = ws.CloseNow()
		for range f.in { // until the connection has ended
		}
	})
	return f
}

func (f *follower) write(frame string) {
	f.t.Helper()
	if err := f.ws.Write(f.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		f.t.Fatal(err)
	}
}

// request sends n requests at once.
func (f *follower) request(typ string, n int) {
	f.t.Helper()
	for range n {
		f.ids++
		f.write(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"%d"}}`, typ, f.ids))
	}
}

// read reads a frame. It reports an answer, or notes the state of the limits.
func (f *follower) read() (a answered, ok bool) {
	f.t.Helper()
	data := poll.Receive(f.t, f.in, "a frame of the server")
	var frame struct {
		Type    string
		Meta    struct{ CorrelationID string }
		Payload json.RawMessage
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		f.t.Fatalf("%v in %s", err, data)
	}
	a = answered{id: frame.Meta.CorrelationID}
	switch frame.Type {
	case "$ws:limits":
		f.last, f.at = shown{}, time.Now()
		if err := json.Unmarshal(frame.Payload, &f.last); err != nil {
			f.t.Fatalf("%v in %s", err, data)
		}
		if a.id == "" {
			f.frames++
		}
	case "RPC_ERROR", "ERROR":
		var failed struct{ Code string }
		if err := json.Unmarshal(frame.Payload, &failed); err != nil {
			f.t.Fatal(err)
		}
		a.code = failed.Code
	}
	return a, a.id != "" || frame.Type == "ERROR"
}

// answers reads until n answers have come, and counts those without an error.
func (f *follower) answers(n int) (admitted int) {
	f.t.Helper()
	for n > 0 {
		if a, ok := f.read(); ok {
			n--
			if a.code == "" {
				admitted++
			}
		}
	}
	return admitted
}

// ask asks for the limits of types, and returns the code of the answer.
func (f *follower) ask(types ...string) (code string) {
	f.t.Helper()
	list, err := json.Marshal(types)
	if err != nil {
		f.t.Fatal(err)
	}
	f.ids++
	id := strconv.Itoa(f.ids)
	f.write(fmt.Sprintf(`{"type":"$ws:limits","meta":{"correlationId":%q},"payload":{"types":%s}}`, id, list))
	for {
		if a, ok := f.read(); ok && a.id == id {
			return a.code
		}
	}
}

// until reads until the server has counted so many messages of a type.
func (f *follower) until(typ string, seen int64) {
	f.t.Helper()
	for f.last.Seen[typ] < seen {
		f.read()
	}
}

// fits computes how many messages of a type fit now.
func (f *follower) fits(typ string) int {
	f.t.Helper()
	fits := -1
	for _, l := range f.last.Limits {
		cost, ok := l.Types[typ]
		if !ok {
			continue
		}
		left := l.left(time.Since(f.at))
		if n := int(left / float64(*cost)); fits < 0 || n < fits {
			fits = n
		}
	}
	if fits < 0 {
		f.t.Fatalf("no limit of %s in %+v", typ, f.last)
	}
	return fits
}

// left is what PROTOCOL.md says of a limit some time after the frame.
func (l *shownLimit) left(after time.Duration) float64 {
	ms := float64(after) / float64(time.Millisecond)
	if ms >= l.FullInMs {
		return l.Limit
	}
	if l.Refill > 0 {
		return min(l.Limit, l.Remaining+ms*l.Refill/l.PerMs)
	}
	return l.Remaining
}

func announcing(store limit.Store, policy limit.Policy) ingress.Middleware {
	return ratelimit.New(limit.New(store, policy, limit.Options{Name: "messages", Timeout: patience}), ratelimit.PerUserOrIPPerType, ratelimit.Options{Announce: "messages"})
}

// What a client computes from the last $ws:limits is never more than what the server then admits.
func TestAnnouncedIsAdmitted(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds of real time")
	}
	policies := []limit.Policy{
		limit.TokenBucket{Capacity: 5, Refill: 20, Per: time.Second},
		limit.TokenBucket{Capacity: 7, Refill: 3, Per: 130 * time.Millisecond},
		limit.FixedWindow{Limit: 4, Window: 700 * time.Millisecond},
		limit.SlidingWindow{Limit: 6, Window: 800 * time.Millisecond, Buckets: 4},
		limit.SlidingLog{Limit: 3, Window: 600 * time.Millisecond},
		limit.Pacer{Burst: 3, Refill: 30, Per: time.Second, MaxWait: 100 * time.Millisecond},
		limit.All(limit.TokenBucket{Capacity: 4, Refill: 30, Per: time.Second}, limit.TokenBucket{Capacity: 12, Refill: 8, Per: time.Second}),
		limit.All(limit.TokenBucket{Capacity: 4, Refill: 30, Per: time.Second}, limit.FixedWindow{Limit: 9, Window: time.Second}),
	}
	server := redistest.Start(t)
	open := func() redis.Store {
		s, err := redis.OpenStore(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	shared := open()
	prefetch := redis.NewPrefetch(open(), redis.PrefetchOptions{Tokens: 4})
	t.Cleanup(func() { _ = prefetch.Close() })
	var all []*follower
	for name, m := range map[string]func(limit.Policy) ingress.Middleware{
		"memory":   func(p limit.Policy) ingress.Middleware { return announcing(memory.NewStore(), p) },
		"redis":    func(p limit.Policy) ingress.Middleware { return announcing(shared, p) },
		"prefetch": func(p limit.Policy) ingress.Middleware { return announcing(prefetch, p) },
		"connection": func(p limit.Policy) ingress.Middleware {
			return ratelimit.NewPerConnection(p, ratelimit.Options{Announce: "messages"})
		},
	} {
		for _, policy := range policies {
			to, _ := serveFollowed(t, m(policy))
			f := follow(t, to, fmt.Sprintf("%s/%v", name, policy))
			if code := f.ask("ask"); code != "" {
				t.Fatal(code)
			}
			all = append(all, f)
		}
	}
	computedIsAdmitted(t, all, 6)
}

// The same with the states of limits in Durable Objects.
func TestAnnouncedIsAdmittedWithDurableObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Workers runtime")
	}
	w := workerdtest.Start(t, workerdtest.Config{})
	store, err := cfdo.Open(w.URL, workerdtest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	var all []*follower
	for _, policy := range []limit.Policy{
		limit.TokenBucket{Capacity: 5, Refill: 20, Per: time.Second},
		limit.SlidingWindow{Limit: 6, Window: 800 * time.Millisecond, Buckets: 4},
	} {
		m := ratelimit.New(limit.New(store, policy, limit.Options{Name: "messages", Timeout: patience}), ratelimit.PerUserOrIPPerType, ratelimit.Options{Announce: "messages"})
		to, _ := serveFollowed(t, m)
		f := follow(t, to, policy.String())
		if code := f.ask("ask"); code != "" {
			t.Fatal(code)
		}
		all = append(all, f)
	}
	computedIsAdmitted(t, all, 4)
}

// computedIsAdmitted has clients send what fits as they compute it, once that is a few messages, and from time to time
// too much.
func computedIsAdmitted(t *testing.T, all []*follower, rounds int) {
	t.Helper()
	sent := make([]int64, len(all))
	for round := range rounds {
		for i, f := range all {
			few, n := 1+rand.N(3), 0
			poll.Until(t, f.user+": a few messages fit", func() bool { n = f.fits("ask"); return n >= few })
			f.request("ask", n)
			if admitted := f.answers(n); admitted != n {
				t.Errorf("%s, round %d: %d of %d messages that fit were admitted; the state was %+v", f.user, round, admitted, n, f.last)
			}
			sent[i] += int64(n)
			if round%3 == 2 {
				f.request("ask", 4)
				f.answers(4)
				sent[i] += 4
			}
		}
		for i, f := range all {
			f.until("ask", sent[i])
		}
	}
}

// The state is not only safe, it is exact: as much as it says is admitted, and no more.
func TestAnnouncedIsExact(t *testing.T) {
	to, _ := serveFollowed(t, announcing(memory.NewStore(), limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour}))
	f := follow(t, to, "ann")
	f.request("ask", 3)
	f.answers(3)
	f.ask("ask", "say", "no such type")
	one := int64(1)
	want := []shownLimit{
		{Name: "messages", Types: map[string]*int64{"ask": &one}, Limit: 10, Remaining: 7, FullInMs: 3 * 3_600_000, Refill: 1, PerMs: 3_600_000},
		{Name: "messages", Types: map[string]*int64{"say": &one}, Limit: 10, Remaining: 10, Refill: 1, PerMs: 3_600_000},
	}
	for i := range f.last.Limits {
		l := &f.last.Limits[i]
		if i < len(want) && l.Remaining >= want[i].Remaining && l.Remaining < want[i].Remaining+0.1 && l.FullInMs <= want[i].FullInMs && l.FullInMs > want[i].FullInMs-300_000 {
			l.Remaining, l.FullInMs = want[i].Remaining, want[i].FullInMs // some time has passed
		}
	}
	if !reflect.DeepEqual(f.last.Limits, want) || !reflect.DeepEqual(f.last.Seen, map[string]int64{"ask": 0, "say": 0}) {
		t.Fatalf("the answer is %+v", f.last)
	}
	f.request("ask", 5)
	f.answers(5)
	f.until("ask", 5)
	if n := f.fits("ask"); n != 2 {
		t.Errorf("%d messages fit after 8 of 10", n)
	}
	f.request("ask", 3)
	if n := f.answers(3); n != 2 {
		t.Errorf("%d messages were admitted where 2 fit", n)
	}
}

// inBubble runs a subtest in a bubble.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// A client that sends as fast as it can gets a few frames a second, and then the state in the end.
func TestFollowingDoesNotFlood(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy limit.Policy
		most   func(time.Duration) int
	}{
		{"all admitted", limit.TokenBucket{Capacity: 30_000_000, Refill: 1, Per: time.Second}, func(d time.Duration) int { return int(d/(250*time.Millisecond)) + 1 }},
		{"nearly all refused", limit.TokenBucket{Capacity: 10, Refill: 20, Per: time.Second}, func(d time.Duration) int { return int(d/time.Second) + 1 }},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			to, _ := serveFollowed(t, announcing(memory.NewStore(), tc.policy))
			f := follow(t, to, "mallory")
			sent, began := int64(0), time.Now()
			f.ask("ask")
			for time.Since(began) < 1500*time.Millisecond {
				f.request("ask", 100)
				f.answers(100)
				sent += 100
				time.Sleep(10 * time.Millisecond)
			}
			if most := tc.most(time.Since(began)); f.frames > most {
				t.Errorf("%d frames came in %v, for %d messages; want at most %d", f.frames, time.Since(began), sent, most)
			}
			f.until("ask", sent)
		})
	}
}

// While messages are refused all the time no frame comes, and one when that has ended.
func TestNoLimitsDuringAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := routertest.New(t, newRouter(announcing(memory.NewStore(), limit.TokenBucket{Capacity: 10, Refill: 20, Per: time.Second})).Router)
		c := dial(s, "mallory")
		frames := func() (n int) {
			synctest.Wait()
			for _, f := range c.Frames() {
				if f.Type == "$ws:limits" {
					n++
				}
			}
			return n
		}
		routertest.ExpectReply[shown](c.Request("$ws:limits", map[string]any{"types": []string{"say"}}))
		for range 100 {
			for range 20 {
				c.Send("say", nil)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := frames(); n > 1 { // at the beginning, before many were refused
			t.Errorf("%d frames came in 10 s with 200 messages a second, of which 20 were admitted", n)
		}
		time.Sleep(2 * time.Second)
		if n := frames(); n != 1 {
			t.Errorf("%d frames came after the flood", n)
		}
		for range 60 { // after a second, one in three is refused, which is no flood
			for range 3 {
				c.Send("say", nil)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if n := frames(); n < 6 || n > 12 {
			t.Errorf("%d frames came in 8 s, in which messages were refused from time to time", n)
		}
		for range 40 {
			c.Send("say", nil)
			time.Sleep(100 * time.Millisecond)
		}
		if n := frames(); n < 12 || n > 17 {
			t.Errorf("%d frames came in 4 s, want one in 250 ms", n)
		}
	})
}

// Without a request nothing comes, and after a request for no types nothing more.
func TestOnlyRequestedLimitsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := serveFollowed(t, announcing(memory.NewStore(), limit.TokenBucket{Capacity: 100, Refill: 1, Per: time.Hour}))
		f := follow(t, to, "ann")
		quiet := func(when string) {
			t.Helper()
			frames := f.frames
			for range 5 {
				f.request("ask", 1)
				f.answers(1)
				time.Sleep(60 * time.Millisecond)
			}
			if f.frames > frames {
				t.Errorf("%s, %d frames came", when, f.frames-frames)
			}
		}
		quiet("without a request")
		f.ask("ask")
		if code := f.ask("ask"); code != string(errors.ResourceExhausted) {
			t.Errorf("a second request at once is answered %q", code)
		}
		f.request("ask", 1)
		f.until("ask", 1)
		time.Sleep(time.Second)
		if code := f.ask(); code != "" || len(f.last.Limits) > 0 {
			t.Errorf("a request for no types is answered %q %+v", code, f.last)
		}
		quiet("after the end")
		for _, payload := range []string{`{"types":"ask"}`, `[]`, `{"types":[` + strings.Repeat(`"a",`, 16) + `"b"]}`} {
			f.ids++
			f.write(fmt.Sprintf(`{"type":"$ws:limits","meta":{"correlationId":"%d"},"payload":%s}`, f.ids, payload))
			if a, _ := f.read(); a.code != string(errors.InvalidArgument) {
				t.Errorf("%s is answered %q", payload, a.code)
			}
		}
		f.write(`{"type":"$ws:limits","payload":{"types":["ask"]}}`)
		if a, _ := f.read(); a.code != string(errors.InvalidArgument) {
			t.Errorf("a request without an id is answered %q", a.code)
		}
	})
}

// Two connections of a user share a limit. Each gets its state with its next message, or when it asks.
func TestConnectionsOfOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := serveFollowed(t, announcing(memory.NewStore(), limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour}))
		phone, laptop := follow(t, to, "ann"), follow(t, to, "ann")
		phone.ask("ask")
		laptop.ask("ask")
		phone.request("ask", 4)
		phone.answers(4)
		phone.until("ask", 4)
		if phone.fits("ask") != 6 || laptop.fits("ask") != 10 || laptop.frames > 0 {
			t.Errorf("after 4 messages, %d fit, and %d on the other connection, which got %d frames", phone.fits("ask"), laptop.fits("ask"), laptop.frames)
		}
		laptop.request("ask", 1)
		laptop.answers(1)
		laptop.until("ask", 1)
		if laptop.fits("ask") != 5 {
			t.Errorf("%d fit after 5 messages on two connections", laptop.fits("ask"))
		}
		time.Sleep(time.Second)
		phone.ask("ask")
		if phone.fits("ask") != 5 {
			t.Errorf("%d fit for the connection that asks again", phone.fits("ask"))
		}
	})
}

// Limits that are not announced, exempt, silent or only tried are not shown.
func TestHiddenLimits(t *testing.T) {
	store := memory.NewStore()
	policy := limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour}
	limiter := func(name string, shadow bool) *limit.Limiter {
		return limit.New(store, policy, limit.Options{Name: name, Shadow: shadow})
	}
	limits, err := rules.New(store, rules.Rules{
		Default: rules.Rule{PerHour: 1, Burst: 20},
		Types: map[string]rules.Rule{
			"say": {Exempt: true}, "report.run": {Silent: true}, "ask": {Cost: 3},
			"trial": {PerHour: 1, Burst: 5, Shadow: true}, "free": {PerMinute: rules.Unlimited},
		},
	}, rules.Options{Limiter: limit.Options{Name: "rules"}, Options: ratelimit.Options{Announce: "rules"}})
	if err != nil {
		t.Fatal(err)
	}
	to, r := serveFollowed(t,
		ratelimit.New(limiter("not.announced", false), ratelimit.PerUserOrIPPerType),
		ratelimit.New(limiter("drop", false), ratelimit.PerUserOrIPPerType, ratelimit.Options{Announce: "drop", Silent: true}),
		ratelimit.New(limiter("shadow", false), ratelimit.PerUserOrIPPerType, ratelimit.Options{Announce: "shadow", Shadow: true}),
		ratelimit.New(limiter("shadow.limiter", true), ratelimit.PerUserOrIPPerType, ratelimit.Options{Announce: "shadow limiter"}),
		ratelimit.NewPerConnection(policy, ratelimit.Options{Announce: "connection", Silent: true}),
		ratelimit.NewAll([]ratelimit.Layer{
			{Limiter: limiter("user", false), Key: ratelimit.PerUser, Announce: "user"},
			{Limiter: limiter("tenant", false), Key: ratelimit.PerTenant},
		}),
		limits.Middleware,
	)
	nothing := func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil }
	router.RPC(r, "trial", nothing)
	router.RPC(r, "free", nothing)
	router.RPC(r, "dropped", nothing, router.RouteOptions{Silent: true})
	own := r.With(ratelimit.New(limiter("own", false), ratelimit.PerUser, ratelimit.Options{Announce: "own"}))
	router.RPC(own, "exempt", nothing, router.RouteOptions{Exempt: true})
	f := follow(t, to, "ann")
	all := []string{"ask", "say", "report.run", "trial", "free", "dropped", "exempt"}
	f.ask(all...)
	got := f.last.names()
	want := []string{"own: exempt 1", "rules: ask 3", "user: ask 1, free 1, report.run 1, say 1, trial 1"}
	if !slices.Equal(got, want) {
		t.Errorf("shown are %q, want %q", got, want)
	}
	for i, typ := range all {
		if typ == "say" {
			continue
		}
		f.request(typ, 1)
		f.answers(1)
		f.until(typ, 1)
		if got := f.last.names(); !slices.Equal(got, want) {
			t.Errorf("after message %d, %s, shown are %q", i, typ, got)
		}
	}
	// Rules that are replaced count with the next message.
	changed := limits.Rules()
	changed.Types["say"], changed.Types["ask"] = rules.Rule{Cost: 2}, rules.Rule{Exempt: true}
	if err := limits.Replace(changed); err != nil {
		t.Fatal(err)
	}
	f.write(`{"type":"say"}`)
	f.request("ask", 1)
	f.answers(1)
	f.until("ask", 2)
	f.until("say", 1)
	want[1] = "rules: say 2"
	if got := f.last.names(); !slices.Equal(got, want) {
		t.Errorf("after other rules, shown are %q, want %q", got, want)
	}
}

// names lists the limits with their types and costs.
func (s *shown) names() (list []string) {
	for _, l := range s.Limits {
		var types []string
		for typ, cost := range l.Types {
			types = append(types, typ+" "+costText(cost))
		}
		slices.Sort(types)
		list = append(list, l.Name+": "+strings.Join(types, ", "))
	}
	slices.Sort(list)
	return list
}

func costText(cost *int64) string {
	if cost == nil {
		return "?"
	}
	return fmt.Sprint(*cost)
}

// A message of any type that shares a state changes what is shown of it.
func TestSharedStateIsShown(t *testing.T) {
	limiter := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour})
	to, _ := serveFollowed(t, ratelimit.New(limiter, ratelimit.PerUser, ratelimit.Options{Announce: "all", Cost: func(c *ingress.Context) int { return 2 }}))
	f := follow(t, to, "ann")
	f.ask("ask")
	if got := f.last.names(); !slices.Equal(got, []string{"all: ask ?"}) || f.last.Limits[0].Remaining != 10 {
		t.Fatalf("shown are %q: %+v", got, f.last)
	}
	f.request("report.run", 2)
	f.answers(2)
	for f.last.Limits[0].Remaining >= 8 {
		f.read()
	}
	if left := f.last.Limits[0].Remaining; left < 6 || left > 6.1 || f.last.Seen["ask"] != 0 {
		t.Errorf("after two messages of another type, the state is %+v", f.last)
	}
}

// Middleware sees a request for limits as such, and its error is the answer.
func TestPeekIsNoMessage(t *testing.T) {
	var counted, peeked []string
	own := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			switch {
			case !c.Peek:
				counted = append(counted, c.Type)
			case c.Type == "say":
				return errors.PermissionDenied.New("not allowed")
			default:
				peeked = append(peeked, c.Type)
			}
			return next(c)
		}
	}
	limited := 0
	limiter := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour})
	to, _ := serveFollowed(t, own, ratelimit.New(limiter, ratelimit.PerUserOrIPPerType, ratelimit.Options{
		Announce: "m", OnLimited: func(*ingress.Context, ratelimit.Limited) { limited++ },
	}))
	f := follow(t, to, "ann")
	f.request("ask", 2)
	f.answers(2)
	if code := f.ask("ask", "report.run"); code != "" || f.fits("ask") != 0 || f.fits("report.run") != 2 {
		t.Errorf("the answer is %q %+v", code, f.last)
	}
	if code := f.ask("say"); code == "" {
		t.Error("a second request within a second is answered")
	}
	if s := limiter.Stats(); s.Denied > 0 || limited > 0 {
		t.Errorf("%d messages were refused, and %d reported", s.Denied, limited)
	}
	if want := []string{"ask", "ask"}; !slices.Equal(counted, want) {
		t.Errorf("counted are %q, want %q", counted, want)
	}
	if want := []string{"ask", "report.run"}; !slices.Equal(peeked, want) {
		t.Errorf("peeked are %q, want %q", peeked, want)
	}
	other := follow(t, to, "bob")
	if code := other.ask("ask", "say"); code != string(errors.PermissionDenied) {
		t.Errorf("a request for a type that is not allowed is answered %q", code)
	}
}

// The limit that is announced is how many messages are admitted when nothing is used, whatever policies it has, in
// whatever order.
func TestAnnouncedLimitsAreReached(t *testing.T) {
	bucket := limit.TokenBucket{Capacity: 6, Refill: 1, Per: time.Hour}
	window, log := limit.FixedWindow{Limit: 9, Window: time.Hour}, limit.SlidingLog{Limit: 3, Window: time.Minute}
	sliding := limit.SlidingWindow{Limit: 4, Window: time.Hour}
	for _, parts := range [][]limit.Policy{
		{window, log}, {log, window}, {window, bucket}, {bucket, window}, {window, sliding, bucket}, {bucket, window, log}, {sliding, log}, {bucket, sliding},
	} {
		inBubble(t, fmt.Sprint(parts), func(t *testing.T) {
			to, _ := serveFollowed(t, announcing(memory.NewStore(), limit.All(parts...)))
			f := follow(t, to, "ann")
			f.ask("ask")
			said := f.last.Limits[0]
			f.request("ask", 20)
			if n := f.answers(20); float64(n) != said.Limit || said.Remaining > float64(n) {
				t.Errorf("%d were admitted, and %+v was announced", n, said)
			}
		})
	}
}
