package clienttest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// store is what limits and the door need.
type store interface {
	limit.Store
	limit.LeaseStore
}

// backend is the state that outlives a server.
type backend struct {
	limits      store
	idempotency idempotency.Store
	broker      func() (pubsub.Broker, func()) // for one server, with what closes it
	close       func()
}

func (s *Server) openBackend() (*backend, error) {
	if s.redis == nil {
		broker := memory.NewBroker()
		return &backend{
			limits:      memory.NewStore(),
			idempotency: memory.NewIdempotency(),
			broker:      func() (pubsub.Broker, func()) { return broker, func() {} },
			close:       func() {},
		}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	opened, err := redis.OpenStore(ctx, s.redis.URL())
	if err != nil {
		return nil, err
	}
	return &backend{
		limits:      opened,
		idempotency: redis.NewIdempotency(opened.Client(), redis.IdempotencyOptions{Timeout: redisTime}),
		broker: func() (pubsub.Broker, func()) {
			b := redis.NewBroker(opened.Client(), redis.BrokerOptions{Timeout: redisTime, HealthTimeout: time.Second, Logger: quiet})
			return b, func() { b.Close() }
		},
		close: func() { _ = opened.Close() },
	}, nil
}

// redisTime is how long a busy Redis may take. One that was stopped refuses at once.
const redisTime = 10 * time.Second

// quiet drops the log: the faults of these tests are wanted.
var quiet = slog.New(slog.DiscardHandler)

// ticketKeys are the same after every restart, as those of a deployment are.
var ticketKeys = [][]byte{bytes.Repeat([]byte{42}, 32)}

// instance is a running server.
type instance struct {
	addr        string
	router      *router.Router
	http        *http.Server
	confirm     router.Question[Payload, Answer]
	closeBroker func()
	runs        *run.Runs // nil with a Redis

	mu    sync.Mutex
	conns map[*router.Conn]bool
}

func (s *Server) startInstance(b *backend) (*instance, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &instance{addr: listener.Addr().String(), conns: map[*router.Conn]bool{}}
	broker, closeBroker := b.broker()
	i.closeBroker = closeBroker
	s.door.over(b.limits)
	s.flood.over(b.limits)
	i.router = router.New(router.Options{
		Gate:           &s.door,
		Authenticate:   s.authenticate,
		Renew:          s.renew,
		Handshake:      router.Handshake{InsecureAnyOrigin: true},
		Backend:        adapters.Backend{Broker: broker, Idempotency: b.idempotency},
		Resume:         router.ResumeOptions{Keys: ticketKeys},
		SendGaps:       true,
		HistoryCheck:   500 * time.Millisecond,
		RequestTimeout: milliseconds(s.o.RequestTimeoutMs),
		Liveness: router.Liveness{
			PingInterval: milliseconds(s.o.PingMs),
			PongTimeout:  milliseconds(s.o.PongMs),
			ExpiryNotice: milliseconds(cmp.Or(s.o.ExpiryNoticeMs, 1000)),
			DrainWindow:  milliseconds(cmp.Or(s.o.DrainWindowMs, 500)),
		},
		Logger: quiet,
		OnOpen: func(c *router.Conn) error {
			defer s.opening.Add(-1)
			if err := s.openInbox(c); err != nil {
				return err
			}
			return i.opened(c)
		},
		OnClose: i.closed,
	})
	if s.redis == nil {
		if i.runs, err = run.New(i.router); err != nil {
			return nil, err
		}
	}
	s.register(i)
	mux := http.NewServeMux()
	mux.Handle("/ws", i.router)
	i.http = &http.Server{Handler: mux, ReadHeaderTimeout: closeTime, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = i.http.Serve(listener) }()
	return i, nil
}

func (s *Server) openInbox(c *router.Conn) error {
	switch {
	case s.o.Inbox == "":
		return nil
	case s.o.All:
		return c.SubscribeFrom(c.Context(), s.o.Inbox, "")
	}
	return c.Subscribe(c.Context(), s.o.Inbox)
}

func (i *instance) opened(c *router.Conn) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conns[c] = true
	return nil
}

func (i *instance) closed(c *router.Conn, _ router.CloseInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.conns, c)
}

// of returns the open connections of a user, of all users if it is empty.
func (i *instance) of(user string) (conns []*router.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for c := range i.conns {
		if user == "" || c.Identity().User == user {
			conns = append(conns, c)
		}
	}
	return conns
}

func (i *instance) stop(ctx context.Context) error {
	err := i.router.Shutdown(ctx)
	_ = i.http.Close()
	i.closeBroker()
	return err
}
