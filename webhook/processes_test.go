package webhook_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/webhook"
)

// TestProcess is a server of the test below.
func TestProcess(t *testing.T) {
	var redisURL, serviceURL, file string
	if _, err := fmt.Sscan(os.Getenv("WSKIT_TEST_WEBHOOK"), &redisURL, &serviceURL, &file); err != nil {
		t.Skip("run by TestSendersAreKilled")
	}
	backend := redistest.Open(t, redisURL, redis.Options{ProcessTimeout: time.Second})
	r := router.New(router.Options{Backend: backend})
	w, err := webhook.New(t.Context(), r, webhook.Options{
		URL: serviceURL, Secrets: []string{secret}, Private: true, Grace: -1, Timeout: time.Second,
		Topics: []string{"*"}, Connections: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	router.RPC(r, "join", func(c *router.Context, topic string) (struct{}, error) { return struct{}{}, c.Subscribe(topic) })
	router.RPC(r, "leave", func(c *router.Context, topic string) (struct{}, error) {
		c.Unsubscribe(topic)
		return struct{}{}, nil
	})
	router.RPC(r, "send", func(c *router.Context, n int) (struct{}, error) { return struct{}{}, w.Send(c, "sent", "", n) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(ln.Addr().String()), 0o600); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nserving")
	_ = (&http.Server{Handler: r, ReadHeaderTimeout: poll.Guard}).Serve(ln)
}

// fleet are servers that are killed and stopped, with clients that join and leave.
type fleet struct {
	*testing.T
	redis   string
	service string
	servers []*server
	started int
}

type server struct {
	cmd   *exec.Cmd
	addr  string
	conns []*conn
}

// conn is a client, with the topics that it has joined.
type conn struct {
	*websocket.Conn
	topics  map[string]bool
	answers chan string
}

func (f *fleet) start() *server {
	f.Helper()
	f.started++
	file := filepath.Join(f.TempDir(), fmt.Sprint(f.started))
	s := &server{}
	s.cmd = process.StartTest(f, "TestProcess", fmt.Sprintf("WSKIT_TEST_WEBHOOK=%s %s %s", f.redis, f.service, file), "serving")
	addr, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	s.addr = string(addr)
	return s
}

func (f *fleet) dial(s *server) {
	f.Helper()
	c, _, err := websocket.Dial(f.Context(), "ws://"+s.addr, nil)
	if err != nil {
		f.Fatal(err)
	}
	it := &conn{Conn: c, topics: make(map[string]bool), answers: make(chan string, 1)}
	s.conns = append(s.conns, it)
	go func() { // also for the pings
		defer close(it.answers)
		for {
			_, text, err := c.Read(context.Background())
			if err != nil {
				return
			}
			it.answers <- string(text)
		}
	}()
}

// ask makes a request, and reports whether it has succeeded.
func (f *fleet) ask(c *conn, typ string, payload any) bool {
	f.Helper()
	text, err := json.Marshal(map[string]any{"type": typ, "meta": map[string]string{"correlationId": "1"}, "payload": payload})
	if err != nil {
		f.Fatal(err)
	}
	if err := c.Write(f.Context(), websocket.MessageText, text); err != nil {
		f.Fatal(err)
	}
	return strings.Contains(poll.Receive(f, c.answers, "an answer"), typ+".reply")
}

// churn has clients of a server come and go, join and leave.
func (f *fleet) churn(s *server) {
	f.Helper()
	if len(s.conns) < 3 {
		f.dial(s)
	}
	for range 4 {
		c := s.conns[rand.IntN(len(s.conns))]
		topic := fmt.Sprint("t", rand.IntN(8))
		if rand.IntN(2) == 0 {
			c.topics[topic] = f.ask(c, "join", topic) || c.topics[topic]
		} else if f.ask(c, "leave", topic) {
			delete(c.topics, topic)
		}
	}
	if rand.IntN(4) == 0 {
		_ = s.conns[0].CloseNow()
		s.conns = s.conns[1:]
	}
}

// truth is which topics have members, and how many connections there are.
func (f *fleet) truth() (topics map[string]bool, connections int) {
	topics = make(map[string]bool)
	for _, s := range f.servers {
		connections += len(s.conns)
		for _, c := range s.conns {
			for topic, joined := range c.topics {
				topics[topic] = topics[topic] || joined
			}
		}
	}
	return topics, connections
}

// told is what the last events say.
func (s *service) told() (topics map[string]bool, connections int, sent map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	topics, sent = make(map[string]bool), make(map[string]bool)
	open := make(map[string]bool)
	events := slices.Clone(s.events)
	slices.SortStableFunc(events, func(a, b webhook.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range events {
		switch e.Type {
		case "reset":
			clear(topics)
			clear(open)
		case "topic.occupied", "topic.vacated":
			topics[e.Topic] = e.Type == "topic.occupied"
		case "connection.opened", "connection.closed":
			open[e.Connection] = e.Type == "connection.opened"
		case "sent":
			sent[string(e.Data)] = true
		}
	}
	for _, is := range open {
		if is {
			connections++
		}
	}
	return topics, connections, sent
}

// However many processes are killed, and stopped for longer than they count as running, the last event of each topic and
// connection says what is true, and no event of Send that was accepted is missing. The service fails now and then, also
// after it has taken a request.
func TestSendersAreKilled(t *testing.T) {
	s := &service{t: t, many: true}
	var failing atomic.Bool
	failing.Store(true)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		n := 9
		if failing.Load() {
			n = rand.IntN(10)
		}
		if n != 0 {
			s.take(req, body, http.StatusOK)
		}
		if n < 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer listener.Close()
	f := &fleet{T: t, redis: redistest.Start(t).URL(), service: listener.URL}
	for range 3 {
		f.servers = append(f.servers, f.start())
	}
	const rounds = 60
	sent := 0
	send := func(server *server) {
		if len(server.conns) == 0 {
			f.dial(server)
		}
		poll.Until(t, "an event to be accepted", func() bool { return f.ask(server.conns[0], "send", sent) })
		sent++
	}
	for round := range rounds {
		i := rand.IntN(len(f.servers))
		for _, server := range f.servers {
			f.churn(server)
			send(server)
		}
		if round%6 == 5 { // longer than ProcessTimeout
			p := f.servers[i].cmd.Process
			if err := process.Stop(p); err != nil {
				t.Fatal(err)
			}
			events := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.events) }
			before := events()
			f.dial(f.servers[(i+1)%3])
			poll.Until(t, "others to send", func() bool { return events() > before })
			if err := process.Continue(p); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			_ = f.servers[i].cmd.Process.Kill()
			_ = f.servers[i].cmd.Wait()
			for _, c := range f.servers[i].conns {
				_ = c.CloseNow()
			}
			f.servers[i] = f.start()
		}
	}
	failing.Store(false)
	check := func() (wrong string) {
		topics, connections := f.truth()
		told, open, events := s.told()
		for i := range 8 {
			if topic := fmt.Sprint("t", i); topics[topic] != told[topic] {
				wrong += fmt.Sprintf("%s: %t, and is %t; ", topic, told[topic], topics[topic])
			}
		}
		if open != connections {
			wrong += fmt.Sprintf("%d connections, and there are %d; ", open, connections)
		}
		if len(events) != sent {
			wrong += fmt.Sprintf("%d events of Send, and there were %d", len(events), sent)
		}
		return wrong
	}
	if !poll.Within(poll.Guard, func() bool { return check() == "" }) {
		t.Errorf("the service learns: %s", check())
	}
	send(f.servers[0]) // what else was on its way has come when this does
	if !poll.Within(poll.Guard, func() bool { return check() == "" }) {
		t.Errorf("afterwards the service learns: %s", check())
	}
}
