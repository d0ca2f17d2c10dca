package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/router"
)

// order has a member for each kind of rule that a payload has to pass.
type order struct {
	ID      string            `json:"id" validate:"required,uuid"`
	Item    string            `json:"item" validate:"required,min=2,max=5"`
	Kind    string            `json:"kind" validate:"oneof=a b c"`
	Count   int               `json:"count" validate:"gt=0,lt=10"`
	Price   float64           `json:"price" validate:"gte=5,lte=7"`
	Email   string            `json:"email" validate:"required,email"`
	URL     string            `json:"url" validate:"required,url"`
	Hex     string            `json:"hex" validate:"required,hexadecimal"`
	Word    string            `json:"word" validate:"required,alphanum,lowercase"`
	At      time.Time         `json:"at"`
	Yes     bool              `json:"yes"`
	Tags    []string          `json:"tags" validate:"min=2,max=3,dive,min=3"`
	Next    *order            `json:"next"`
	Numbers [3]int            `json:"numbers"`
	More    map[string]string `json:"more"`
}

func loadServer() *router.Router {
	r := router.New()
	router.RPC(r, "order.place", func(_ *router.Context, o order) (int, error) { return o.Count, nil })
	router.On(r, "order.seen", func(c *router.Context, o order) error { return c.Send("order.thanks", o.ID) })
	router.Declare[string](r, "order.thanks")
	router.RPC(r, "order.refuse", func(*router.Context, struct{}) (int, error) { return 0, errors.NotFound.New("no order") })
	router.RPC(r, "work", func(c *router.Context, n int) (int, error) {
		if err := c.Progress(n); err != nil || n == 2 {
			return n, err
		}
		return 0, errors.NotFound.New("no work")
	}, router.RouteOptions{Progress: 0, Reply: "done"})
	router.RPC(r, "enter", func(c *router.Context, name string) (bool, error) { return true, c.Subscribe(name) })
	router.RPC(r, "tell", func(c *router.Context, name string) (bool, error) { return true, c.Publish(name, "order.thanks", name) })
	return r
}

// Messages are valid by the contract, of the types and in about the shares of the mix, and all are answered.
func TestLoad(t *testing.T) {
	r := loadServer()
	doc, err := contract.Of(r, contract.Options{Title: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/contract/", doc)
	s := httptest.NewServer(mux)
	defer s.Close()
	url := strings.Replace(s.URL, "http:", "ws:", 1) + "/ws"
	picture := filepath.Join(t.TempDir(), "latencies.svg")
	status, out, problems := run(t, "", "load", "-contract", s.URL+"/contract/schema.json", "-mix", "order.place=3,order.seen=1", "-rate", "2000",
		"-for", "500ms", "-connections", "20", "-svg", picture, url)
	if status != done || problems != "" {
		t.Fatalf("%d: %s%s", status, out, problems)
	}
	var sent, answered, refused, events int
	for line := range strings.Lines(out) {
		var rest string
		switch {
		case strings.Contains(line, "messages in"):
			_, err = fmt.Sscanf(line, "%d messages in 500ms on 20 connections, 2000 a second; %d events", &sent, &events)
		case strings.HasPrefix(line, "answered"):
			_, err = fmt.Sscanf(line, "answered %d, refused or failed %d%s", &answered, &refused, &rest)
		}
		if err != nil && err.Error() != "unexpected newline" {
			t.Fatalf("%v: %s", err, line)
		}
	}
	if sent != 1000 || refused != 0 || answered < 650 || answered > 850 || events > sent-answered {
		t.Errorf("%d sent, %d answered, %d refused, %d events:\n%s", sent, answered, refused, events, out)
	}
	want := map[string]int{"order.place": answered, "order.seen": sent - answered}
	poll.Until(t, "the server to have handled all", func() bool {
		return !slices.ContainsFunc(r.Stats().Types, func(typ router.TypeStats) bool {
			handled := typ.Outcomes["OK"]
			if typ.Type == "order.seen" { // it may be handled when the connection has ended, and then cannot send
				handled += typ.Outcomes[errors.Unavailable]
			}
			return handled != int64(want[typ.Type])
		})
	})
	if svg, err := os.ReadFile(picture); err != nil || !bytes.Contains(svg, []byte("p99")) || !bytes.HasSuffix(svg, []byte("</svg>")) {
		t.Errorf("%v: %s", err, svg)
	}
}

// The exit status is 1 when a threshold is passed, and 2 for what makes no sense.
func TestLoadThresholds(t *testing.T) {
	s := httptest.NewServer(loadServer())
	defer s.Close()
	url := strings.Replace(s.URL, "http:", "ws:", 1)
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-mix", "order.refuse", "-payload", "order.refuse={}"}, failed, "NOT_FOUND 20"},
		{[]string{"-mix", "order.refuse", "-payload", "order.refuse={}", "-failures", "1"}, done, "NOT_FOUND 20"},
		{[]string{"-mix", "tell", "-payload", `tell="r{{n}}"`, "-call", `enter "r{{n}}"`}, done, "; 20 events"},
		{[]string{"-mix", "work", "-payload", "work=1", "-call", "work 2"}, failed, "answered 0, refused or failed 20, NOT_FOUND 20"},
		{[]string{"-mix", "tell", "-payload", `tell="r"`, "-p99", "1ns"}, failed, "p99 is"},
		{[]string{"-mix", "tell", "-payload", `tell="r"`, "-call", "nothing"}, failed, "connection 1 of 2: -call nothing: UNIMPLEMENTED"},
		{[]string{"-mix", "tell"}, misuse, "-payload 'tell={…}'"},
		{[]string{"-mix", "tell=x", "-payload", `tell="r"`}, misuse, "-mix"},
		{[]string{"-mix", "tell", "-payload", `tell`}, misuse, "TYPE=JSON"},
		{[]string{"-mix", "tell", "-contract", "/no such file"}, misuse, "the contract cannot be read"},
		{[]string{"-mix", "tell", "-payload", `tell="r"`, "-rate", "0"}, misuse, "-rate"},
	} {
		args := append([]string{"load", "-connections", "2", "-rate", "200", "-for", "100ms"}, append(c.args, url)...)
		status, out, problems := run(t, "", args...)
		if status != c.status || !strings.Contains(out+problems, c.says) {
			t.Errorf("%q: %d\n%s%s", c.args, status, out, problems)
		}
	}
	status, _, problems := run(t, "", "load", "-mix", "tell", "-payload", `tell="r"`, "-timeout", "1s", "ws://127.0.0.1:1")
	if status != failed || !strings.Contains(problems, "connection 1 of 10") {
		t.Errorf("no server: %d %s", status, problems)
	}
}

// TestLoadProcess is the server of the test below.
func TestLoadProcess(t *testing.T) {
	addr := os.Getenv("WSKIT_TEST_LOAD")
	if addr == "" {
		t.Skip("run by TestLoadSeesAServerThatStandsStill")
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nserving")
	_ = (&http.Server{Handler: loadServer(), ReadHeaderTimeout: poll.Guard}).Serve(ln)
}

// A server that stands still for a second is seen in the latencies of all messages that were due meanwhile. A client that
// waits for each answer sees it in one message of each connection.
func TestLoadSeesAServerThatStandsStill(t *testing.T) {
	addr := process.FreeAddr(t)
	server := process.StartTest(t, "TestLoadProcess", "WSKIT_TEST_LOAD="+addr, "serving").Process
	var out, problems bytes.Buffer
	c := &command{out: &out, err: &problems, timeout: poll.Guard}
	c.loads = loadFlags{connections: 10, rate: 200, length: 3 * time.Second, mix: "tell", payloads: map[string]string{"tell": `"r"`}, dialsAtOnce: 1}
	l, err := c.newLoad(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conns, err := l.dialAll(t.Context(), "ws://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.run(t.Context(), conns)
	}()
	poll.Until(t, "the load to run", func() bool { return l.sent.Load() >= 100 })
	if err := process.Stop(server); err != nil {
		t.Fatal(err)
	}
	stopped := l.sent.Load()
	poll.Until(t, "a second to pass, by the rate", func() bool { return l.sent.Load() >= stopped+200 })
	if err := process.Continue(server); err != nil {
		t.Fatal(err)
	}
	poll.Receive(t, over, "the load to end")
	if status := l.report(len(conns)); status != done {
		t.Errorf("status %d: %s", status, &problems)
	}
	long := func(l *latencies) (n int64) {
		for _, b := range l.bars() {
			if b.until > 500*time.Millisecond {
				n += b.n
			}
		}
		return n
	}
	all, waiting := long(&l.latency), long(&l.waiting)
	if all < 80 || waiting > all/2 || l.latency.n != 600 {
		t.Errorf("%d of %d messages took 500 ms or more, and %d of those of clients that wait:\n%s", all, l.latency.n, waiting, &out)
	}
}
