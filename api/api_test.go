package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/transcript"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type paid struct {
	ID    int    `json:"id" validate:"min=1"`
	Buyer string `json:"buyer" validate:"required,max=20"`
}

const (
	everything = "secret-of-everything"
	billing    = "secret-of-billing-1"
	acme       = "secret-of-acme-team"
	slow       = "secret-of-the-slow1"
)

// service is a server with the API, and another process that shares its broker.
type service struct {
	t    *testing.T
	url  string
	log  *transcript.Transcript
	one  *router.Router // has the API
	two  *routertest.Server
	both [2]*router.Router
}

func start(t *testing.T, change func(*api.Options)) *service {
	t.Helper()
	s := &service{t: t, log: new(transcript.Transcript)}
	store, broker := memory.NewStore(), memory.NewBroker()
	presence := memory.NewPresence()
	bans := ratelimit.NewBans(store)
	messages := limit.New(store, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour}, limit.Options{Name: "messages"})
	for i := range s.both {
		r := router.New(router.Options{
			Authenticate: func(req *http.Request) (ingress.Identity, error) {
				return ingress.Identity{User: ingress.Token(req), Tenant: "acme"}, nil
			},
			Backend:    adapters.Backend{Broker: broker, Presence: presence},
			Addressing: router.AddressingOptions{Enabled: true},
		})
		r.Use(bans.Middleware, ratelimit.New(messages, ratelimit.PerUser))
		r.History("orders:*")
		router.Declare[paid](r, "order.paid", router.EventOptions{Doc: "An order was paid."})
		router.DeclareQuestion[paid, string](r, "order.confirm")
		router.RPC(r, "orders.join", func(c *router.Context, topic string) (bool, error) {
			return true, c.Join(topic, map[string]string{"name": c.Identity.User})
		})
		s.both[i] = r
	}
	s.one, s.two = s.both[0], routertest.New(t, s.both[1])
	o := api.Options{
		Authorize: api.Secrets(map[string]api.Grant{
			everything: {Name: "ops"},
			billing:    {Name: "billing", Calls: []string{"publish", "history"}, Topics: []string{"orders:*"}},
			acme:       {Name: "acme", Tenants: []string{"acme"}},
			slow: {Name: "slow", Limit: limit.New(store, limit.FixedWindow{Limit: 2, Window: 24 * time.Hour}, limit.Options{
				Name: "api",
			})},
		}),
		Bans: bans, Limits: []api.Limit{{Limiter: messages, Key: ratelimit.PerUser}},
		Idempotency: memory.NewIdempotency(),
		Logger:      slog.New(slog.NewTextHandler(s.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", api.Handler(s.one, o))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + "/v1/"
	return s
}

// reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	body   string

	Detail  string
	Code    errors.Code
	Details struct{ Fields []router.FieldError }

	Connections any
	Answer      string
	Members     []struct {
		Connection, User string
		Data             struct{ Name string }
	}
	Messages []struct {
		Type, Pos string
		Payload   paid
	}
	Remaining int64
	Allowed   bool
	Results   []struct {
		Result json.RawMessage
		Error  *struct{ Code errors.Code }
	}
}

func (s *service) do(secret, call, params string, header ...string) (r reply) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+call, strings.NewReader(params))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.status, r.header, r.body = res.StatusCode, res.Header, string(b)
	if err := json.Unmarshal(b, &r); err != nil {
		s.t.Fatalf("%s: %v\n%s", call, err, b)
	}
	return r
}

// must makes a call that has to succeed.
func (s *service) must(call, params string, header ...string) reply {
	s.t.Helper()
	r := s.do(everything, call, params, header...)
	if r.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", call, params, r.status, r.body)
	}
	return r
}

func (s *service) dial(user string) *routertest.Client {
	return s.two.Dial(routertest.DialOptions{Token: user})
}

func (s *service) join(user, topic string) *routertest.Client {
	s.t.Helper()
	c := s.dial(user)
	routertest.ExpectReply[bool](c.Request("orders.join", topic))
	return c
}

// Each call does what it says, for a client of another process.
func TestCalls(t *testing.T) {
	s := start(t, nil)
	ann := s.join("ann", "orders:1")
	s.must("publish", `{"topic":"orders:1","event":"order.paid","data":{"id":7,"buyer":"bob"},"id":"first"}`)
	s.must("publish", `{"topic":"orders:1","event":"order.paid","data":{"id":7,"buyer":"bob"},"id":"first"}`) // again
	s.must("publish", `{"topic":"orders:1","event":"order.paid","data":{"id":8,"buyer":"eve"}}`)
	for _, id := range []int{7, 8} {
		if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.ID != id {
			t.Errorf("the event is %+v, want order %d", got, id)
		}
	}
	s.must("send", `{"tenant":"acme","user":"ann","event":"order.paid","data":{"id":9,"buyer":"bob"}}`)
	if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.ID != 9 {
		t.Errorf("what was sent is %+v", got)
	}

	s.must("send", `{"tenant":"acme","user":"ann","event":"order.paid","data":{"id":10,"buyer":"bob"},"overflow":"latestOnly","key":"a"}`)
	if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.ID != 10 {
		t.Errorf("what was sent, for the latest only, is %+v", got)
	}
	if r := s.must("count", `{"tenant":"acme","user":"ann"}`); r.Connections != 1.0 {
		t.Errorf("count: %s", r.body)
	}
	list := s.must("list", `{"all":true}`)
	connection := list.Connections.([]any)[0].(map[string]any)["id"].(string)
	if r := s.must("count", `{"connection":"`+connection+`"}`); r.Connections != 1.0 {
		t.Errorf("count of one: %s", r.body)
	}
	if r := s.must("presence", `{"topic":"orders:1"}`); len(r.Members) != 1 || r.Members[0].User != "ann" ||
		r.Members[0].Connection != connection || r.Members[0].Data.Name != "ann" {
		t.Errorf("presence: %s", r.body)
	}
	history := s.must("history", `{"topic":"orders:1"}`)
	if len(history.Messages) != 2 || history.Messages[0].Payload.ID != 7 || history.Messages[1].Payload.ID != 8 {
		t.Fatalf("history: %s", history.body)
	}
	s.must("redact", `{"topic":"orders:1","position":"`+history.Messages[0].Pos+`","replacement":{"by":"ops"}}`)
	ann.ExpectAny("$ws:redacted")

	if r := s.must("subscribe", `{"tenant":"acme","user":"ann","topics":["news","orders:2"]}`); r.Connections != 1.0 {
		t.Errorf("subscribe: %s", r.body)
	}
	s.must("publish", `{"topic":"orders:2","event":"order.paid","data":{"id":2,"buyer":"x"}}`)
	routertest.ExpectEvent[paid](ann, "order.paid")
	if r := s.must("unsubscribe", `{"tenant":"acme","user":"ann","topics":["orders:2"]}`); r.Connections != 1.0 {
		t.Errorf("unsubscribe: %s", r.body)
	}
	ann.ExpectAny("$ws:unsubscribed")
	s.must("revoke", `{"tenant":"acme","user":"ann","topics":"orders:*"}`)
	ann.ExpectAny("$ws:unsubscribed")
	if s.both[1].LocalSubscribers("orders:1")+s.both[1].LocalSubscribers("orders:2") != 0 || s.both[1].LocalSubscribers("news") != 1 {
		t.Error("the topics are not those that were left")
	}

	if r := s.must("peek", `{"limiter":"messages","tenant":"acme","user":"ann"}`); r.Remaining != 2 || !r.Allowed {
		t.Errorf("peek: %s", r.body)
	}
	s.must("reset", `{"limiter":"messages","tenant":"acme","user":"ann"}`)
	if r := s.must("peek", `{"limiter":"messages","tenant":"acme","user":"ann"}`); r.Remaining != 3 {
		t.Errorf("peek after reset: %s", r.body)
	}
	if r := s.must("stats", ""); !strings.Contains(r.body, `"Published"`) {
		t.Errorf("stats: %s", r.body)
	}

	s.must("ban", `{"tenant":"acme","user":"eve","seconds":600}`)
	eve := s.dial("eve")
	eve.Request("orders.join", "orders:1")
	eve.ExpectClose(errors.CloseTooManyRequests)
	s.must("unban", `{"tenant":"acme","user":"eve"}`)
	if r := s.must("close", `{"tenant":"acme","user":"ann","code":4001,"reason":"signed out"}`); r.Connections != 1.0 {
		t.Errorf("close: %s", r.body)
	}
	if reason := ann.ExpectClose(4001); reason != "signed out" {
		t.Errorf("the reason is %q", reason)
	}
	if log := s.log.String(); !strings.Contains(log, "sender=ops call=close tenant=acme user=ann") || !strings.Contains(log, "code=OK") {
		t.Errorf("the log says\n%s", log)
	}
}

// What is wrong with a call is said, by the name of the field where there is one, and nothing is sent.
func TestBadCalls(t *testing.T) {
	s := start(t, nil)
	ann := s.join("ann", "orders:1")
	for _, c := range []struct {
		secret, call, params string
		header               []string
		status               int
		says                 string // in the answer
	}{
		{"", "publish", `{}`, nil, 401, "UNAUTHENTICATED"},
		{"secret-of-everythinG", "publish", `{}`, nil, 401, "UNAUTHENTICATED"},
		{everything, "publisch", `{}`, nil, 404, "openapi.json"},
		{everything, "publish", `{"topic":"orders:1","event":"order.payd","data":{}}`, nil, 404, `order.payd`},
		{everything, "publish", `{"topic":"orders:1","event":"order.paid","data":{"id":0,"buyer":"b"}}`, nil, 400, `"path":"id","rule":"min"`},
		{everything, "publish", `{"topic":"orders:1","event":"order.paid","data":{"id":1,"buyer":7}}`, nil, 400, `"path":"buyer","rule":"type"`},
		{everything, "publish", `{"topic":"orders:1","event":"order.paid","data":{"id":1,"buyer":"b","x":1}}`, nil, 400, `"path":"x","rule":"unknown"`},
		{everything, "publish", `{"topic":"orders:1","event":"order.paid"}`, nil, 400, "INVALID_ARGUMENT"},
		{everything, "publish", `{"event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 400, `"path":"topic","rule":"required"`},
		{everything, "publish", `{"topic":"$ws:x","event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 400, "INVALID_ARGUMENT"},
		{everything, "publish", `{"topic":"a","topc":"b"}`, nil, 400, `"path":"topc","rule":"unknown"`},
		{everything, "publish", `{"topic":"a","event":"order.paid","overflow":"later"}`, nil, 400, `"path":"overflow","rule":"oneof"`},
		{everything, "publish", `{"topic":`, nil, 400, "INVALID_ARGUMENT"},
		{everything, "publish", ``, nil, 400, `"path":"topic"`},
		{everything, "publish", `{"topic":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "1048576 bytes"},
		{everything, "publish", `{"topic":"` + strings.Repeat("x", 300) + `","event":"order.paid"}`, nil, 400, `"rule":"max"`},
		{everything, "publish", `{}`, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{everything, "publish", `{}`, []string{"Idempotency-Key", strings.Repeat("k", 200)}, 400, "Idempotency-Key"},
		{everything, "send", `{"event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 400, "which connections"},
		{everything, "send", `{"user":"ann","all":true,"event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 400, "which connections"},
		{everything, "close", `{"all":true,"code":1006}`, nil, 400, "4000"},
		{everything, "subscribe", `{"all":true,"topics":[]}`, nil, 400, `"path":"topics"`},
		{everything, "subscribe", `{"all":true,"topics":["$ws:x"]}`, nil, 400, "INVALID_ARGUMENT"},
		{everything, "revoke", `{"topics":"*"}`, nil, 400, `"path":"user"`},
		{everything, "redact", `{"topic":"orders:1","position":"x"}`, nil, 400, "INVALID_ARGUMENT"},
		{everything, "history", `{"topic":"orders:1","limit":2000}`, nil, 400, `"path":"limit"`},
		{everything, "ban", `{"user":"ann"}`, nil, 400, `"path":"seconds"`},
		{everything, "ban", `{"ip":"300.1.1.1","seconds":1}`, nil, 400, `"path":"ip"`},
		{everything, "unban", `{}`, nil, 400, "user or an ip"},
		{everything, "peek", `{"limiter":"mesages","user":"ann"}`, nil, 404, "mesages"},
		{everything, "batch", `{"calls":[]}`, nil, 400, `"path":"calls"`},
		{everything, "batch", `{"calls":[` + strings.Repeat(`{"call":"stats"},`, 1000) + `{"call":"stats"}]}`, nil, 400, `"path":"calls","rule":"max"`},
		{billing, "publish", `{"topic":"news","event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 403, "topic"},
		{billing, "close", `{"all":true}`, nil, 403, "close"},
		{acme, "send", `{"tenant":"other","user":"ann","event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 403, "tenants"},
		{acme, "send", `{"all":true,"event":"order.paid","data":{"id":1,"buyer":"b"}}`, nil, 403, "tenants"},
		{acme, "close", `{"connection":"x"}`, nil, 403, "tenants"},
		{acme, "ban", `{"ip":"192.0.2.1","seconds":1}`, nil, 403, "tenants"},
		{acme, "batch", `{"calls":[{"call":"close","params":{"all":true}}]}`, nil, 200, "PERMISSION_DENIED"},
	} {
		r := s.do(c.secret, c.call, c.params, c.header...)
		if r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s %.80s: %d %s", c.call, c.params, r.status, r.body)
		}
		if r.status != 200 && r.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.80s: the answer is %s", c.call, c.params, r.header.Get("Content-Type"))
		}
		for _, secret := range []string{everything, billing, acme} {
			if strings.Contains(r.body+s.log.String(), secret) {
				t.Fatalf("%s: the answer or the log has a secret", c.call)
			}
		}
	}
	s.must("publish", `{"topic":"orders:1","event":"order.paid","data":{"id":1,"buyer":"last"}}`)
	if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.Buyer != "last" {
		t.Errorf("a bad call has sent %+v", got)
	}
	if r, err := http.Get(s.url + "publish"); err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET without a secret: %v, %v", r, err)
	}
}

// A request that is sent again with its key gets the first answer, and does nothing.
func TestIdempotencyKey(t *testing.T) {
	s := start(t, nil)
	ann := s.join("ann", "news")
	const params = `{"topic":"news","event":"order.paid","data":{"id":1,"buyer":"b"}}`
	s.must("publish", params, "Idempotency-Key", "k1")
	s.must("publish", params, "Idempotency-Key", "k1")
	if r := s.do(everything, "publish", strings.Replace(params, "1", "2", 1), "Idempotency-Key", "k1"); r.status != 422 || r.Code != errors.FailedPrecondition {
		t.Errorf("another request with the key: %d %s", r.status, r.body)
	}
	if r := s.do(billing, "publish", strings.Replace(params, "news", "orders:1", 1), "Idempotency-Key", "k1"); r.status != 200 {
		t.Errorf("the key of another sender: %d %s", r.status, r.body)
	}
	bad := `{"topic":"news","event":"order.paid","data":{"id":0,"buyer":"b"}}`
	first := s.do(everything, "publish", bad, "Idempotency-Key", "k2")
	again := s.do(everything, "publish", bad, "Idempotency-Key", "k2")
	if first.status != 400 || again.status != 400 || again.body != first.body {
		t.Errorf("a refusal, and the one that was kept:\n%s\n%s", first.body, again.body)
	}
	s.must("publish", strings.Replace(params, `"b"`, `"last"`, 1))
	if a, b := routertest.ExpectEvent[paid](ann, "order.paid"), routertest.ExpectEvent[paid](ann, "order.paid"); a.Buyer != "b" || b.Buyer != "last" {
		t.Errorf("the events are %+v, %+v", a, b)
	}
	without := start(t, func(o *api.Options) { o.Idempotency = nil })
	if r := without.do(everything, "publish", params, "Idempotency-Key", "k1"); r.status != http.StatusNotImplemented {
		t.Errorf("a server that keeps no answers: %d %s", r.status, r.body)
	}
}

// A secret has a rate, over all its calls, those of batches too.
func TestLimitOfASecret(t *testing.T) {
	s := start(t, nil)
	r := s.do(slow, "batch", `{"calls":[{"call":"count","params":{"all":true}},{"call":"count","params":{"all":true}},{"call":"count","params":{"all":true}}]}`)
	refused := 0
	for _, one := range r.Results {
		if one.Error != nil && one.Error.Code == errors.ResourceExhausted {
			refused++
		}
	}
	if len(r.Results) != 3 || refused != 1 {
		t.Errorf("three calls where two fit: %s", r.body)
	}
	if r := s.do(slow, "stats", ""); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("a call over the rate: %d %s", r.status, r.body)
	}
	s.must("stats", "")
}

// The calls of a batch are made in their order, and one that fails does not stop the others.
func TestBatch(t *testing.T) {
	s := start(t, nil)
	ann := s.join("ann", "orders:1")
	var calls []string
	for i := range 100 {
		calls = append(calls, `{"call":"publish","params":{"topic":"orders:1","event":"order.paid","data":{"id":`+
			string(must(json.Marshal(i)))+`,"buyer":"b"}}}`) // 0 is not valid
	}
	calls = append(calls, `{"call":"nothing"}`)
	for i := range 20 { // what is published behind a subscription comes
		calls = append(calls, fmt.Sprintf(`{"call":"subscribe","params":{"tenant":"acme","user":"ann","topics":["late%d"]}}`, i),
			fmt.Sprintf(`{"call":"publish","params":{"topic":"late%d","event":"order.paid","data":{"id":%d,"buyer":"b"}}}`, i, 1000+i))
	}
	r := s.must("batch", `{"calls":[`+strings.Join(calls, ",")+`]}`)
	if len(r.Results) != 141 || r.Results[0].Error == nil || r.Results[0].Error.Code != errors.InvalidArgument ||
		r.Results[100].Error == nil || r.Results[100].Error.Code != errors.NotFound {
		t.Fatalf("the results are %s", r.body)
	}
	for id := 1; id < 100; id++ {
		if r.Results[id].Error != nil {
			t.Fatalf("call %d: %v", id, r.Results[id].Error)
		}
		if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.ID != id {
			t.Fatalf("order %d came, want %d", got.ID, id)
		}
	}
	for id := 1000; id < 1020; id++ {
		if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.ID != id {
			t.Fatalf("order %d came, want %d, which was published behind a subscription", got.ID, id)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Events that are not declared are sent where that is allowed, with any data.
func TestUndeclared(t *testing.T) {
	s := start(t, func(o *api.Options) { o.Undeclared = true })
	ann := s.join("ann", "news")
	s.must("publish", `{"topic":"news","event":"weather","data":{"sun":[1,2.5,null]}}`)
	if got := routertest.ExpectEvent[map[string][]any](ann, "weather"); len(got["sun"]) != 3 {
		t.Errorf("the event is %v", got)
	}
	s.must("publish", `{"topic":"news","event":"nothing"}`)
	ann.ExpectAny("nothing")
	if r := s.do(everything, "publish", `{"topic":"news","event":"order.paid","data":{"id":0,"buyer":"b"}}`); r.status != 400 {
		t.Errorf("a declared event with other data: %d %s", r.status, r.body)
	}
	if r := s.do(everything, "publish", `{"topic":"news","event":"$ws:reset"}`); r.status != 400 {
		t.Errorf("an event of the protocol: %d %s", r.status, r.body)
	}
}

// Options that make no sense are refused at construction.
func TestOptions(t *testing.T) {
	l := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 1, Window: time.Hour}, limit.Options{Name: "l"})
	grants := func(secret string, g api.Grant) func() {
		return func() { api.Secrets(map[string]api.Grant{secret: g}) }
	}
	handler := func(o api.Options) func() { return func() { api.Handler(router.New(), o) } }
	anyone := func(*http.Request) (api.Grant, error) { return api.Grant{Name: "x"}, nil }
	for want, f := range map[string]func(){
		"at least 16":              grants("short", api.Grant{Name: "x"}),
		`has the name ""`:          grants(everything, api.Grant{}),
		"publisch":                 grants(everything, api.Grant{Name: "x", Calls: []string{"publisch"}}),
		"Options.Authorize is nil": handler(api.Options{}),
		"Timeout -1s":              handler(api.Options{Authorize: anyone, Timeout: -time.Second}),
		"has no Limiter":           handler(api.Options{Authorize: anyone, Limits: []api.Limit{{}}}),
		"two limiters":             handler(api.Options{Authorize: anyone, Limits: []api.Limit{{Limiter: l}, {Limiter: l}}}),
	} {
		func() {
			defer func() {
				v := recover()
				text, _ := v.(string)
				if err, ok := v.(error); ok {
					text = err.Error()
				}
				if !strings.Contains(text, want) {
					t.Errorf("panics with %q, want %q", text, want)
				}
			}()
			f()
		}()
	}
}

// The document has each call, and the data of each declared event.
func TestOpenAPI(t *testing.T) {
	s := start(t, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"openapi.json", nil)
	req.Header.Set("Authorization", "Bearer "+billing)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v\n%s", res.Status, err, b)
	}
	for _, part := range []string{`"openapi": "3.1.0"`, `"/v1/publish"`, `"/v1/batch"`, `"const": "order.paid"`, `"event.order.paid"`, `"An order was paid."`} {
		if !bytes.Contains(b, []byte(part)) {
			t.Errorf("the document has no %s", part)
		}
	}
	if t.Failed() {
		t.Logf("%s", b)
	}
}

// A question is asked on all devices of a user, in all processes, and the first answer is the result.
func TestAsk(t *testing.T) {
	s := start(t, nil)
	first, second := s.two.Dial(routertest.DialOptions{Token: "ann"}), s.two.Dial(routertest.DialOptions{Token: "ann"})
	routertest.Answer(first, "order.confirm", func(q paid) (string, error) {
		if q.ID == 8 {
			return "", errors.Code("BROKEN").New("no")
		}
		return fmt.Sprint("yes ", q.ID), nil
	})
	const params = `{"tenant":"acme","user":%q,"question":%q,"data":{"id":%d,"buyer":"bob"}}`
	if got := s.must("ask", fmt.Sprintf(params, "ann", "order.confirm", 7)); got.Answer != "yes 7" {
		t.Errorf("%+v", got)
	}
	second.ExpectAny("order.confirm")
	second.ExpectAny("$ws:abort")
	second.Close()
	for _, c := range []struct {
		params string
		status int
		code   errors.Code
	}{
		{fmt.Sprintf(params, "bob", "order.confirm", 7), 404, errors.NotFound},
		{fmt.Sprintf(params, "ann", "order.paid", 7), 404, errors.NotFound},
		{fmt.Sprintf(params, "ann", "order.confirm", 0), 400, errors.InvalidArgument},
	} {
		if got := s.do(everything, "ask", c.params); got.status != c.status || got.Code != c.code {
			t.Errorf("%s: %d %s", c.params, got.status, got.body)
		}
	}
	if got := s.do(billing, "ask", fmt.Sprintf(params, "ann", "order.confirm", 7)); got.status != 403 {
		t.Errorf("a secret that is not for it: %s", got.body)
	}
}
