package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// inspected is a server with rules, a login and an inspector, in this process.
type inspected struct {
	url    string
	rules  *rules.Limiter
	server *routertest.Server
}

func startInspected(t *testing.T) inspected {
	t.Helper()
	given, err := rules.Parse([]byte(`{
		"default": {"perMinute": 600, "burst": 20},
		"types": {"report.*": {"perHour": 10, "burst": 2}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := rules.New(memory.NewStore(), given)
	if err != nil {
		t.Fatal(err)
	}
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req), Tier: "free"}, nil
		},
		Addressing: router.AddressingOptions{Enabled: true},
	})
	r.Use(limiter.Middleware)
	router.RPC(r, "room.join", func(c *router.Context, room string) (bool, error) { return true, c.Subscribe("room:" + room) })
	router.RPC(r, "report.make", func(_ *router.Context, n int) (int, error) { return n, nil })
	router.RPC(r, "export.run", func(_ *router.Context, n int) (int, error) {
		if n%3 == 1 {
			return 0, errors.Unavailable.New("the storage is full; try again later")
		}
		return n, nil
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, req *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "of ann", Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, req, "/inspect/", http.StatusSeeOther)
	})
	mux.Handle("/inspect/", http.StripPrefix("/inspect", inspect.Handler(r, inspect.Options{
		Authorize: func(req *http.Request) (inspect.Viewer, error) {
			if _, err := req.Cookie("session"); err != nil {
				return inspect.Viewer{}, errors.Unauthenticated.New("no session")
			}
			return inspect.Viewer{Name: "ann", Actions: true}, nil
		},
		LoginURL: "/login", Rules: limiter, Process: "chat-1",
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return inspected{server.URL, limiter, routertest.New(t, r)}
}

func (s inspected) dial(user string) *routertest.Client {
	return s.server.Dial(routertest.DialOptions{Token: user})
}

// An operator logs in with a session of the application, replaces a rule after a look at the difference, and takes a
// right away.
func TestInspectorActs(t *testing.T) {
	nightly(t)
	s := startInspected(t)
	bob := s.dial("bob")
	routertest.ExpectReply[bool](bob.Request("room.join", "a"))

	op := openTab(t, s.url+"/inspect/", "operator")
	op.emulate(1280, 800, false, "light")
	op.until("it says where to log in", `document.querySelector("#login-page a")?.checkVisibility() &&
		!document.getElementById("login-token").checkVisibility()`)
	eval[any](op, `void document.querySelector("#login-page a").click()`)
	op.until("all is well", `document.querySelector(".verdict")?.textContent.startsWith("All is well")`)
	op.shoot("inspect-6-well-desktop-light")

	op.goTo("limits")
	op.until("the rules in force are in the field", `document.querySelector("textarea")?.value.includes('"report.*"')`)
	press := func(text string) {
		eval[any](op, `void [...document.querySelectorAll("button")].find((b) => b.textContent === `+js(text)+`).click()`)
	}
	edit := func(from, to string) {
		eval[any](op, `(() => {
			const field = document.querySelector("textarea");
			field.value = field.value.replace(`+js(from)+`, `+js(to)+`);
			field.dispatchEvent(new Event("input", {bubbles: true}));
		})()`)
	}
	edit(`"burst": 20`, `"burst": 0`)
	press("Show the difference")
	op.until("the difference is one line", `document.querySelectorAll(".removed").length === 1 &&
		document.querySelector(".added").textContent.includes('"burst": 0')`)
	press("Replace the rules in all processes")
	op.until("the error names the place", `document.querySelector("section .problem[role=alert]").textContent.includes("default.burst")`)
	edit(`"burst": 0`, `"burst": 25`)
	press("Show the difference")
	op.until("the difference is shown again", `document.querySelector(".added")?.textContent.includes('"burst": 25')`)
	op.shoot("inspect-7-rules-desktop-light")
	press("Replace the rules in all processes")
	op.until("the page has the new rules", `document.querySelector("textarea").value.includes('"burst": 25') &&
		document.querySelector(".added") === null`)
	if got := s.rules.Rules().Default.Burst; got != 25 {
		t.Errorf("the burst is %d", got)
	}

	op.goTo("connections")
	op.until("the topic of the connection is listed", `document.querySelector(".tag .revoke") !== null`)
	eval[any](op, `window.prompt = (_, topics) => topics`)
	eval[any](op, `void document.querySelector(".tag .revoke").click()`)
	bob.ExpectAny("$ws:unsubscribed")
	op.until("the connection has no topic any more", `document.querySelector("tbody tr") !== null && document.querySelector(".tag") === null`)
}
