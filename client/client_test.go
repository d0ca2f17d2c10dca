package client_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/internal/clienttest"
	"github.com/wskit/wskit/internal/leaktest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// programVariable has this program be that of package clienttest.
const programVariable = "WSKIT_CLIENTTEST"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		clienttest.Program("")
		return
	}
	leaktest.Main(m, poll.Guard)
}

// takesTime skips a test that waits for seconds of real time. make test runs it.
func takesTime(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for seconds of real time; make test runs it")
	}
}

type text struct {
	Text string `json:"text"`
}

// server is a router on a real socket.
type server struct {
	*router.Router
	http *http.Server
	addr string
}

// serve serves a router at an address, of which the port may be 0, until the test ends.
func serve(t testing.TB, addr string, r *router.Router) *server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Router: r, http: &http.Server{Handler: r, ReadHeaderTimeout: poll.Guard}, addr: l.Addr().String()}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.http.Serve(l) }()
	t.Cleanup(func() { s.stop(t); <-done })
	return s
}

func (s *server) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), poll.Guard)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("the router does not shut down: %v", err)
	}
	_ = s.http.Close()
}

// quick has a client connect again at once.
func quick(o client.Options) client.Options {
	o.MinBackoff, o.MaxBackoff = time.Millisecond, 20*time.Millisecond
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	return o
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), poll.Guard)
	t.Cleanup(cancel)
	return ctx
}

// dial connects a client that connects again at once, until the test ends.
func dial(t testing.TB, addr string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t), "ws://"+addr, quick(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), poll.Guard)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("the client does not close: %v", err)
		}
	})
	return c
}

func echo(r *router.Router) *router.Router {
	router.RPC(r, "echo", func(_ *router.Context, m text) (text, error) { return m, nil })
	return r
}

func TestRequestsAndEvents(t *testing.T) {
	t.Parallel()
	r := echo(router.New())
	router.On(r, "say", func(c *router.Context, m text) error { return c.Send("said", m) })
	s := serve(t, "127.0.0.1:0", r)
	said := make(chan string, 1)
	c := dial(t, s.addr, client.Options{Setup: func(c *client.Client) {
		client.On(c, "said", func(_ context.Context, m text, _ client.Meta) { said <- m.Text })
	}})
	if got, err := client.Request[text](within(t), c, "echo", text{"hi"}); err != nil || got.Text != "hi" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := client.Send(within(t), c, "say", text{"ho"}); err != nil {
		t.Error(err)
	}
	if got := <-said; got != "ho" {
		t.Errorf("the event has %q", got)
	}
}
