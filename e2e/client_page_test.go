package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	wskitjs "github.com/wskit/wskit/clients/typescript"
	"github.com/wskit/wskit/internal/clienttest"
	"github.com/wskit/wskit/internal/poll"
)

// clientPage is a page with the TypeScript client, which has joined the topic history:a.
type clientPage struct {
	*tab
	server *clienttest.Server
	made   []string // the ids of the requests that it made
}

const clientTopic = "history:a"

// clientScript connects. The times are short: what they are is not tested. A page that lives answers within the timeout
// also on a slow machine, or it would make connections that a test does not expect.
const clientScript = `<!doctype html><title>page</title><script type="module">
	import { connect } from "/wskit.js";
	window.got = [];     // the numbers of events, in order
	window.lost = [];    // reasons
	window.settled = {}; // by id
	window.shown = [];   // whether the page came from the cache
	window.ticks = 0;    // of a timer of 20 ms
	setInterval(() => ticks++, 20);
	addEventListener("pageshow", (event) => shown.push(event.persisted));
	window.client = connect({
		url: %q, token: () => %q, timeout: 60_000,
		backoff: { first: 50, most: 1000 }, attempts: { burst: 1000 }, heartbeat: { after: 700, timeout: 2500 },
	});
	client.on("said", ({ n }) => got.push(n));
	client.onLoss(({ reason }) => lost.push(reason));
	client.onError((error) => console.error("the client says:", error));
	window.ask = (id, type, options, ms) => {
		settled[id] = "";
		client.request(type, { id, ms }, options).then(() => { settled[id] = "ok"; }, (e) => { settled[id] = e.name + " " + e.code; });
	};
	client.request("join", { topic: %q }).then(() => { window.joined = true; });
</script>`

const (
	open    = `client.state.get().status === "open"`
	notOpen = `client.state.get().status !== "open"`
)

// openClientPage opens the page, and another one at /other.
func openClientPage(t *testing.T, s *clienttest.Server, user string) *clientPage {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/wskit.js", wskitjs.Handler())
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, clientScript, s.URL, user, clientTopic)
	})
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/other", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html><title>other</title>")
	})
	pages := httptest.NewServer(mux)
	t.Cleanup(pages.Close)
	p := &clientPage{tab: openTab(t, pages.URL+"/", user), server: s}
	p.until("the page has joined", "window.joined === true")
	return p
}

// asks makes requests without waiting for their answers.
func (p *clientPage) asks(typ, options string, ms, n int) {
	p.t.Helper()
	for range n {
		id := fmt.Sprintf("%s-%d", p.name, len(p.made))
		p.made = append(p.made, id)
		eval[any](p.tab, fmt.Sprintf("void ask(%q, %q, %s, %d)", id, typ, strings.ReplaceAll(options, "ID", id), ms))
	}
}

const withKey = `{ idempotencyKey: "ID" }`

// publishes publishes events to the topic.
func (p *clientPage) publishes(n int) int {
	p.t.Helper()
	published, err := p.server.Publish(clienttest.PublishOptions{Topic: clientTopic, N: n})
	if err != nil {
		p.t.Fatal(err)
	}
	return published.To
}

// complete waits until the page has the last event, or a gap is reported, and all requests are settled. It
// checks that no request was handled twice, none of them forgotten, and that each event came once.
func (p *clientPage) complete(first, last int) {
	p.t.Helper()
	p.until("the client is open", open)
	p.until(fmt.Sprintf("event %d has come", last), fmt.Sprintf("got.at(-1) === %d", last))
	p.until("all requests are settled", `Object.values(settled).every((how) => how !== "")`)
	got := eval[[]int](p.tab, "got")
	lost := eval[[]string](p.tab, "lost")
	want := first
	for _, n := range got {
		if n < want || n > want && len(lost) == 0 {
			p.t.Errorf("%s gets the events %v, reported is %v", p.name, got, lost)
			break
		}
		want = n + 1
	}
	settled := eval[map[string]string](p.tab, "settled")
	executions := p.server.Log().Executions
	for _, id := range p.made {
		how, n := settled[id], executions[id]
		switch {
		case n > 1:
			p.t.Errorf("%s was executed %d times", id, n)
		case how == "ok" && n == 0, how != "ok" && how != "UnknownOutcome UNAVAILABLE":
			p.t.Errorf("%s is settled as %q and was executed %d times", id, how, n)
		}
	}
}

// attempts is how many connections there were.
func (p *clientPage) attempts() int { return len(p.server.Log().Attempts) }

func (p *clientPage) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// network says what navigator.onLine is.
func (p *clientPage) network(offline bool) {
	p.t.Helper()
	p.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{
			Offline: offline, DownloadThroughput: -1, UploadThroughput: -1,
		})
		return err
	})
}

// The scenarios of clients/scenarios.json that need a browser.
func TestPagesOfTheClient(t *testing.T) {
	nightly(t)
	for name, scenario := range map[string]func(*testing.T){
		"sleep and wake":           sleepAndWake,
		"offline":                  offline,
		"back from the page cache": backFromTheCache,
		"hidden tab":               hiddenTab,
		"page that ends":           pageThatEnds,
		"several tabs":             severalTabs,
	} {
		t.Run(name, scenario)
	}
}

// browserTime lets time pass in which the browser slows timers down, freezes a page or tries to connect: all of this
// follows its own clock, and what is tested is what does not happen in the meantime.
func browserTime(d time.Duration) { time.Sleep(d) }

func sleepAndWake(t *testing.T) {
	p := openClientPage(t, clienttest.Start(t, clienttest.Options{PingMs: 300, PongMs: 2500}), "ann")
	p.publishes(3)
	p.asks("slow", "{}", 300, 2)
	p.asks("slow", withKey, 300, 2)
	p.until("the events have come", "got.length === 3")
	p.freeze(page.SetWebLifecycleStateStateFrozen)
	p.must(p.server.Zombie(struct{}{})) // networks forget connections of machines that sleep
	p.publishes(20)
	before := eval[int](p.tab, "ticks")
	browserTime(3 * time.Second)
	if n := eval[int](p.tab, "ticks") - before; n > 10 {
		t.Fatalf("the page was not frozen: %d ticks", n)
	}
	p.freeze(page.SetWebLifecycleStateStateActive)
	p.asks("count", "{}", 0, 1)
	p.complete(1, 23)
	last := p.publishes(1)
	p.complete(1, last)
	if n := p.attempts(); n != 2 {
		t.Errorf("there were %d attempts", n)
	}
}

func offline(t *testing.T) {
	p := openClientPage(t, clienttest.Start(t, clienttest.Options{}), "ann")
	p.publishes(2)
	p.until("the events have come", "got.length === 2")
	p.network(true)
	p.must(p.server.Refuse(clienttest.RefuseOptions{TCP: true}))
	p.must(p.server.CutNow(clienttest.CutNowOptions{}))
	p.until("the client waits", notOpen)
	p.asks("count", "{}", 0, 3)
	p.publishes(5)
	before := p.attempts()
	browserTime(3 * time.Second)
	if n := p.attempts() - before; n > 4 {
		t.Errorf("%d attempts in 3 s without a network", n)
	}
	p.must(p.server.Resume(struct{}{}))
	p.network(false)
	p.complete(1, 7)
	if settled := eval[[]string](p.tab, "Object.values(settled)"); !slices.Equal(settled, []string{"ok", "ok", "ok"}) {
		t.Errorf("requests that were made offline are settled as %v", settled)
	}
}

func backFromTheCache(t *testing.T) {
	p := openClientPage(t, clienttest.Start(t, clienttest.Options{}), "ann")
	p.publishes(2)
	p.until("the events have come", "got.length === 2")
	p.asks("slow", "{}", 60_000, 1)
	p.until("the request is handled", `client.state.get().status === "open"`)
	for round := range 2 {
		origin := eval[string](p.tab, "location.origin")
		p.do(chromedp.Navigate(origin + "/other"))
		p.publishes(10)
		eval[any](p.tab, "void history.back()") // chromedp.NavigateBack waits for a page that is loaded
		p.until("the page is back from the cache", fmt.Sprintf("shown.length === %d && shown.at(-1)", 2+round))
		p.complete(1, 12+10*round)
	}
	p.asks("count", "{}", 0, 1)
	p.complete(1, p.publishes(1))
}

func hiddenTab(t *testing.T) {
	p := openClientPage(t, clienttest.Start(t, clienttest.Options{PingMs: 300, PongMs: 10_000}), "ann")
	p.minimize()
	p.until("the page is hidden", `document.visibilityState === "hidden"`)
	before := eval[int](p.tab, "ticks")
	browserTime(6 * time.Second)
	if n := eval[int](p.tab, "ticks") - before; n > 100 {
		t.Fatalf("the timers of the page are not throttled: %d ticks", n)
	}
	p.asks("count", "{}", 0, 3)
	p.complete(1, p.publishes(3))
	if n := p.attempts(); n != 1 {
		t.Errorf("a hidden page made %d connections", n)
	}
}

func pageThatEnds(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	p := openClientPage(t, s, "ann")
	p.asks("slow", "{}", 60_000, 2)
	p.asks("count", withKey, 0, 2)
	p.until("requests are handled", `settled["ann-3"] === "ok"`)
	p.reload()
	p.until("the page has joined", "window.joined === true")
	p.close()
	ended := func() (closes []clienttest.Close, open int) {
		l := s.Log()
		for _, c := range l.Closes {
			if c.Dir == "up" {
				closes = append(closes, c)
			}
		}
		for _, a := range l.Attempts {
			if a.EndedMs == 0 {
				open++
			}
		}
		return closes, open
	}
	poll.Until(t, "all connections end", func() bool {
		_, open := ended()
		return open == 0
	})
	closes, _ := ended()
	for _, c := range closes {
		if c.Code != 1000 && c.Code != 1001 && c.Code != 1005 {
			t.Errorf("a page ends with %+v", c)
		}
	}
	for id, n := range s.Log().Executions {
		if n > 1 {
			t.Errorf("%s was executed %d times", id, n)
		}
	}
}

func severalTabs(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	frozen, away, stays := openClientPage(t, s, "ann"), openClientPage(t, s, "bob"), openClientPage(t, s, "eve")
	stays.publishes(10)
	frozen.freeze(page.SetWebLifecycleStateStateFrozen)
	away.network(true)
	stays.publishes(10)
	stays.until("the events have come", "got.length === 20")
	away.must(s.CutNow(clienttest.CutNowOptions{}))
	for _, p := range []*clientPage{away, stays} {
		p.asks("count", "{}", 0, 2)
	}
	stays.publishes(10)
	frozen.freeze(page.SetWebLifecycleStateStateActive)
	away.network(false)
	for _, p := range []*clientPage{frozen, away, stays} {
		p.complete(1, 30)
		if lost := eval[[]string](p.tab, "lost"); len(lost) > 0 {
			t.Errorf("%s lost events: %v", p.name, lost)
		}
	}
}
