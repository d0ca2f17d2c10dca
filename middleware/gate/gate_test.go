package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// patience is how long a test waits before it calls something hung.
const patience = time.Minute

// house is a server with a gate, on a real socket, whose limits go by a clock that
// stands still.
type house struct {
	t     *testing.T
	clock *limittest.Clock
	store memory.Store
	gate  *gate.Gate
	r     *router.Router
	addr  string
}

// bearer authenticates a token that begins with "user-" as that user.
func bearer(r *http.Request) (ingress.Identity, error) {
	switch token := ingress.Token(r); {
	case token == "":
		return ingress.Identity{}, nil
	case strings.HasPrefix(token, "user-"):
		return ingress.Identity{User: token}, nil
	case token == "panic":
		panic("authentication fails")
	default:
		return ingress.Identity{}, errors.Unauthenticated.New("unknown token")
	}
}

// few is a rate that a test reaches.
var few = limit.TokenBucket{Capacity: 5, Refill: 10, Per: time.Minute}

func open(t *testing.T, o gate.Options, more ...func(*router.Options)) *house {
	t.Helper()
	h := &house{t: t, clock: limittest.NewClock()}
	h.store = memory.NewStore(memory.Options{Now: h.clock.Now})
	if o.OnRefused == nil {
		o.OnRefused = func(gate.Refusal) {}
	}
	if o.PerIP == nil {
		o.PerIP = few
	}
	h.gate = gate.New(h.store, o)
	opts := router.Options{Gate: h.gate, Authenticate: bearer, OnError: func(router.Fault) {}}
	for _, change := range more {
		change(&opts)
	}
	h.r = router.New(opts)
	router.RPC(h.r, "echo", func(_ *router.Context, m string) (string, error) { return m, nil })
	s := &http.Server{Handler: h.r, ReadHeaderTimeout: patience}
	h.addr = serve(t, s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		h.empty()
	})
	return h
}

func serve(t *testing.T, s *http.Server) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return ln.Addr().String()
}

// dial opens a connection, with header fields "Name: value".
func (h *house) dial(fields ...string) (*websocket.Conn, *http.Response) {
	h.t.Helper()
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	for _, f := range fields {
		if name, value, _ := strings.Cut(f, ": "); name == "Sec-WebSocket-Protocol" {
			o.Subprotocols = strings.Split(value, ", ")
		} else {
			o.HTTPHeader.Add(name, value)
		}
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	c, res, err := websocket.Dial(ctx, "ws://"+h.addr+"/", o)
	if err != nil && res == nil {
		h.t.Fatal(err)
	}
	if err == nil {
		h.t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, res
}

// expect opens a connection and demands a status.
func (h *house) expect(status int, fields ...string) *websocket.Conn {
	h.t.Helper()
	c, res := h.dial(fields...)
	if res.StatusCode != status {
		body, _ := io.ReadAll(res.Body)
		h.t.Fatalf("answered %s %s, want %d", res.Status, body, status)
	}
	return c
}

// empty waits until nothing of any connection is left.
func (h *house) empty() {
	h.t.Helper()
	eventually(h.t, "all leases to be released", func() bool { return h.store.Stats().Held == 0 && h.r.Stats().Connections == 0 })
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}

type problemBody struct {
	Type, Title, Detail, Code, TraceID string
	Status                             int
	RetryAfterMs                       int64
	Violated                           []string `json:"violated-policies"`
}

func problemOf(t *testing.T, res *http.Response) (p problemBody) {
	t.Helper()
	body, _ := io.ReadAll(res.Body)
	if err := json.Unmarshal(body, &p); err != nil || p.Status != res.StatusCode || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%s %q: %v", res.Header.Get("Content-Type"), body, err)
	}
	if p.TraceID != res.Header.Get("X-Trace-Id") || !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(p.TraceID) {
		t.Errorf("the trace is %q in the body and %q in the header", p.TraceID, res.Header.Get("X-Trace-Id"))
	}
	return p
}

func headers(res *http.Response, names ...string) string {
	var all []string
	for _, n := range names {
		all = append(all, strings.Join(res.Header.Values(n), ","))
	}
	return strings.Join(all, " ")
}

// By default an office gets in: sixty users behind one address connect at once. A user who connects as fast as possible
// is refused after five, and their address after a hundred.
func TestAnOfficeIsAdmitted(t *testing.T) {
	gate := gate.New(memory.NewStore(memory.Options{Now: limittest.NewClock().Now}), gate.Options{OnRefused: func(gate.Refusal) {}})
	admit := func(user string) error {
		r := httptest.NewRequest("GET", "/ws", nil)
		r.Header.Set("Authorization", "Bearer "+user)
		_, err := gate.Admit(r, netip.MustParseAddr("203.0.113.1"))
		return err
	}
	for i := range 60 {
		if err := admit(fmt.Sprint("user ", i)); err != nil {
			t.Errorf("user %d is refused: %v", i, err)
		}
	}
	for i := range 6 {
		if err := admit("hasty"); (err == nil) != (i < 5) {
			t.Errorf("connection %d of one user: %v", i, err)
		}
	}
	refused := 0
	for i := range 60 {
		if err := admit(fmt.Sprint("user ", i)); err != nil {
			refused++
		}
	}
	if refused != 60-35 { // of the hundred, 65 are used
		t.Errorf("%d of 60 second tabs are refused", refused)
	}
}

func TestOpeningTooFast(t *testing.T) {
	var refusals []gate.Refusal
	h := open(t, gate.Options{RateLimitDraft10: true, OnRefused: func(r gate.Refusal) { refusals = append(refusals, r) }})
	for range 5 {
		h.expect(101)
	}
	h.clock.Advance(500 * time.Millisecond)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	_, res := h.dial("traceparent: 00-" + trace + "-00f067aa0ba902b7-01")
	p := problemOf(t, res)
	if res.StatusCode != 429 || p.Code != "RESOURCE_EXHAUSTED" || p.RetryAfterMs != 5500 || p.TraceID != trace ||
		p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" ||
		len(p.Violated) != 1 || p.Violated[0] != "connections-per-ip" {
		t.Errorf("%s %+v", res.Status, p)
	}
	got := headers(res, "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit")
	if want := `6 5 0 30 "connections-per-ip";q=10;w=60 "connections-per-ip";r=0;t=6`; got != want {
		t.Errorf("the header says\n%s, want\n%s", got, want)
	}
	if len(refusals) != 1 || refusals[0].TraceID != trace || refusals[0].RetryAfter != 5500*time.Millisecond || refusals[0].IP.String() != "127.0.0.1" {
		t.Errorf("%+v", refusals)
	}
	h.clock.Advance(5500 * time.Millisecond)
	h.expect(101)
	_, res = h.dial("traceparent: garbage")
	if p := problemOf(t, res); p.TraceID == trace {
		t.Error("the trace id is not a new one")
	}
	if s := h.gate.Stats(); s.Admitted != 6 || s.Refused != 2 {
		t.Errorf("%+v", s)
	}
}

// A token or a cookie that is made up for each request is no fresh limit,
// and leaves nothing behind; and so is not one for each connection.
func TestMadeUpIdentitiesMeetTheLimitOfTheirAddress(t *testing.T) {
	h := open(t, gate.Options{
		Identify: gate.FirstOf(gate.BySession("sid"), gate.ByBearer, gate.ByAPIKey("X-API-Key")),
	})
	admitted := 0
	for i := range 60 {
		c, res := h.dial([]string{"Authorization: Bearer user-%d", "Cookie: sid=%d", "X-API-Key: %d"}[i%3] + fmt.Sprint(i))
		if res.StatusCode == 101 {
			admitted++
			_ = c.CloseNow()
		}
	}
	if admitted != 5 {
		t.Errorf("%d of 60 made-up identities came in, want the address's 5", admitted)
	}
	if n := h.store.Stats().Keys; n != 1+5 {
		t.Errorf("the store keeps %d keys, want one for the address and one for each that came in", n)
	}
}

// One client does not use up what the others at its address may open.
func TestIdentitiesAreLimitedWithinAnAddress(t *testing.T) {
	h := open(t, gate.Options{PerIP: limit.TokenBucket{Capacity: 100, Refill: 1, Per: time.Hour}})
	for range 5 {
		h.expect(101, "Authorization: Bearer user-ann")
	}
	_, res := h.dial("Authorization: Bearer user-ann")
	if p := problemOf(t, res); res.StatusCode != 429 || p.Violated[0] != "connections-per-identity" {
		t.Errorf("%+v", p)
	}
	h.expect(101, "Authorization: Bearer user-bob")
}

// On request, answers of handshakes that are admitted have the fields of a refusal.
func TestGateHeaderOnSuccess(t *testing.T) {
	names := []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"}
	o := gate.Options{
		PerIP:       limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Minute},
		PerIdentity: limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Minute}, RateLimitDraft10: true,
	}
	h := open(t, o)
	if _, res := h.dial(); strings.TrimSpace(headers(res, names...)) != "" {
		t.Errorf("without the option, the answer has %q", headers(res, names...))
	}
	o.HeaderOnSuccess = true
	h = open(t, o)
	_, res := h.dial("Authorization: Bearer user-ann")
	if got, want := headers(res, names...), `2 1 60 "connections-per-identity";q=1;w=60 "connections-per-identity";r=1;t=60`; res.StatusCode != 101 || got != want {
		t.Errorf("status %d with %s, want %s", res.StatusCode, got, want)
	}
	plain := httptest.NewServer(gate.New(memory.NewStore(), o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := websocket.Accept(w, r, nil); err == nil {
			_ = ws.CloseNow()
		}
	})))
	defer plain.Close()
	ws, res, err := websocket.Dial(t.Context(), plain.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = ws.CloseNow()
	if got, want := headers(res, names...), `3 2 60 "connections-per-ip";q=1;w=60 "connections-per-ip";r=2;t=60`; got != want {
		t.Errorf("behind Handler the answer has %s, want %s", got, want)
	}
}

// A store that cannot charge address and identity in one step gives the same header: that of the rate with less left.
func TestGateHeaderWithoutTakeAll(t *testing.T) {
	for tighter, want := range map[string]string{"ip": `"connections-per-ip";r=1;t=60`, "identity": `"connections-per-identity";r=1;t=60`} {
		o := gate.Options{
			PerIP:       limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Minute},
			PerIdentity: limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Minute},
			Limiter:     limit.Options{Name: "gate"}, MaxTotal: -1, MaxPerIP: -1, MaxPerUser: -1,
			Identify: gate.ByBearer, RateLimitDraft10: true, HeaderOnSuccess: true,
		}
		if tighter == "ip" {
			o.PerIP = limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Minute}
		} else {
			o.PerIdentity = limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Minute}
		}
		for name, store := range map[string]limit.Store{
			"TakeAll": memory.NewStore(), "Take alone": &spyStore{Store: memory.NewStore()},
		} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer user-ann")
			a, err := gate.New(store, o).Admit(r, ingress.PeerIP(r))
			if err != nil {
				t.Fatal(err)
			}
			if got := a.(interface{ Header() http.Header }).Header().Get("RateLimit"); got != want {
				t.Errorf("%s, less left of %s: %s, want %s", name, tighter, got, want)
			}
		}
	}
}

// Neither keys nor the report of a refusal contain a secret.
func TestGateKeepsNoSecrets(t *testing.T) {
	spy := &spyStore{Store: memory.NewStore()}
	var reported strings.Builder
	gate := gate.New(spy, gate.Options{
		Limiter:  limit.Options{Name: "gate"},
		Identify: gate.FirstOf(gate.BySession("sid"), gate.ByBearer, gate.ByAPIKey("X-API-Key")),
		MaxTotal: -1, MaxPerIP: -1, MaxPerUser: -1, PerIP: many,
		OnRefused: func(r gate.Refusal) { fmt.Fprintf(&reported, "%+v %v\n", r, r.Err) },
	})
	for _, f := range []string{"Authorization=Bearer s3cret", "Cookie=sid=s3cret", "X-API-Key=s3cret", "Sec-WebSocket-Protocol=bearer.s3cret"} {
		for range 10 {
			r := httptest.NewRequest("GET", "/", nil)
			name, value, _ := strings.Cut(f, "=")
			r.Header.Set(name, value)
			_, _ = gate.Admit(r, ingress.PeerIP(r))
		}
	}
	if strings.Contains(spy.keys.String()+reported.String(), "s3cret") {
		t.Errorf("a secret is in\n%s%s", spy.keys.String(), reported.String())
	}
	for _, kind := range []string{"session:", "bearer:", "apikey:"} {
		if !strings.Contains(spy.keys.String(), ":"+kind) {
			t.Errorf("no key of kind %s", kind)
		}
	}
}

// spyStore records the keys of its calls, and has no optional operations.
type spyStore struct {
	limit.Store
	keys strings.Builder
}

func (s *spyStore) Take(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	s.keys.WriteString(string(key) + "\n")
	return s.Store.Take(ctx, key, p, cost)
}

// Behind a proxy a client has the address that the trusted proxy saw; one IPv6 host is
// one client; clients without an address are one.
func TestGateCountsClientsByTheirRealAddress(t *testing.T) {
	store := memory.NewStore(memory.Options{Now: limittest.NewClock().Now})
	gate := gate.New(store, gate.Options{PerIP: few, OnRefused: func(gate.Refusal) {}})
	clientIP := ingress.ClientIP(ingress.Trust{Proxies: 1}) // of the router
	admitted := func(address func(i int) string, peer string) (n int) {
		for i := range 20 {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = peer
			if a := address(i); a != "" {
				r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d, %s", i, a))
			}
			if a, err := gate.Admit(r, clientIP(r)); err == nil {
				a.Release()
				n++
			}
		}
		return n
	}
	for name, n := range map[string]int{
		"one address, another claimed each time": admitted(func(int) string { return "198.51.100.1" }, "10.0.0.1:1"),
		"one IPv6 network":                       admitted(func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }, "10.0.0.1:1"),
		"one mapped address":                     admitted(func(int) string { return "::ffff:198.51.100.2" }, "10.0.0.1:1"),
		"no header":                              admitted(func(int) string { return "" }, "10.0.0.2:1"),
		"garbage":                                admitted(func(i int) string { return fmt.Sprint("garbage", i) }, "10.0.0.3:1"),
		"no address":                             admitted(func(int) string { return "" }, "@"),
	} {
		if n != 5 {
			t.Errorf("%s: %d came in, want 5", name, n)
		}
	}
	if n := admitted(func(i int) string { return fmt.Sprintf("198.51.100.%d", 100+i) }, "10.0.0.1:1"); n != 20 {
		t.Errorf("of 20 clients behind a proxy %d came in", n)
	}
}

// The default rate of an address is ten a second after the burst, too.
func TestDefaultRateIsWhatItSays(t *testing.T) {
	clock := limittest.NewClock()
	gate := gate.New(memory.NewStore(memory.Options{Now: clock.Now}), gate.Options{MaxPerIP: -1, MaxTotal: -1})
	r := httptest.NewRequest("GET", "/ws", nil)
	admitted := 0
	for range 600 {
		for a, err := gate.Admit(r, ingress.PeerIP(r)); err == nil; a, err = gate.Admit(r, ingress.PeerIP(r)) {
			a.Release()
			admitted++
		}
		clock.Advance(100 * time.Millisecond)
	}
	if want := 100 + 600 - 1; admitted != want { // the last instant is 100 ms before the minute's end
		t.Errorf("%d connections are opened within a minute, want %d", admitted, want)
	}
}

var many = limit.TokenBucket{Capacity: 100_000, Refill: 1, Per: time.Hour}

func TestOpenConnectionsPerAddress(t *testing.T) {
	h := open(t, gate.Options{PerIP: many, PerIdentity: many, MaxPerIP: 3, RateLimitDraft10: true})
	var all []*websocket.Conn
	for range 3 {
		all = append(all, h.expect(101))
	}
	_, res := h.dial()
	p := problemOf(t, res)
	if res.StatusCode != 429 || p.Violated[0] != "open-per-ip" || p.RetryAfterMs < 5000 || p.RetryAfterMs > 10_000 {
		t.Errorf("%s %+v", res.Status, p)
	}
	if got := headers(res, "X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy"); got != `3 0 "open-per-ip";q=3;qu="concurrent-requests"` {
		t.Error(got)
	}
	_ = all[0].CloseNow()
	eventually(t, "a lease", func() bool { return h.store.Stats().Held == 2*2 })
	h.expect(101)
	h.expect(429)
}

func TestOpenConnectionsInAll(t *testing.T) {
	h := open(t, gate.Options{PerIP: many, MaxTotal: 2})
	h.expect(101)
	h.expect(101)
	_, res := h.dial()
	if p := problemOf(t, res); res.StatusCode != 503 || p.Violated[0] != "open-total" || res.Header.Get("Retry-After") == "" ||
		p.Type != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
		t.Errorf("%s %+v", res.Status, p)
	}
	// A refused client has no lease of the address.
	if n := h.store.Stats().Held; n != 4 {
		t.Errorf("%d leases are held, want 4", n)
	}
}

// The limit per user comes after authentication: no client can use up the leases of another's
// name.
func TestOpenConnectionsPerUser(t *testing.T) {
	h := open(t, gate.Options{PerIP: many, PerIdentity: many, MaxPerUser: 2})
	h.expect(101, "Authorization: Bearer user-ann")
	h.expect(101, "Authorization: Bearer user-ann")
	_, res := h.dial("Authorization: Bearer user-ann")
	if p := problemOf(t, res); res.StatusCode != 429 || p.Violated[0] != "open-per-user" {
		t.Errorf("%s %+v", res.Status, p)
	}
	h.expect(401, "Authorization: Bearer made-up")
	h.expect(101, "Authorization: Bearer user-bob")
	for range 20 {
		h.expect(101) // no user's
	}
}

// However a handshake or a connection ends, its leases are released.
func TestLeasesAreReleased(t *testing.T) {
	h := open(t, gate.Options{PerIP: many, PerIdentity: many, MaxPerIP: 1}, func(o *router.Options) {
		o.OnOpen = func(c *router.Conn) error {
			switch c.Identity().User {
			case "user-refused":
				return errors.PermissionDenied.New("no")
			case "user-panic":
				panic("the hook fails")
			case "user-closed":
				c.Close(errors.CloseNormal, "")
			}
			return nil
		}
	})
	raw := func(send string) {
		nc, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(nc, send)
		_, _ = nc.Read(make([]byte, 1))
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
	}
	const good = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	for name, end := range map[string]func(){
		"a close":                   func() { _ = h.expect(101).Close(websocket.StatusNormalClosure, "") },
		"a lost connection":         func() { _ = h.expect(101).CloseNow() },
		"a reset":                   func() { raw(good) },
		"an unknown token":          func() { h.expect(401, "Authorization: Bearer unknown") },
		"a panic of Authenticate":   func() { h.expect(500, "Authorization: Bearer panic") },
		"OnOpen's error":            func() { _ = h.expect(101, "Authorization: Bearer user-refused").CloseNow() },
		"OnOpen's panic":            func() { _ = h.expect(101, "Authorization: Bearer user-panic").CloseNow() },
		"OnOpen's close":            func() { _ = h.expect(101, "Authorization: Bearer user-closed").CloseNow() },
		"a malformed handshake":     func() { raw(strings.Replace(good, "13", "12", 1)) },
		"a handshake without a key": func() { raw(strings.Replace(good, "-Key:", "-Kex:", 1)) },
		"a violation":               func() { raw(good + "\xf1\x80\x00\x00\x00\x00") },
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			end()
			h.empty()
			_ = h.expect(101).CloseNow() // there is room again
			h.empty()
		})
	}
	h.t = t
}

// A page sees why it is refused: accepted, and closed with a code and the wait.
func TestPagesGetTheRefusal(t *testing.T) {
	h := open(t, gate.Options{PerIP: limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Minute}, MaxTotal: 1, AcceptRefused: true})
	origin := "Origin: http://" + h.addr
	first := h.expect(101, origin)
	c := h.expect(101, origin, "Sec-WebSocket-Protocol: bearer.user-ann, wskit")
	if c.Subprotocol() != "wskit" {
		t.Errorf("the subprotocol is %q; a browser gives up when none is agreed on", c.Subprotocol())
	}
	_, _, err := c.Read(t.Context())
	if e, ok := errors.AsType[websocket.CloseError](err); !ok || e.Code != 4429 || e.Reason != `{"retryAfterMs":60000,"message":"too many connections"}` {
		t.Errorf("closed with %v", err)
	}
	h.expect(429)                             // no page
	h.expect(403, "Origin: http://evil.test") // the origin is refused before the gate
	h.clock.Advance(time.Minute)
	c = h.expect(101, origin)
	_, _, err = c.Read(t.Context())
	if e, ok := errors.AsType[websocket.CloseError](err); !ok || e.Code != 1013 || !strings.HasPrefix(e.Reason, `{"retryAfterMs":`) {
		t.Errorf("closed with %v", err)
	}
	if n := h.store.Stats().Held; n != 2 {
		t.Errorf("%d leases are held, want those of the one connection", n)
	}
	if err := first.Ping(first.CloseRead(t.Context())); err != nil {
		t.Errorf("the open connection: %v", err)
	}
}

// To tell pages is itself limited.
func TestTellingPagesIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate.New(memory.NewStore(), gate.Options{
			PerIP:         limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour},
			AcceptRefused: true, OnRefused: func(gate.Refusal) {},
		})
		for second := range 3 {
			accepted := 0
			for range 1000 {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Origin", "http://example.com")
				_, err := gate.Admit(r, ingress.PeerIP(r))
				if e, ok := errors.AsType[*ingress.Refusal](err); ok && e.Accept {
					accepted++
				}
			}
			if accepted != 100 {
				t.Errorf("after %d s, %d of 1000 refusals are made by accepting, want 100", second, accepted)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestBannedClientsStayOutside(t *testing.T) {
	banned := ""
	h := open(t, gate.Options{PerIP: many, PerIdentity: many, RetryAfter: time.Second,
		Banned: func(_ context.Context, ip netip.Addr, id ingress.Identity) (time.Duration, error) {
			switch {
			case banned == "fault":
				return 0, errors.Unavailable.New("the store fails").WithRetryAfter(time.Second)
			case banned == "ip" && ip == netip.MustParseAddr("127.0.0.1") && !id.Authenticated(), banned != "" && banned == id.User:
				return 90*time.Second + time.Millisecond, nil
			}
			return 0, nil
		}})
	for _, c := range []struct {
		banned   string
		ann, bob int
	}{{"", 101, 101}, {"user-ann", 429, 101}, {"ip", 429, 429}, {"fault", 503, 503}} {
		banned = c.banned
		_, res := h.dial("Authorization: Bearer user-ann")
		if res.StatusCode != c.ann {
			t.Errorf("banned %q: Ann is answered %s, want %d", c.banned, res.Status, c.ann)
		}
		if c.ann == 429 {
			if p := problemOf(t, res); p.RetryAfterMs != 90_001 || res.Header.Get("Retry-After") != "91" || p.Violated[0] != "ban" {
				t.Errorf("%+v %v", p, res.Header)
			}
		}
		h.expect(c.bob, "Authorization: Bearer user-bob")
	}
}

// A flood of refusals is one line a second, with the trace id that the client gets;
// all of them are there at level DEBUG.
func TestRefusalsAreLogged(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelInfo: 1, slog.LevelDebug: 20} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			gate := gate.New(memory.NewStore(), gate.Options{
				PerIP:   limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour},
				Limiter: limit.Options{Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))},
			})
			var refusal *ingress.Refusal
			knock := func() {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Authorization", "Bearer s3cret")
				_, err := gate.Admit(r, ingress.PeerIP(r))
				refusal, _ = errors.AsType[*ingress.Refusal](err)
			}
			for range 21 {
				knock()
			}
			if n := strings.Count(out.String(), "\n"); n != want || strings.Contains(out.String(), "s3cret") {
				t.Errorf("at level %v there are %d lines, want %d:\n%s", level, n, want, out.String())
			}
			time.Sleep(time.Second)
			out.Reset()
			knock()
			for _, part := range []string{`"trace_id":"` + refusal.TraceID + `"`, `"others_since_last_line":19`, `"policy":"connections-per-ip"`, `"subject":"bearer:`} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("the line lacks %s: %s", part, out.String())
				}
			}
		})
	}
}

// After a storm of rejections the client is kept outside for the ban, the others are
// not, and it comes in again afterwards.
func TestBansCloseTheGate(t *testing.T) {
	clock := limittest.NewClock()
	store := memory.NewStore(memory.Options{Now: clock.Now})
	bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 3, Ban: time.Minute, Recheck: time.Nanosecond})
	gate := gate.New(store, gate.Options{
		PerIP: many, PerIdentity: many, Banned: bans.Banned, OnRefused: func(gate.Refusal) {},
	})
	r := router.New(router.Options{Gate: gate, Authenticate: bearer})
	r.Use(bans.Middleware, ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}), ratelimit.PerUserOrIPPerType))
	router.RPC(r, "echo", func(_ *router.Context, m string) (string, error) { return m, nil })
	h := &house{t: t, clock: clock, store: store, gate: gate, r: r, addr: serve(t, &http.Server{Handler: r})}

	for _, fields := range [][]string{{"Authorization: Bearer user-ann"}, nil} {
		c := h.expect(101, fields...)
		for range 4 {
			_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"echo","meta":{"correlationId":"1"},"payload":"hi"}`))
		}
		var err error
		for err == nil {
			_, _, err = c.Read(t.Context())
		}
		if websocket.CloseStatus(err) != 4429 {
			t.Errorf("%v is disconnected with %v", fields, err)
		}
		_, res := h.dial(fields...)
		if p := problemOf(t, res); res.StatusCode != 429 || p.RetryAfterMs != 60_000 || p.Violated[0] != "ban" || res.Header.Get("Retry-After") != "60" {
			t.Errorf("%v is answered %s %+v", fields, res.Status, p)
		}
		if len(fields) > 0 {
			h.expect(101, "Authorization: Bearer user-bob")
		}
		clock.Advance(time.Minute)
		h.expect(101, fields...)
	}
}

func TestOptionsThatMakeNoSensePanic(t *testing.T) {
	store := memory.NewStore()
	for want, o := range map[string]gate.Options{
		"RetryAfter":               {RetryAfter: -1},
		"connections-per-ip":       {PerIP: limit.TokenBucket{}},
		"connections-per-identity": {PerIdentity: limit.FixedWindow{}},
		"limit: Options.Prefix":    {Limiter: limit.Options{Prefix: "a:b"}},
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, want) {
					t.Errorf("panic %q, want one about %q", v, want)
				}
			}()
			gate.New(store, o)
		}()
	}
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "gate: New over a shared store needs a name for its keys: set Options.Limiter to") {
			t.Errorf("panic %q for a store that is shared", v)
		}
	}()
	gate.New(lateStore{})
}
