package faulttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// The limits of the requests "local" and "closed": all clients share one subject.
var (
	localPolicy  = limit.TokenBucket{Capacity: 10, Refill: 10, Per: time.Second}
	closedPolicy = limit.TokenBucket{Capacity: 10, Refill: 10, Per: time.Second}
)

// Config configures a server process.
type Config struct {
	Addr    string // host:port, the same after a restart
	Redis   string // URL
	Journal string // the file to which every handled request is written
	Gate    GateConfig
	Places  PlacesConfig
	// ProcessTimeout is that of its backend, and Timeout that of the backend's calls; 0: the default.
	ProcessTimeout, Timeout time.Duration
	// Delivery has a server of topics with history run instead, which uses Addr and Redis only.
	Delivery bool
}

// GateConfig configures a server's connection gate.
type GateConfig struct {
	Instance   string
	MaxPerUser int
	MaxTotal   int // 0: as many as a test has
}

const configVariable = "WSKIT_FAULTTEST_SERVER"

// Main runs a server and does not return, if this process was started as a server. Call it
// first in TestMain.
func Main() {
	text := os.Getenv(configVariable)
	if text == "" {
		return
	}
	var c Config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = serve(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faulttest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Payloads.
type (
	Work struct {
		ID string `json:"id"`
	}
	Done struct {
		ID string `json:"id"`
	}
	Topic struct {
		Topic string `json:"topic"`
	}
	Said struct {
		Topic string `json:"topic"`
		From  string `json:"from"`
		N     int    `json:"n"`
	}
	Order struct {
		ID string `json:"id"`
		Ms int    `json:"ms"`
	}
	Ordered struct {
		ID string `json:"id"`
		By int    `json:"by"`
	}
	Members struct {
		IDs []string `json:"ids"`
	}
)

// drainTime is how long a server may take to shut down.
const drainTime = 20 * time.Second

// serve runs a server until SIGTERM, as docs/deployment.md and examples/chat do.
func serve(c Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := redis.Options{ProcessTimeout: c.ProcessTimeout}
	o.Broker.Timeout, o.Presence.Timeout, o.Idempotency.Timeout = c.Timeout, c.Timeout, c.Timeout
	if c.Delivery {
		o.Broker.HealthTimeout = time.Second
	}
	backend, err := redis.Open(ctx, c.Redis, o)
	if err != nil {
		return err
	}
	if c.Delivery {
		r, err := newDeliveryRouter(backend)
		if err == nil {
			err = listen(ctx, c.Addr, r)
		}
		return errors.Join(err, backend.Close())
	}
	store := backend.Limits.(redis.Store)
	journal, err := openJournal(c.Journal)
	if err != nil {
		return err
	}
	r := router.New(router.Options{
		Gate: newGate(store, c.Gate),
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
		Backend:      backend,
		Liveness:     router.Liveness{DrainWindow: time.Millisecond},
		HistoryCheck: 300 * time.Millisecond,
		Resume:       router.ResumeOptions{Keys: [][]byte{[]byte("the key of all servers of a test")}},
	})
	r.History("kept:*")
	register(r, store, journal)
	flush := registerPlaces(r, store, c)

	err = errors.Join(listen(ctx, c.Addr, r), flush(context.Background()))
	return errors.Join(err, backend.Close())
}

// listen serves the router until ctx ends, and then shuts it down.
func listen(ctx context.Context, addr string, r *router.Router) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Println("ready", listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return errors.Join(r.Shutdown(ctx), server.Shutdown(ctx))
}

func newGate(store redis.Store, c GateConfig) *gate.Gate {
	fast := limit.TokenBucket{Capacity: 100_000, Refill: 1000, Per: time.Second}
	return gate.New(store, gate.Options{
		PerIP: fast, PerIdentity: fast, MaxPerIP: 100_000, MaxPerUser: c.MaxPerUser, MaxTotal: cmp.Or(c.MaxTotal, 100_000),
		Instance:  c.Instance,
		OnRefused: func(gate.Refusal) {},
		Limiter:   limit.Options{Name: "gate", Timeout: gateTimeout},
	})
}

// gateTimeout is long enough for a busy machine.
const gateTimeout = 2 * time.Second

// register adds the routes.
func register(r *router.Router, store limit.Store, journal *journal) {
	handled := func(c *router.Context, w Work) (Done, error) {
		return Done(w), journal.write(c.Type(), w.ID)
	}
	router.RPC(r, "work", handled)
	router.RPC(r, "slow", func(c *router.Context, w Work) (Done, error) {
		pause(20 * time.Millisecond)
		return handled(c, w)
	}, router.RouteOptions{Concurrent: true})
	limited := func(typ string, l *limit.Limiter) {
		router.RPC(r, typ, func(c *router.Context, w Work) (Done, error) {
			if err := ratelimit.Take(c, l, limit.KeyOf("all"), 1); err != nil {
				return Done{}, err
			}
			return handled(c, w)
		})
	}
	limited("local", limit.New(store, localPolicy, limit.Options{Name: "local", OnFailure: limit.FailLocal}))
	limited("closed", limit.New(store, closedPolicy, limit.Options{Name: "closed", OnFailure: limit.FailClosed}))

	router.RPC(r, "join", func(c *router.Context, t Topic) (Done, error) {
		return Done{}, c.Join(t.Topic, nil)
	})
	router.RPC(r, "members", func(c *router.Context, t Topic) (m Members, err error) {
		all, err := r.Presence(c, t.Topic)
		for _, one := range all {
			m.IDs = append(m.IDs, one.User)
		}
		return m, err
	})
	router.RPC(r, "watch", func(c *router.Context, t Topic) (Done, error) {
		if err := c.Join(t.Topic, nil); err != nil {
			return Done{}, err
		}
		return Done{}, c.WatchPresence(t.Topic, router.WatchOptions{ByUser: true})
	})
	// An order takes its time, whatever becomes of its client.
	router.RPC(r, "order", func(c *router.Context, o Order) (Ordered, error) {
		if err := journal.write(c.Type(), o.ID); err != nil {
			return Ordered{}, err
		}
		pause(time.Duration(o.Ms) * time.Millisecond)
		return Ordered{ID: o.ID, By: os.Getpid()}, nil
	})
	router.RPC(r, "say", func(c *router.Context, s Said) (Done, error) {
		var o router.PublishOptions
		if strings.HasPrefix(s.Topic, "kept:") { // it may be said again when the outcome is not known
			o.ID = fmt.Sprint(s.From, "/", s.N)
		}
		return Done{}, c.Publish(s.Topic, "said", s, o)
	})
}

// A journal is a file of handled requests. Its lines survive when a server is killed.
type journal struct{ file *os.File }

func openJournal(name string) (*journal, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	return &journal{f}, err
}

func (j *journal) write(typ, id string) error {
	_, err := j.file.WriteString(typ + " " + id + " " + strconv.FormatInt(time.Now().UnixMicro(), 10) + "\n")
	return err
}
