package prometheus_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/observe/prometheus"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
	"github.com/wskit/wskit/webhook"
)

type room struct {
	Room string `json:"room" validate:"required"`
}

// chat is a server with all that has figures, and clients that do all that is counted.
type chat struct {
	r        *router.Router
	http     *httptest.Server
	registry *client.Registry
	redis    *redistest.Server
	dead     *limit.Limiter // over a Redis that does not answer

	mu      sync.Mutex
	scraped chan struct{} // closed at the next scrape
}

func startChat(t *testing.T) *chat {
	quiet := slog.New(slog.DiscardHandler)
	c := &chat{redis: redistest.Start(t), registry: client.NewPedanticRegistry(), scraped: make(chan struct{})}
	conn := c.redis.Client()
	t.Cleanup(func() { _ = conn.Close() })
	store := redis.NewStore(conn)
	broker := redis.NewBroker(conn, redis.BrokerOptions{Logger: quiet})
	presence := redis.NewPresence(conn, redis.PresenceOptions{Logger: quiet})
	t.Cleanup(func() { presence.Close(); broker.Close(); _ = store.Close() })
	nowhere := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = nowhere.Close() })
	deadStore := redis.NewStore(nowhere)
	c.dead = limit.New(deadStore, limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Second}, limit.Options{Name: "dead", Logger: quiet})
	user := limit.New(store, limit.TokenBucket{Capacity: 5, Refill: 100, Per: time.Second}, limit.Options{Name: "user", Logger: quiet})
	leases := memory.NewStore()
	gate := gate.New(leases, gate.Options{MaxPerIP: 1000, PerIP: limit.TokenBucket{Capacity: 1e6, Refill: 1e6, Per: time.Second}, Limiter: limit.Options{Name: "gate"}})
	logs := memory.NewBroker()
	limits, err := rules.New(leases, rules.Rules{Default: rules.Rule{PerMinute: rules.Unlimited}})
	if err != nil {
		t.Fatal(err)
	}

	c.r = router.New(router.Options{
		Overload: router.OverloadOptions{Enabled: true, Target: time.Hour}, // is measured, and nothing refused
		Gate:     gate, Backend: adapters.Backend{Broker: broker, Presence: presence}, Logger: quiet, HistoryCheck: 50 * time.Millisecond,
		OnLimitExceeded: func(router.LimitInfo) {},
	})
	c.r.History("room:*")
	c.r.Use(ratelimit.New(user, ratelimit.PerUserOrIPPerType), limits.Middleware)
	router.RPC(c.r, "room.join", func(c *router.Context, q room) (struct{}, error) {
		return struct{}{}, c.Subscribe("room:" + q.Room)
	})
	router.RPC(c.r, "chat.send", func(c *router.Context, q room) (struct{}, error) {
		return struct{}{}, c.Publish("room:"+q.Room, "chat.message", q)
	})
	router.On(c.r, "chat.fail", func(_ *router.Context, q room) error {
		if q.Room == "panic" {
			panic("on purpose")
		}
		return errors.New("on purpose")
	})
	hook, err := webhook.New(t.Context(), router.New(), webhook.Options{ // whose service is not there
		URL: "http://127.0.0.1:1", Private: true, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hook.Wait)
	runs, err := run.New(c.r)
	if err != nil {
		t.Fatal(err)
	}
	run.Handle(runs, "answer", func(context.Context, room, *run.Writer) error { return nil })
	c.registry.MustRegister(prometheus.NewCollector(c.r, prometheus.Options{Components: map[string]any{
		"user": user, "dead": c.dead, "gate": gate, "rules": limits, "redis": store, "unreachable": deadStore,
		"broker": broker, "presence": presence, "leases": leases, "logs": logs, "hook": hook, "runs": runs,
	}}))
	mux := http.NewServeMux()
	mux.Handle("/ws", c.r)
	metrics := promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.scraped)
		c.scraped = make(chan struct{})
	})
	c.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.r.Shutdown(ctx)
		c.http.Close()
	})
	return c
}

// dial opens a connection whose frames are read and thrown away.
func (c *chat) dial(ctx context.Context) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(ctx, c.http.URL+"/ws", nil)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			if _, _, err := ws.Read(ctx); err != nil {
				return
			}
		}
	}()
	return ws, nil
}

// awaitScrape waits for the end of the next scrape. It is the pace of the clients: something happens between any two.
func (c *chat) awaitScrape(ctx context.Context) {
	c.mu.Lock()
	scraped := c.scraped
	c.mu.Unlock()
	select {
	case <-scraped:
	case <-ctx.Done():
	}
}

// load has clients talk until ctx is done.
func (c *chat) load(ctx context.Context, t *testing.T) *sync.WaitGroup {
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for ctx.Err() == nil {
				c.talk(ctx)
			}
		})
	}
	clients.Go(func() {
		for ctx.Err() == nil {
			// A page of another origin, a decision without a store, and logs that are lost.
			req, err := http.NewRequestWithContext(ctx, "GET", c.http.URL+"/ws", nil)
			if err != nil {
				t.Error(err)
				return
			}
			for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "https://evil.example"} {
				req.Header.Set(name, value)
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			_, _ = c.dead.Take(ctx, limit.KeyOf("ann"), 1)
			c.awaitScrape(ctx)
		}
	})
	clients.Go(func() {
		for ctx.Err() == nil {
			c.awaitScrape(ctx)
			c.redis.Do("FLUSHALL")
		}
	})
	return &clients
}

// talk is what a client does in one connection.
func (c *chat) talk(ctx context.Context) {
	ws, err := c.dial(ctx)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	pos := pubsub.Position{Epoch: 1}.String()
	for i := range 3 {
		for _, frame := range []string{
			`{"type":"room.join","meta":{"correlationId":"%d"},"payload":{"room":"lobby"}}`,
			`{"type":"chat.send","meta":{"correlationId":"%d"},"payload":{"room":"lobby"}}`,
			`{"type":"chat.send","meta":{"correlationId":"%d"},"payload":{}}`,
			`{"type":"chat.fail","payload":{"room":"%d"}}`,
			`{"type":"chat.fail","payload":{"room":"panic"}}`,
			`{"type":"made up %d"}`,
			`{"type":"$ws:resume","meta":{"correlationId":"%d"},"payload":{"topics":[{"ticket":"none","pos":"` + pos + `"}]}}`,
		} {
			frame = strings.ReplaceAll(frame, "%d", strconv.Itoa(i))
			if ws.Write(ctx, websocket.MessageText, []byte(frame)) != nil {
				return
			}
		}
		c.awaitScrape(ctx)
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
}
