package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Which topics a client has, and until when; a right that is taken away on the page of one process ends in another.
func TestRightIsRevoked(t *testing.T) {
	broker := memory.NewBroker()
	one, two := start(t, "one", broker), start(t, "two", broker)
	ann := two.dial("ann")
	routertest.ExpectReply[said](ann.Request("room.join", said{"a"}))
	routertest.ExpectReply[said](ann.Request("room.hour", said{"b"}))
	until := map[string]bool{}
	for _, a := range one.ask("connections?search=ann").Processes {
		for _, c := range a.Connections {
			for _, topic := range c.Topics {
				until[topic.Name] = !topic.Until.IsZero()
			}
		}
	}
	if len(until) != 2 || until["room:a"] || !until["room:b"] {
		t.Errorf("topics, and whether they end: %v", until)
	}
	for _, a := range one.act("revoke", values{"tenant": "acme", "user": "ann", "topics": "room:a"}).Processes {
		if a.Error != "" {
			t.Error(a.Error)
		}
	}
	ann.ExpectAny("$ws:unsubscribed")
	for _, a := range one.ask("connections?search=ann").Processes {
		for _, c := range a.Connections {
			if len(c.Topics) != 1 || c.Topics[0].Name != "room:b" {
				t.Errorf("the topics are %v after the right to room:a was taken away", c.Topics)
			}
		}
	}
	if log := one.log.String(); !strings.Contains(log, "action=revoke") || !strings.Contains(log, "topics=room:a") {
		t.Errorf("the log says\n%s", log)
	}
	if a := one.act("revoke", values{"tenant": "acme", "user": "ann", "topics": "$ws:x"}).Processes[0]; a.Error == "" {
		t.Error("a right that makes no sense is taken away without an error")
	}
}

// A ban by hand lasts as long as it says, and is in the log of actions.
func TestBanByHand(t *testing.T) {
	p := start(t, "one", memory.NewBroker())
	ann := p.dial("ann")
	p.act("ban", values{"tenant": "acme", "user": "ann", "seconds": 600})
	if a := p.ask("why?tenant=acme&user=ann").Processes[0]; a.Banned < 590 || a.Banned > 600 {
		t.Errorf("the ban is %v s", a.Banned)
	}
	ann.Request("room.join", said{"a"})
	ann.ExpectClose(errors.CloseTooManyRequests)
	if a := p.act("ban", values{"tenant": "acme", "user": "ann"}).Processes[0]; a.Error == "" {
		t.Error("a ban of no time has no error")
	}
	if log := p.log.String(); !strings.Contains(log, "action=ban") || !strings.Contains(log, "seconds=600") {
		t.Errorf("the log says\n%s", log)
	}
}

// The rules in force are shown, and only rules that were shown are replaced.
func TestRulesInForce(t *testing.T) {
	p := start(t, "one", nil)
	seen := p.ask("inforce").Processes[0]
	if !strings.Contains(seen.Rules, `"report.*": {`) {
		t.Fatalf("the rules are\n%s", seen.Rules)
	}
	changed := strings.Replace(seen.Rules, `"burst": 5`, `"burst": 6`, 1)
	if a := p.act("rules", values{"rules": changed, "base": seen.Version}).Processes[0]; a.Error != "" {
		t.Fatal(a.Error)
	}
	if got := p.rules.Rules().Default.Burst; got != 6 {
		t.Errorf("the burst is %d", got)
	}
	status, _, text := p.do("POST", "api/rules", "write", values{"rules": seen.Rules, "base": seen.Version})
	if status != http.StatusConflict || p.rules.Rules().Default.Burst != 6 {
		t.Errorf("rules that replace ones which were replaced: %d %s", status, text)
	}
	if now := p.ask("inforce").Processes[0]; now.Version == seen.Version || now.Rules != changed {
		t.Errorf("the rules are now\n%s", now.Rules)
	}
}

// The overview says which clients were limited, those with the most rejections first.
func TestLimitedClients(t *testing.T) {
	p := start(t, "one", nil)
	for user, messages := range map[string]int{"ann": 4, "bob": 6, "eve": 2} {
		c := p.dial(user)
		for range 2 { // fit
			routertest.ExpectReply[said](c.Request("report.make", said{"x"}))
		}
		for range messages - 2 {
			c.Request("report.make", said{"x"}).ExpectError(errors.ResourceExhausted)
		}
	}
	poll.Until(t, "the hooks of all rejections to have run", func() bool { // they run later
		limited := p.ask("overview").Processes[0].Overview.Limited
		return len(limited) == 2 && limited[0].User == "bob" && limited[0].N == 4 && limited[1].User == "ann" && limited[1].N == 2 &&
			limited[0].Tenant == "acme" && limited[0].Type == "report.make"
	})
}

// Without a session the answer has the address of the login.
func TestLoginURL(t *testing.T) {
	page := inspect.Handler(router.New(), inspect.Options{LoginURL: "/login", Authorize: func(r *http.Request) (inspect.Viewer, error) {
		if _, err := r.Cookie("session"); err != nil {
			return inspect.Viewer{}, errors.Unauthenticated.New("no session")
		}
		return inspect.Viewer{Name: "ann"}, nil
	}})
	ask := func(cookie string) *http.Response {
		req := httptest.NewRequest(http.MethodGet, "/api/overview", nil)
		if cookie != "" {
			req.AddCookie(&http.Cookie{Name: "session", Value: cookie})
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, req)
		return w.Result()
	}
	if res := ask(""); res.StatusCode != http.StatusUnauthorized || res.Header.Get("Wskit-Login") != "/login" {
		t.Errorf("without a session: %s, login %q", res.Status, res.Header.Get("Wskit-Login"))
	}
	if res := ask("x"); res.StatusCode != http.StatusOK || res.Header.Get("Wskit-Login") != "" {
		t.Errorf("with a session: %s", res.Status)
	}
}
