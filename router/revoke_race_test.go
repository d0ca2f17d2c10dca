package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router"
)

// member is a user of the races below, whose right to its topics the test gives and revokes.
type member struct {
	name    string
	topics  []string
	allowed atomic.Bool // what the application stores
	sent    atomic.Int64
	state   atomic.Pointer[rightState]
	got     atomic.Int64 // messages

	mu      sync.Mutex
	stepped *sync.Cond          // with mu: steps has changed
	steps   int64               // that its client has made
	tickets map[string]ticketed // the latest of each topic
}

// rightState is whether the right is revoked, and which message was the last one before Revoke returned.
type rightState struct {
	revoked bool
	last    int64
}

type raced struct {
	N int64 `json:"n"`
}

// races has as many races as REVOKE_RACES says.
func races(t *testing.T, byDefault int) int {
	s := os.Getenv("REVOKE_RACES")
	if s == "" {
		return byDefault
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// When Revoke has returned, nothing that is published from then on reaches the user, whatever its client does meanwhile: it
// subscribes, resumes with each ticket that it has got, and comes back to any of the servers.
func TestRevokeRaces(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		revokeRaces(t, races(t, 1000), adapters.Backend{}, false)
	})
	t.Run("two servers in memory", func(t *testing.T) {
		t.Parallel()
		b := adapters.Backend{Broker: memory.NewBroker()}
		revokeRaces(t, races(t, 1000), b, true, b)
	})
	t.Run("two servers on Redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		open := func() adapters.Backend {
			return adapters.Backend{Broker: redistest.Open(t, s.URL(), redis.Options{}).Broker}
		}
		revokeRaces(t, max(1, races(t, 5000)/10), open(), true, open())
	})
}

func revokeRaces(t *testing.T, n int, first adapters.Backend, addressing bool, more ...adapters.Backend) {
	const users = 4
	members := make(map[string]*member)
	for i := range users {
		m := &member{name: fmt.Sprint("user", i), tickets: make(map[string]ticketed)}
		m.stepped = sync.NewCond(&m.mu)
		m.topics = []string{"log:" + m.name, "room:" + m.name}
		m.state.Store(&rightState{})
		members[m.name] = m
	}
	var routers []*router.Router
	var urls []string
	for _, b := range append([]adapters.Backend{first}, more...) {
		opts := router.Options{Backend: b, Authenticate: asUser, Handshake: router.Handshake{InsecureAnyOrigin: true}}
		opts.Addressing = router.AddressingOptions{Enabled: addressing, Timeout: patience}
		opts.Backend.ProcessTimeout = 10 * time.Second
		opts.Resume.Keys = [][]byte{[]byte(strings.Repeat("k", 32))}
		enter := func(ctx context.Context, c *router.Conn) error {
			m := members[c.Identity().User]
			if !m.allowed.Load() {
				return errors.PermissionDenied.New("not allowed")
			}
			for _, topic := range m.topics {
				if err := c.Subscribe(ctx, topic); err != nil {
					return err
				}
			}
			return nil
		}
		opts.OnOpen = func(c *router.Conn) error {
			if err := enter(c.Context(), c); err != nil && errors.CodeOf(err) != errors.PermissionDenied {
				return err
			}
			return nil
		}
		r := router.New(opts)
		r.History("log:*", router.HistoryOptions{Messages: 20})
		router.RPC(r, "enter", func(c *router.Context, _ struct{}) (bool, error) { return true, enter(c, c.Conn()) })
		s := httptest.NewServer(r)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = r.Shutdown(ctx)
			s.Close()
		})
		routers, urls = append(routers, r), append(urls, s.URL)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all, revokers sync.WaitGroup
	for _, m := range members {
		all.Go(func() { m.publish(ctx, t, routers) })
		all.Go(func() { m.live(ctx, t, urls) })
		revokers.Go(func() { m.revokeAgainAndAgain(t, routers, n/users) })
	}
	revokers.Wait()
	stop()
	all.Wait()
	for _, m := range members {
		if m.got.Load() == 0 {
			t.Errorf("%s never got anything", m.name)
		}
	}
}

// publish publishes to the topics of a member, some messages in each step of its client.
func (m *member) publish(ctx context.Context, t *testing.T, routers []*router.Router) {
	for i := 0; ctx.Err() == nil; i++ {
		if i%3 == 0 {
			m.awaitSteps(1)
		}
		m.publishOne(t, routers[rand.IntN(len(routers))])
	}
}

func (m *member) publishOne(t *testing.T, r *router.Router) {
	for _, topic := range m.topics {
		err := r.Publish(context.Background(), topic, "n", raced{m.sent.Add(1)})
		if err != nil && errors.CodeOf(err) != errors.Unavailable { // a process or Redis stood still
			t.Error(err)
		}
	}
}

// revokeAgainAndAgain gives and revokes the right.
func (m *member) revokeAgainAndAgain(t *testing.T, routers []*router.Router, n int) {
	for i := range n {
		if t.Failed() {
			return
		}
		m.state.Store(&rightState{})
		m.allowed.Store(true)
		m.awaitSteps(rand.Int64N(3))
		m.allowed.Store(false)
		r := routers[rand.IntN(len(routers))]
		poll.Until(t, "the right is revoked", func() bool {
			err := r.Revoke(context.Background(), router.Right{User: m.name, Topics: "*"})
			if err != nil && errors.CodeOf(err) != errors.Unavailable { // of a process that has not run for long
				t.Errorf("revocation %d: %v", i, err)
			}
			return err == nil || t.Failed()
		})
		m.state.Store(&rightState{true, m.sent.Load()})
		for _, r := range routers {
			m.publishOne(t, r)
		}
		m.awaitSteps(2) // in which it would have got these
	}
}

func (m *member) awaitSteps(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for until := m.steps + n; m.steps < min(until, allSteps); {
		m.stepped.Wait()
	}
}

// allSteps are more than there are: nothing waits any more.
const allSteps = 1 << 30

func (m *member) step(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps += n
	m.stepped.Broadcast()
}

// live is the client: it connects, resumes, subscribes and leaves.
func (m *member) live(ctx context.Context, t *testing.T, urls []string) {
	for ctx.Err() == nil {
		m.connect(ctx, t, urls[rand.IntN(len(urls))])
		m.step(1)
	}
	m.step(allSteps)
}

func (m *member) connect(ctx context.Context, t *testing.T, url string) {
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"X-User": {m.name}}})
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return
	}
	defer func() { _ = ws.CloseNow() }()
	for range rand.IntN(4) {
		request := `{"type":"enter","meta":{"correlationId":"1"}}`
		if resume := m.resume(); resume != nil && rand.IntN(2) == 0 {
			request = string(resume)
		}
		if err := ws.Write(ctx, websocket.MessageText, []byte(request)); err != nil {
			return
		}
		for answered := false; !answered; {
			_, frame, err := ws.Read(ctx)
			if err != nil {
				return
			}
			answered = m.take(t, frame)
		}
		m.step(1)
	}
}

// resume is a request to resume with all tickets.
func (m *member) resume() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tickets) == 0 {
		return nil
	}
	var list []ticketed
	for _, k := range m.tickets {
		list = append(list, k)
	}
	b, err := json.Marshal(map[string]any{
		"type": "$ws:resume", "meta": map[string]any{"correlationId": "1"}, "payload": map[string]any{"topics": list},
	})
	if err != nil {
		panic(err)
	}
	return b
}

// take takes a frame, and reports whether it is the answer to the request.
func (m *member) take(t *testing.T, frame []byte) (answer bool) {
	var f struct {
		Type string `json:"type"`
		Meta struct {
			ID string `json:"correlationId"`
		} `json:"meta"`
		Payload struct {
			N      int64      `json:"n"`
			Pos    string     `json:"pos"`
			Topic  string     `json:"topic"`
			Ticket string     `json:"ticket"`
			Topics []ticketed `json:"topics"`
		} `json:"payload"`
	}
	state := m.state.Load()
	if err := json.Unmarshal(frame, &f); err != nil && f.Type != "enter.reply" {
		f.Payload.Topics = nil
	}
	if f.Type == "n" {
		m.got.Add(1)
		if state.revoked && f.Payload.N > state.last {
			t.Errorf("%s gets message %d, and Revoke had returned when %d was the last one", m.name, f.Payload.N, state.last)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range append(f.Payload.Topics, ticketed{f.Payload.Topic, f.Payload.Pos, f.Payload.Ticket}) {
		if k.Ticket != "" {
			m.tickets[k.Topic] = k
		}
	}
	return f.Meta.ID != ""
}
