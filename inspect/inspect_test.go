package inspect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/internal/transcript"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
	"github.com/wskit/wskit/run"
)

// process is a router with its inspector.
type process struct {
	t     *testing.T
	r     *router.Router
	s     *routertest.Server
	url   string
	log   *transcript.Transcript
	rules *rules.Limiter

	exported chan struct{} // each value ends a handler of export.run
}

type said struct {
	Text string `json:"text"`
}

// start starts a process. Its tokens are read and write. The others have all the time to answer.
func start(t *testing.T, name string, broker pubsub.Broker) *process {
	t.Helper()
	return startWithin(t, name, broker, 20*time.Second)
}

// startWithin is start where other processes have a time to answer.
func startWithin(t *testing.T, name string, broker pubsub.Broker, timeout time.Duration) *process {
	t.Helper()
	p := &process{t: t, log: new(transcript.Transcript), exported: make(chan struct{})}
	store := memory.NewStore()
	given, err := rules.Parse([]byte(`{"default": {"perMinute": 60, "burst": 5}, "types": {"report.*": {"perHour": 2, "burst": 2}, "export.run": {"concurrent": 1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.rules, err = rules.New(store, given); err != nil {
		t.Fatal(err)
	}
	exports := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 3, Limiter: limit.Options{Name: "exports"}})
	bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 20})
	p.r = router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req), Tenant: "acme"}, nil
		},
		Backend: adapters.Backend{Broker: broker}, Addressing: router.AddressingOptions{Enabled: broker != nil},
	})
	p.r.Use(bans.Middleware, p.rules.Middleware)
	p.r.History("room:*")
	router.RPC(p.r, "room.join", func(c *router.Context, m said) (said, error) { return m, c.Subscribe("room:" + m.Text) })
	router.RPC(p.r, "room.hour", func(c *router.Context, m said) (said, error) {
		return m, c.Subscribe("room:"+m.Text, router.SubscribeOptions{Until: time.Now().Add(time.Hour)})
	})
	router.RPC(p.r, "report.make", func(_ *router.Context, m said) (said, error) { return m, nil })
	export := p.r.With(ratelimit.NewConcurrency(exports, ratelimit.PerTenant))
	router.RPC(export, "export.run", func(c *router.Context, m said) (said, error) {
		select {
		case <-p.exported:
		case <-c.Done():
		}
		return m, nil
	}, router.RouteOptions{Concurrent: true})
	h := inspect.Handler(p.r, inspect.Options{
		Authorize: func(req *http.Request) (inspect.Viewer, error) {
			switch req.Header.Get("Authorization") {
			case "Bearer read":
				return inspect.Viewer{Name: "reader"}, nil
			case "Bearer write":
				return inspect.Viewer{Name: "writer", Actions: true, Payloads: true}, nil
			case "Bearer act":
				return inspect.Viewer{Name: "writer", Actions: true}, nil // the same viewer, without the right to payloads
			case "Bearer other":
				return inspect.Viewer{}, errors.PermissionDenied.New("not you")
			}
			return inspect.Viewer{}, errors.Unauthenticated.New("secret text")
		},
		Rules: p.rules, Limits: []inspect.Limit{{Concurrency: exports, Key: ratelimit.PerTenant, Types: []string{"export.run"}}},
		Bans: bans, Process: name, Timeout: timeout,
		Logger: slog.New(slog.NewTextHandler(p.log, nil)),
	})
	mux := http.NewServeMux()
	mux.Handle("/inspect/", http.StripPrefix("/inspect", h))
	hs := httptest.NewServer(mux)
	t.Cleanup(hs.Close)
	p.url = hs.URL + "/inspect/"
	p.s = routertest.New(t, p.r)
	return p
}

func (p *process) dial(user string) *routertest.Client {
	return p.s.Dial(routertest.DialOptions{Token: user})
}

// result is what the page gets.
type result struct {
	Processes []struct {
		Process     string
		Error       string
		Connections []struct {
			ID, User, IP string
			Topics       []struct {
				Name  string
				Until time.Time
			}
		}
		Overview struct {
			Limited []struct {
				Tenant, User, Type string
				N                  int
			}
			Runs     []run.Info
			Running  int
			RunTypes []run.TypeStats
		}
		Topics []struct {
			Name, Position string
			Members        int
		}
		N      int
		Limits []struct {
			Limiter, Type, Policy string
			Bound                 bool
			Remaining             int64
			RetryAfter            float64
			Rule                  *struct {
				From       string
				Concurrent struct{ From string }
			}
		}
		Banned  float64
		Recent  []struct{ User, Type, Limiter string }
		Entries []struct {
			N                   int
			Sent                bool
			Type, Conn, Payload string
			Size                int
		}
		Running bool
		Dropped int

		Rules, Version string
	}
	Missing []string
	ID      string
}

func (p *process) do(method, path, token string, body any, header ...string) (status int, r result, text string) {
	p.t.Helper()
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, sent)
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(b, &r); err != nil {
			p.t.Fatalf("%v\n%s", err, b)
		}
	}
	return res.StatusCode, r, string(b)
}

func (p *process) ask(path string) result {
	p.t.Helper()
	status, r, text := p.do("GET", "api/"+path, "read", nil)
	if status != http.StatusOK {
		p.t.Fatalf("%s: %d %s", path, status, text)
	}
	return r
}

func (p *process) act(path string, body any) result {
	p.t.Helper()
	status, r, text := p.do("POST", "api/"+path, "write", body)
	if status != http.StatusOK {
		p.t.Fatalf("%s: %d %s", path, status, text)
	}
	return r
}

type values map[string]any

// Without a right nothing is shown and nothing changes, and what is answered says nothing.
func TestAuthorization(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	c := p.dial("ann")
	routertest.ExpectReply[said](c.Request("room.join", said{"a"}))
	id := p.ask("connections").Processes[0].Connections[0].ID
	closing := values{"id": id}
	for _, x := range []struct {
		method, path, token string
		body                any
		header              []string
		want                int
	}{
		{"GET", "", "", nil, nil, 200}, // the files have no data
		{"GET", "app.js", "", nil, nil, 200},
		{"GET", "api/overview", "", nil, nil, 401},
		{"GET", "api/connections", "wrong", nil, nil, 401},
		{"GET", "api/connections", "other", nil, nil, 403},
		{"GET", "api/nothing", "read", nil, nil, 404},
		{"GET", "api/close?id=" + id, "write", nil, nil, 404}, // changes are no GET
		{"GET", "api/trace?user=ann", "write", nil, nil, 404},
		{"GET", "../api/overview", "", nil, nil, 404},
		{"POST", "api/close", "", closing, nil, 401},
		{"POST", "api/close", "wrong", closing, nil, 401},
		{"POST", "api/close", "read", closing, nil, 403},
		{"POST", "api/rules", "read", values{"rules": "{}"}, nil, 403},
		{"POST", "api/ban", "read", values{"user": "ann", "seconds": 60}, nil, 403},
		{"POST", "api/revoke", "read", values{"user": "ann", "topics": "*"}, nil, 403},
		{"GET", "api/revoke?user=ann&topics=*", "write", nil, nil, 404},
		{"POST", "api/close", "write", closing, []string{"Origin", "https://evil.test"}, 403},
		{"POST", "api/close", "write", closing, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "api/close", "write", closing, []string{"Content-Type", "text/plain"}, 415}, // of a form of another site
		{"POST", "api/overview", "write", values{}, nil, 404},
		{"POST", "api/trace", "write", values{}, nil, 400}, // of all connections
		{"POST", "api/close", "write", "no query", nil, 400},
		{"POST", "api/close", "write", values{"id": strings.Repeat("x", 300)}, nil, 400},
		{"POST", "api/rules", "write", values{"rules": strings.Repeat("x", 300<<10)}, nil, 400},
		{"GET", "api/connections?search=" + strings.Repeat("x", 300), "read", nil, nil, 400},
	} {
		status, _, text := p.do(x.method, x.path, x.token, x.body, x.header...)
		if status != x.want {
			t.Errorf("%s %s with token %q and %v: %d, want %d: %s", x.method, x.path, x.token, x.header, status, x.want, text)
		}
		if strings.HasPrefix(x.path, "api/") && (strings.Contains(text, "ann") || strings.Contains(text, "secret")) {
			t.Errorf("%s %s with token %q answers %s", x.method, x.path, x.token, text)
		}
	}
	if n := len(p.ask("connections").Processes[0].Connections); n != 1 {
		t.Fatalf("%d connections are open", n)
	}
	if got := p.act("close", closing); got.Processes[0].N != 1 {
		t.Errorf("closed: %+v", got)
	}
	c.ExpectClose(errors.ClosePolicy)
	if log := p.log.String(); !strings.Contains(log, "viewer=writer action=close") || !strings.Contains(log, "conn="+id) {
		t.Errorf("the log says\n%s", log)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]inspect.Options{
		"Options.Authorize is nil": {},
		"Options.Timeout is -1s":   {Authorize: anyone, Timeout: -time.Second},
		"Options.Process has 300":  {Authorize: anyone, Process: strings.Repeat("x", 300)},
		"Options.Limits[0] needs":  {Authorize: anyone, Limits: []inspect.Limit{{}}},
		"Options.LoginURL is":      {Authorize: anyone, LoginURL: "javascript:alert(1)"},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panics with %q, want %q", got, want)
				}
			}()
			inspect.Handler(router.New(), o)
		}()
	}
}

func anyone(*http.Request) (inspect.Viewer, error) { return inspect.Viewer{}, nil }

// Connections and topics of all processes are found; one that does not answer is named.
func TestProcesses(t *testing.T) {
	broker := memory.NewBroker()
	one, two := start(t, "one", broker), start(t, "two", broker)
	for _, user := range []string{"ann", "anna"} {
		routertest.ExpectReply[said](one.dial(user).Request("room.join", said{"a"}))
	}
	routertest.ExpectReply[said](two.dial("bob").Request("room.join", said{"b"}))
	found := func(search string) (users []string) {
		t.Helper()
		r := one.ask("connections?search=" + search)
		for _, a := range r.Processes {
			for _, c := range a.Connections {
				users = append(users, c.User+"@"+a.Process)
			}
		}
		slices.Sort(users)
		return users
	}
	poll.Until(t, "both processes to answer", func() bool { return len(one.ask("overview").Processes) == 2 })
	for search, want := range map[string][]string{
		"": {"ann@one", "anna@one", "bob@two"}, "ANN": {"ann@one", "anna@one"}, "room:b": {"bob@two"}, "nothing": nil,
	} {
		if got := found(search); !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", search, got, want)
		}
	}
	r := two.ask("topics?search=room")
	var topics []string
	for _, a := range r.Processes {
		for _, topic := range a.Topics {
			topics = append(topics, fmt.Sprint(topic.Name, " ", topic.Members, " ", topic.Position != ""))
		}
	}
	slices.Sort(topics)
	if want := []string{"room:a 2 true", "room:b 1 true"}; !slices.Equal(topics, want) || len(r.Missing) > 0 {
		t.Errorf("the topics are %q, missing %q; want %q", topics, r.Missing, want)
	}
	_ = two.r.Shutdown(t.Context())
	poll.Until(t, "the process that has ended to be forgotten", func() bool {
		r := one.ask("overview")
		return len(r.Processes) == 1 && len(r.Missing) == 0
	})
}

// A process that is there and does not answer is reported, and delays the others no longer than Timeout.
func TestProcessThatDoesNotAnswer(t *testing.T) {
	broker := memory.NewBroker()
	one := startWithin(t, "one", broker, time.Second)
	poll.Until(t, "the process to answer itself", func() bool { return len(one.ask("overview").Processes) == 1 })
	sub, err := broker.Subscribe(t.Context(), "$ws:inspect", func(pubsub.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if r := one.ask("overview"); len(r.Processes) != 1 || len(r.Missing) != 1 {
		t.Errorf("%d processes have answered, and %q are missing", len(r.Processes), r.Missing)
	}
	// What others write into the topic does no harm.
	for _, frame := range []string{"", "{", `{"from":"x","n":1,"query":{"do":"nothing"}}`, `{"from":"x","n":1,"answer":{}}`, `{"from":"x","n":1,"query":null}`, strings.Repeat("x", 2<<20)} {
		if err := broker.Publish(t.Context(), pubsub.Message{Topic: "$ws:inspect", Frame: []byte(frame)}); err != nil {
			t.Fatal(err)
		}
	}
	one.ask("overview")
}

// The page says what limits a client, what is left, and what was rejected.
func TestWhy(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	ann := p.dial("ann")
	for range 2 {
		routertest.ExpectReply[said](ann.Request("report.make", said{"x"}))
	}
	ann.Request("report.make", said{"x"}).ExpectError(errors.ResourceExhausted)
	var r result
	poll.Until(t, "the rejection to be known", func() bool {
		r = p.ask("why?tenant=acme&user=ann")
		return len(r.Processes[0].Recent) == 1
	})
	a := r.Processes[0]
	if len(a.Limits) != 1 || a.Limits[0].Type != "report.make" || !a.Limits[0].Bound || a.Limits[0].Remaining != 0 || a.Limits[0].RetryAfter < 1700 ||
		a.Limits[0].RetryAfter > 1800 || a.Limits[0].Rule == nil || !strings.Contains(a.Limits[0].Rule.From, "report.*") {
		t.Errorf("the limits are %+v", a.Limits)
	}
	if a.Recent[0].Type != "report.make" || a.Recent[0].User != "ann" {
		t.Errorf("the rejections are %+v", a.Recent)
	}
	// Reading takes nothing, and others are not limited.
	for range 5 {
		for _, l := range p.ask("why?tenant=acme&user=ann&type=room.join").Processes[0].Limits {
			if l.Bound || l.Remaining != 5 {
				t.Errorf("the limit of another type is %+v", l)
			}
		}
		if a := p.ask("why?tenant=acme&user=bob&type=report.make").Processes[0]; a.Limits[0].Bound || len(a.Recent) != 0 {
			t.Errorf("Bob's are %+v", a)
		}
	}
	// New rules apply at once.
	if r := p.act("rules", values{"rules": `{"default": {"perMinute": 1, "burst": 0}}`}); r.Processes[0].Error == "" {
		t.Error("rules that are not valid were taken")
	}
	if r := p.act("rules", values{"rules": `{"default": {"perMinute": 600, "burst": 50}}`}); r.Processes[0].Error != "" {
		t.Error(r.Processes[0].Error)
	}
	if l := p.ask("why?tenant=acme&user=ann&type=report.make").Processes[0].Limits[0]; l.RetryAfter > 1 { // what was used stays used
		t.Errorf("after the rules were replaced: %+v", l)
	}
}

// The page says that a client has too many messages handled at a time, by which rule, and for how many there is room.
func TestWhyOfConcurrencyLimits(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	state := func(user string) (ofRule, ofTenant int64) {
		t.Helper()
		limits := p.ask("why?tenant=acme&user=" + user + "&type=export.run").Processes[0].Limits
		if len(limits) != 3 {
			t.Fatalf("the limits are %+v", limits)
		}
		rule, tenant := limits[1], limits[2]
		if rule.Policy != "concurrency" || rule.Bound != (rule.Remaining == 0) || rule.RetryAfter != 0 || rule.Rule.Concurrent.From != "types[\"export.run\"].concurrent" ||
			tenant.Limiter != "exports" || tenant.Policy != "concurrency" || tenant.Bound || tenant.Rule != nil {
			t.Errorf("the limits are %+v", limits)
		}
		return rule.Remaining, tenant.Remaining
	}
	is := func(user string, wantRule, wantTenant int64) func() bool {
		return func() bool {
			rule, tenant := state(user)
			return rule == wantRule && tenant == wantTenant
		}
	}
	if !is("ann", 1, 3)() {
		t.Error("something is held before")
	}
	ann := p.dial("ann")
	first := ann.Request("export.run", said{"x"})
	poll.Until(t, "a place to be held", is("ann", 0, 2))
	ann.Request("export.run", said{"x"}).ExpectError(errors.ResourceExhausted)
	if !is("bob", 1, 2)() {
		t.Error("Bob has no place of his own")
	}
	p.exported <- struct{}{}
	routertest.ExpectReply[said](first)
	poll.Until(t, "the place to be free", is("ann", 1, 3))
	if r := p.act("rules", values{"rules": `{"default": {"perMinute": 60, "burst": 5}, "allow": [{"tenant": "acme", "user": "ann"}], "types": {"export.run": {"concurrent": 1}}}`}); r.Processes[0].Error != "" {
		t.Error(r.Processes[0].Error)
	}
	if n := len(p.ask("why?tenant=acme&user=ann&type=export.run").Processes[0].Limits); n != 2 {
		t.Errorf("%d limits of a client that the rules allow everything, want the rate and the tenant's", n)
	}
}

// A ban is shown, and ended on demand.
func TestBan(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	ann := p.dial("ann")
	for range 22 { // 2 fit, and 20 rejections are a ban
		ann.Request("report.make", said{"x"})
	}
	ann.ExpectClose(errors.CloseTooManyRequests)
	if a := p.ask("why?tenant=acme&user=ann").Processes[0]; a.Banned < 200 || a.Banned > 300 {
		t.Errorf("the ban is %v s", a.Banned)
	}
	p.act("unban", values{"tenant": "acme", "user": "ann"})
	if a := p.ask("why?tenant=acme&user=ann").Processes[0]; a.Banned != 0 {
		t.Errorf("the ban is %v s after it was ended", a.Banned)
	}
}

// A trace has the messages of one user in both directions, those of connections that are opened later as well, and
// payloads only for viewers that may see them.
func TestTrace(t *testing.T) {
	broker := memory.NewBroker()
	one, two := start(t, "one", broker), start(t, "two", broker)
	poll.Until(t, "both processes to answer", func() bool { return len(one.ask("overview").Processes) == 2 })
	ann, bob := one.dial("ann"), one.dial("bob")
	status, seen, text := one.do("POST", "api/trace", "write", values{"tenant": "acme", "user": "ann", "seconds": 60, "payloads": true})
	if status != 200 {
		t.Fatal(text)
	}
	_, hidden, _ := one.do("POST", "api/trace", "read", values{"tenant": "acme", "user": "ann", "seconds": 60, "payloads": true})
	later := two.dial("ann")
	for _, c := range []*routertest.Client{ann, bob, later} {
		routertest.ExpectReply[said](c.Request("room.join", said{"secret"}))
	}
	read := func(id, viewer string) (lines []string) {
		t.Helper()
		_, r, _ := one.do("GET", "api/entries?id="+id, viewer, nil)
		for _, a := range r.Processes {
			for _, e := range a.Entries {
				lines = append(lines, fmt.Sprintf("%s %v %s %v", a.Process, e.Sent, e.Type, strings.Contains(e.Payload, "secret")))
			}
		}
		slices.Sort(lines)
		return lines
	}
	for id, payloads := range map[string]bool{seen.ID: true, hidden.ID: false} {
		want := []string{
			"one false room.join " + fmt.Sprint(payloads), "one true $ws:subscribed " + fmt.Sprint(payloads), "one true room.join.reply " + fmt.Sprint(payloads),
			"two false room.join " + fmt.Sprint(payloads), "two true $ws:subscribed " + fmt.Sprint(payloads), "two true room.join.reply " + fmt.Sprint(payloads),
		}
		viewer, other := "read", "write"
		if payloads {
			viewer, other = "write", "read"
		}
		if got := read(id, other); len(got) > 0 {
			t.Errorf("the trace of another viewer is shown: %q", got)
		}
		if got := read(id, viewer); !slices.Equal(got, want) {
			t.Errorf("the trace is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if strings.Contains(one.log.String(), "room:secret") || !strings.Contains(one.log.String(), "viewer=reader") {
		t.Errorf("the log says\n%s", one.log)
	}
	// At most four run in a process, and a trace that is not read stays bounded.
	for range 2 {
		one.act("trace", values{"user": "x", "seconds": 60})
	}
	if r := one.act("trace", values{"user": "x", "seconds": 60}); r.Processes[0].Error == "" {
		t.Error("a fifth trace was begun")
	}
}

// A trace that nothing reads keeps a bounded number of messages, and ends by itself.
func TestTraceIsBounded(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	given, _ := rules.Parse([]byte(`{"disabled": true}`))
	if err := p.rules.Replace(given); err != nil {
		t.Fatal(err)
	}
	ann := p.dial("ann")
	id := p.act("trace", values{"tenant": "acme", "user": "ann", "seconds": 300, "payloads": true}).ID
	for range 400 {
		routertest.ExpectReply[said](ann.Request("report.make", said{strings.Repeat("x", 10_000)}))
	}
	_, r, _ := p.do("GET", "api/entries?id="+id, "write", nil)
	a := r.Processes[0]
	if len(a.Entries) != 500 || a.Dropped != 300 || len(a.Entries[0].Payload) > 2<<10 || a.Entries[0].Size < 10_000 {
		t.Errorf("%d entries are kept, %d were dropped, the payload has %d bytes", len(a.Entries), a.Dropped, len(a.Entries[0].Payload))
	}
	id = p.act("trace", values{"tenant": "acme", "user": "ann", "seconds": 1}).ID
	poll.Until(t, "the trace to end", func() bool {
		_, r, _ := p.do("GET", "api/entries?id="+id, "write", nil)
		return !r.Processes[0].Running
	})
}

// A trace does not allow its viewer to act for the client: it has no tokens and no tickets, also where the client makes
// mistakes.
func TestTraceHasNoSecrets(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	ann := p.dial("ann")
	id := p.act("trace", values{"tenant": "acme", "user": "ann", "seconds": 60, "payloads": true}).ID
	routertest.ExpectReply[said](ann.Request("room.join", said{"lobby"}))
	subscribed := routertest.ExpectEvent[struct {
		Pos    string `json:"pos"`
		Ticket string `json:"ticket"`
	}](ann, "$ws:subscribed")
	if subscribed.Ticket == "" {
		t.Fatal("there is no ticket")
	}
	for _, frame := range []string{
		`{"type":"$ws:renew","meta":{"correlationId":"1"},"payload":{"token":"s3cret"}}`,
		`{"type":"$ws:renew","payload":{"token":["s3cret"]}}`,
		`{"type":"$ws:renew","payload":{"token":"s3cret"}`,
		`{"type":"\u0024ws:renew","payload":{"\u0074oken":"s3cret"}}`,
		`{"type":"$ws:resume","meta":{"correlationId":"2"},"payload":{"topics":[{"ticket":"` + subscribed.Ticket + `","pos":"` + subscribed.Pos + `"}]}}`,
	} {
		ann.SendRaw(frame)
	}
	routertest.ExpectReply[said](ann.Request("report.make", said{"the end"}))
	_, r, text := p.do("GET", "api/entries?id="+id, "write", nil)
	var types []string
	for _, e := range r.Processes[0].Entries {
		types = append(types, e.Type)
	}
	for _, typ := range []string{"room.join", "$ws:subscribed", "$ws:renew", "$ws:resume", "report.make"} {
		if !slices.Contains(types, typ) {
			t.Errorf("the trace has no %s: %q", typ, types)
		}
	}
	if strings.Contains(text, "s3cret") || strings.Contains(text, subscribed.Ticket) {
		t.Errorf("a secret is in the trace:\n%s", text)
	}
	if !strings.Contains(text, "the end") || !strings.Contains(text, subscribed.Pos) {
		t.Errorf("the trace has no payloads:\n%s", text)
	}
}

// A viewer without the right to payloads gets none, whatever the page asks for, and whether the right was missing when
// the trace began or when it is read.
func TestTraceWithoutThePayloads(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	ann := p.dial("ann")
	for _, tokens := range [][2]string{{"act", "act"}, {"act", "write"}, {"write", "act"}} {
		status, trace, text := p.do("POST", "api/trace", tokens[0], values{"tenant": "acme", "user": "ann", "seconds": 60, "payloads": true})
		if status != http.StatusOK {
			t.Fatal(status, text)
		}
		routertest.ExpectReply[said](ann.Request("room.join", said{"the end"}))
		_, _, text = p.do("GET", "api/entries?id="+trace.ID, tokens[1], nil)
		if !strings.Contains(text, "room.join") || strings.Contains(text, "the end") {
			t.Errorf("begun with %s, read with %s:\n%s", tokens[0], tokens[1], text)
		}
	}
}

// A list of 10,000 connections is not sent as a whole.
func TestManyConnections(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	n := 10_000
	if race.Enabled { // it allows 8,128 goroutines
		n = 1_000
	}
	for i := range n {
		p.dial(fmt.Sprintf("user%d", i))
	}
	status, r, text := p.do("GET", "api/connections", "read", nil)
	if a := r.Processes[0]; status != 200 || len(a.Connections) != 100 || a.N != n || len(text) > 64<<10 {
		t.Errorf("%d of %d connections in %d bytes", len(a.Connections), a.N, len(text))
	}
	if a := p.ask("connections?search=" + fmt.Sprint("user", n-1)).Processes[0]; len(a.Connections) != 1 || a.Connections[0].User != fmt.Sprint("user", n-1) {
		t.Errorf("the search finds %+v", a.Connections)
	}
}
