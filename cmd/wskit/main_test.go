package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/transcript"
	"github.com/wskit/wskit/router"
)

const token = "secret-token-of-ann"

type text struct {
	Text string `json:"text" validate:"max=5"`
}

func serve(t *testing.T) (r *router.Router, address string) {
	t.Helper()
	r = router.New(router.Options{Authenticate: func(req *http.Request) (ingress.Identity, error) {
		if got := ingress.Token(req); got != "" && got != token {
			return ingress.Identity{}, errors.Unauthenticated.New("this token is unknown")
		}
		return ingress.Identity{User: "ann"}, nil
	}})
	router.RPC(r, "echo", func(c *router.Context, m text) (text, error) { return m, c.Progress(1) }, router.RouteOptions{Progress: 0})
	router.RPC(r, "nothing", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	router.RPC(r, "join", func(c *router.Context, m text) (bool, error) { return true, c.Subscribe(m.Text) })
	router.On(r, "say", func(c *router.Context, m text) error { return c.Publish("room", "said", m) })
	router.RPC(r, "break", func(*router.Context, struct{}) (bool, error) { return false, errors.New("secret of the server") })
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, strings.Replace(s.URL, "http:", "ws:", 1)
}

// run runs a command line.
func run(t *testing.T, in string, args ...string) (status int, out, err string) {
	t.Helper()
	t.Setenv("WSKIT_TOKEN", token)
	var stdout, stderr bytes.Buffer
	c := &command{in: strings.NewReader(in), out: &stdout, err: &stderr}
	status = c.run(t.Context(), args)
	if strings.Contains(stdout.String()+stderr.String(), token) {
		t.Errorf("%q prints the token:\n%s%s", args, &stdout, &stderr)
	}
	return status, stdout.String(), stderr.String()
}

func TestCall(t *testing.T) {
	_, url := serve(t)
	for _, c := range []struct {
		args       []string
		in         string
		status     int
		out, inErr string
	}{
		{[]string{"call", url, "echo", `{"text": "hi"}`}, "", done, "1\n{\"text\":\"hi\"}\n", ""},
		{[]string{"call", url, "echo", "-"}, `{"text": "in"}`, done, "1\n{\"text\":\"in\"}\n", ""},
		{[]string{"call", url, "nothing"}, "", done, "null\n", ""},
		{[]string{"call", url, "echo", `{"text": "too long"}`}, "", failed, "", `INVALID_ARGUMENT: payload is not valid: text does not pass max {"fields":[{"path":"text","rule":"max","param":"5"}]}`},
		{[]string{"call", url, "ecko"}, "", failed, "", "UNIMPLEMENTED"},
		{[]string{"call", url, "break"}, "", failed, "", "INTERNAL"},
		{[]string{"call", "-timeout", "300ms", "ws://127.0.0.1:1", "echo"}, "", failed, "", "refused"},
		{[]string{"call", "-token", "other", url, "echo"}, "", failed, "", "UNAUTHENTICATED"},
		{[]string{"call", url, "echo", `{`}, "", misuse, "", "not JSON"},
		{[]string{"call", url}, "", misuse, "", "arguments"},
		{[]string{"cal", url}, "", misuse, "", `no command "cal"`},
		{[]string{"call", "-x"}, "", misuse, "", "-token"},
		{[]string{"send", url, "say", `{"text": "hi"}`}, "", done, "", ""},
		{[]string{"send", url, "sya", `{"text": "hi"}`}, "", failed, "", "UNIMPLEMENTED"},
		{[]string{"send", url, "say", `{"text": "too long"}`}, "", failed, "", "text does not pass max"},
		{[]string{"send", "-token", "other", url, "say"}, "", failed, "", "401"},
		{[]string{"help"}, "", done, usage, ""},
	} {
		status, out, err := run(t, c.in, c.args...)
		if status != c.status || out != c.out || !strings.Contains(err, c.inErr) || c.inErr == "" && err != "" {
			t.Errorf("%q: %d\nout: %s\nerr: %s", c.args, status, out, err)
		}
		if strings.Contains(err, "secret of the server") {
			t.Errorf("%q shows a text of the server's", c.args)
		}
	}
	for line := range strings.Lines(usage) {
		if len(line) > 100 {
			t.Errorf("the help has a line of %d characters", len(line))
		}
	}
	if n := strings.Count(usage, "\n"); n > 24 {
		t.Errorf("the help has %d lines, more than a screen", n)
	}
}

// The page of the documentation shows what there is.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`wskit ([a-z]+) `).FindAllSubmatch(page, -1)
	for _, command := range []string{"check", "call", "send", "watch", "load", "record", "replay", "types"} {
		if !slices.ContainsFunc(shown, func(m [][]byte) bool { return string(m[1]) == command }) {
			t.Errorf("docs/command.md does not show %s", command)
		}
	}
	for _, m := range shown {
		if !strings.Contains(usage, "wskit "+string(m[1])+" ") {
			t.Errorf("docs/command.md shows %s, which there is not", m[1])
		}
	}
}

// What comes is a line of JSON each, until so many have come.
func TestWatch(t *testing.T) {
	r, url := serve(t)
	var stdout, stderr transcript.Transcript
	c := &command{out: &stdout, err: &stderr}
	status := make(chan int)
	go func() {
		status <- c.run(t.Context(), []string{"watch", "-n", "2", "-call", `join {"text": "room"}`, url})
	}()
	poll.Until(t, "the room to be joined", func() bool { return r.LocalSubscribers("room") == 1 })
	for _, said := range []string{"one", "two", "three"} {
		if err := r.Publish(t.Context(), "room", "said", text{said}); err != nil {
			t.Fatal(err)
		}
	}
	if got := poll.Receive(t, status, "watch to end"); got != done {
		t.Errorf("the status is %d: %s", got, stderr.String())
	}
	var texts []string
	for line := range strings.Lines(stdout.String()) {
		var e struct {
			Type    string
			Payload text
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != "said" {
			t.Fatalf("%v: %s", err, line)
		}
		texts = append(texts, e.Payload.Text)
	}
	if strings.Join(texts, " ") != "one two" {
		t.Errorf("it has printed %q", texts)
	}
	if status, _, err := run(t, "", "watch", "-call", "joyn", url); status != failed || !strings.Contains(err, "joyn: UNIMPLEMENTED") {
		t.Errorf("a call that is refused: %d %s", status, err)
	}
}

// A terminal is not steered by what others have sent.
func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31m\u009b\u0007\nb é"); got != "a[31mb é" {
		t.Errorf("it becomes %q", got)
	}
}

// What is in the way of a connection is found, and what to do about it.
func TestCheck(t *testing.T) {
	r, good := serve(t)
	behind, err := url.Parse(strings.Replace(good, "ws:", "http:", 1))
	if err != nil {
		t.Fatal(err)
	}
	start := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return strings.Replace(s.URL, "http:", "ws:", 1)
	}
	withoutUpgrade := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Header.Del("Upgrade")
	}}
	full := router.New(router.Options{OnOpen: func(*router.Conn) error { return errors.PermissionDenied.New("your account is suspended") }})
	secure := httptest.NewTLSServer(r)
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct {
		args   []string
		status int
		says   []string
	}{
		"a server":        {[]string{good}, done, []string{"ok   address", "ok   handshake", "a ping takes"}},
		"nothing there":   {[]string{"ws://127.0.0.1:1"}, failed, []string{"FAIL address", "refused", "whether the server runs"}},
		"no such name":    {[]string{"ws://name.invalid"}, failed, []string{"FAIL address", "DNS"}},
		"a proxy":         {[]string{start(withoutUpgrade)}, failed, []string{"FAIL handshake", "426", "Upgrade"}},
		"an origin":       {[]string{"-origin", "https://other.example", good}, failed, []string{"403", "-origin"}},
		"a token":         {[]string{"-token", "other", good}, failed, []string{"closed at once with 4401", "WSKIT_TOKEN"}},
		"a user":          {[]string{start(full)}, failed, []string{"closed at once with", "suspended", "OnOpen"}},
		"another path":    {[]string{start(http.NotFoundHandler())}, failed, []string{"404", "check the path"}},
		"a redirect":      {[]string{start(http.RedirectHandler("https://other.example/ws", http.StatusMovedPermanently))}, failed, []string{"https://other.example/ws", "do not follow"}},
		"a bad gateway":   {[]string{start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))}, failed, []string{"502", "behind it"}},
		"a certificate":   {[]string{strings.Replace(secure.URL, "https:", "wss:", 1)}, failed, []string{"ok   address", "FAIL TLS", "certificate"}},
		"no TLS":          {[]string{strings.Replace(good, "ws:", "wss:", 1)}, failed, []string{"FAIL TLS"}},
		"no URL":          {[]string{"chat.example.com/ws?access_token=" + token}, misuse, nil},
		"idle":            {[]string{"-idle", "1ms", good}, done, []string{"ok   idle"}},
		"a proxy's limit": {[]string{"-idle", "1m", start(cutting(behind))}, failed, []string{"FAIL idle", "closed after", "proxy_read_timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := run(t, "", append([]string{"check"}, c.args...)...)
			if status != c.status {
				t.Errorf("the status is %d", status)
			}
			for _, part := range c.says {
				if !strings.Contains(out, part) {
					t.Errorf("it does not say %q:\n%s%s", part, out, errs)
				}
			}
		})
	}
}

// cutting is a proxy that ends a connection as soon as the first answer has come through.
func cutting(behind *url.URL) http.Handler {
	p := httputil.NewSingleHostReverseProxy(behind)
	p.ModifyResponse = func(res *http.Response) error {
		res.Body = &cut{ReadWriteCloser: res.Body.(readWriteCloser)}
		return nil
	}
	return p
}

type readWriteCloser interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
	Close() error
}

type cut struct {
	ReadWriteCloser readWriteCloser
	reads           int
}

func (c *cut) Read(b []byte) (int, error) {
	if c.reads++; c.reads > 1 { // the pong has come through
		return 0, os.ErrDeadlineExceeded
	}
	return c.ReadWriteCloser.Read(b)
}
func (c *cut) Write(b []byte) (int, error) { return c.ReadWriteCloser.Write(b) }
func (c *cut) Close() error                { return c.ReadWriteCloser.Close() }

// The messages of a contract are listed, and completed in a command line.
func TestTypes(t *testing.T) {
	doc, err := contract.Of(loadServer())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(doc)
	defer s.Close()
	schema := s.URL + "/schema.json"
	status, out, problems := run(t, "", "types", schema)
	for _, want := range []string{
		"enter        request  string\n", "enter        reply    boolean\n", "order.thanks event    string\n",
		"kind: a|b|c", "item: string 2..5", "tags: [string 3.. 2..3]", "next?: {",
	} {
		if status != done || problems != "" || !strings.Contains(out, want) {
			t.Errorf("%d, %s without %q:\n%s", status, problems, want, out)
		}
	}
	if status, out, _ := run(t, "", "types", schema, "enter"); status != done || strings.Count(out, "\n") != 2 {
		t.Errorf("one type: %d %s", status, out)
	}
	if status, _, problems := run(t, "", "types", schema, "enterr"); status != failed || !strings.Contains(problems, "enter, order.place") {
		t.Errorf("no such type: %d %s", status, problems)
	}
	for line, want := range map[string]string{
		"wskit ":                       "call check load record replay send types watch",
		"wskit re":                     "record replay",
		"wskit call -t":                "-timeout -token",
		"wskit call ws://localhost or": "order.place order.refuse order.seen",
		"wskit load -contract " + schema + " -mix order.p": "order.place",
		"wskit nothing -": "",
	} {
		var stdout bytes.Buffer
		c := &command{out: &stdout, err: &stdout}
		c.complete(t.Context(), line, schema)
		if got := strings.Join(strings.Fields(stdout.String()), " "); got != want {
			t.Errorf("%q is completed by %q, want %q", line, got, want)
		}
	}
}

// On a terminal, watch ends with a table of what came.
func TestWatchCounts(t *testing.T) {
	r, url := serve(t)
	var stdout, stderr transcript.Transcript
	c := &command{out: &stdout, err: &stderr, colour: true}
	status := make(chan int)
	go func() {
		status <- c.run(t.Context(), []string{"watch", "-n", "3", "-call", `join {"text": "room"}`, url})
	}()
	poll.Until(t, "the room to be joined", func() bool { return r.LocalSubscribers("room") == 1 })
	for _, typ := range []string{"said", "chat.said", "said"} {
		if err := r.Publish(t.Context(), "room", typ, text{"hi"}); err != nil {
			t.Fatal(err)
		}
	}
	poll.Receive(t, status, "watch to end")
	if want := "chat.said      1\nsaid           2\n"; !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("%s%s", stdout.String(), stderr.String())
	}
}
