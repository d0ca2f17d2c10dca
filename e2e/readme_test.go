package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/wskit/wskit/internal/poll"
)

// What the README tells its reader to do in an empty folder makes a chat in the browser, at both names of this machine.
func TestProgramOfTheReadme(t *testing.T) {
	g := followGuide(t, "../README.md")
	s := g.run()
	g.finish()
	_, port, _ := strings.Cut(s.addr, ":")

	// Both must be closed in the end.
	silent := dialRaw(t, s.addr, "")
	unfinished := dialRaw(t, s.addr, "POST / HTTP/1.1\r\nHost: "+s.addr+"\r\nContent-Length: 9\r\n\r\n")

	ada := openTab(t, s.url(), "Ada")
	bob := openTab(t, "http://localhost:"+port+"/", "Bob")
	for _, tb := range []*tab{ada, bob} {
		tb.until("in the room", mayType)
	}
	ada.sends("Hello Bob")
	bob.until("Ada's message", shows("Hello Bob"))
	bob.sends("<b>Hello</b> Ada")
	for _, tb := range []*tab{ada, bob} {
		tb.until("Bob's message, as text", shows("<b>Hello</b> Ada"))
	}
	if n := eval[int](ada, `document.querySelectorAll("b").length`); n > 0 {
		t.Error("markup in a message became an element")
	}

	// A newcomer's page may say 127.0.0.1 where the browser says localhost.
	for tb, host := range map[*tab]string{ada: "localhost", bob: "127.0.0.1"} {
		tb.until("connected to "+host, connects(host+":"+port))
	}

	// A page of another server is refused, and the log says what to set.
	foreign := openTab(t, blankPage(t), "Eve")
	for range 2 {
		foreign.until("refused", `(`+connects(s.addr)+`) === false`)
	}
	origin := strings.TrimSuffix(eval[string](foreign, "location.href"), "/")
	advice := "add " + origin + " to router.Options.Origins"
	s.says(advice)
	if n := strings.Count(s.output.String(), advice); n != 1 {
		t.Errorf("the log says %d times what lets %s connect, want once:\n%s", n, origin, s.output)
	}

	// A flood is answered with the time to wait.
	eval[any](ada, `void [...Array(40)].forEach(() => { document.querySelector("input").value = "again"; document.querySelector("button").click() })`)
	ada.until("a refusal", shows("RESOURCE_EXHAUSTED")+"&& /retryAfterMs: [1-9]/.test(document.body.innerText)")

	for what, nc := range map[string]net.Conn{"a socket that says nothing": silent, "a request whose body never comes": unfinished} {
		if _, err := io.Copy(io.Discard, nc); err != nil {
			t.Errorf("%s is still open: %v", what, err)
		}
	}
}

// mayType is true when the page of the README is in its room.
const mayType = `document.querySelector("button").disabled === false`

// sends writes a text into the field of that page, and sends it.
func (tb *tab) sends(text string) {
	tb.t.Helper()
	tb.do(chromedp.Focus("input"))
	tb.keys(text)
	tb.enter()
}

func shows(text string) string { return `document.body.innerText.includes(` + js(text) + `)` }

// connects is an expression: whether a WebSocket to host opens; null while that is
// open. Evaluated again it asks about the same WebSocket until there is an answer.
func connects(host string) string {
	return `(() => {
		const tries = window.tries ??= {}, host = ` + js(host) + `;
		tries[host] ??= new WebSocket("ws://" + host + "/ws");
		const state = tries[host].readyState;
		if (state === WebSocket.CONNECTING) return null;
		delete tries[host];
		return state === WebSocket.OPEN;
	})()`
}

// dialRaw opens a socket and writes to it; the test closes it.
func dialRaw(t *testing.T, addr, write string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(poll.Guard))
	if _, err := io.WriteString(nc, write); err != nil {
		t.Fatal(err)
	}
	return nc
}

// blankPage serves an empty page on a port of its own and returns its URL.
func blankPage(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/"
}
