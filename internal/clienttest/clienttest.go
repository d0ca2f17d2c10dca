// Package clienttest is a server for the tests of clients: a real router on a real socket, with a
// proxy before it that disturbs the connections, and a record of all that happens. clients/scenarios.json
// lists what every client is tested for with it.
//
// A Go test calls [Start] and the methods of the [Server]. The tests of other languages start
//
//	go run ./internal/clienttest/cmd/clienttest '{"redis":true}'
//
// with [Options] as JSON, or nothing. It prints one line, {"url":"ws://…","control":"http://…"}, when it is
// ready, and ends when its standard input is closed. The methods are requests to control there,
// with JSON in both directions; without a body all fields have their defaults:
//
//	POST /stop          {kill}                        the server goes; handshakes are refused by TCP
//	POST /start         {lose}                        and comes back, with or without its state
//	POST /restart       {kill, lose, downMs}          both, with a time between
//	POST /drain         {retryAfterMs, downMs}        a restart with 1001 and this reason for every connection
//	POST /use           {server}                      connects new connections to this server, from 0
//	POST /refuse        {code, retryAfterMs, times, tcp}  the next handshakes are refused, or reset with tcp
//	POST /door          {maxPerUser, opens, perMs}    limits connections
//	POST /flood-limit   {capacity, refill, perMs}     limits the messages "limited" of a user
//	POST /ban           {ms, user}                    closes with 4429, refuses handshakes for that time
//	POST /kick          {user}                        closes with 1008
//	POST /close         {code, reason, user}          closes with a code
//	POST /cut           {dir, after | type, frame, at, how}   cuts a connection, see [Cut]
//	POST /cut-now       {how}                         cuts all connections
//	POST /alter         {dir, type, do, with, times}  drops, doubles or replaces frames, see [Alter]
//	POST /inject        {frame, binary, times}        sends a frame to all clients
//	POST /stall         {dir}                         nothing is carried, nothing is closed
//	POST /slow          {bytesPerSecond, latencyMs}   carries slowly; zeros: quickly
//	POST /zombie        {}                            the open connections are silent for ever, new ones work
//	POST /resume        {}                            ends /stall and /slow, /cut and /alter that wait, /refuse
//	POST /raw           {steps, times}                a script in place of the server, see [Step]
//	POST /publish       {topic, n, text}              n events "said" of the topic; answers {from, to}
//	POST /trim          {topic}                       the topic's messages are removed from its log
//	POST /ask           {user, text, timeoutMs}       asks the clients "confirm"; answers [{user, answer, code}]
//	POST /redis/stop    {}                            with Options.Redis
//	POST /redis/start   {}
//	POST /token         {mode, user, ttlMs, waitMs}   what GET /token does, see [TokenMode]
//	GET  /token?user=ann                              {"token":"…"} for that user
//	GET  /log                                         the record, see [Log]
//	POST /log/clear     {}                            the record begins again
//
// # The server
//
// A token is the name of a user, or what GET /token returns. Tokens that begin with "bad" are not accepted;
// a client without a token is anonymous unless Options.NeedToken is set. All payloads are {id, text, topic, ms, n}
// without what is not needed, and so are replies and events; whatever is handled is recorded with its id.
//
//	echo          request   answers its payload
//	slow          request   answers after ms, or with CANCELLED when it is aborted; concurrent
//	progress      request   n times progress {"n":1…}, ms apart, then the answer; concurrent
//	count         request   answers n, how often this id was handled
//	count.once    request   the same, for keys: meta.idempotencyKey works for all
//	fail          request   fails with the code in text; retryable with retryAfterMs if ms is set
//	big           request   answers with a text of n bytes
//	note          event
//	limited       request   within /flood-limit, by default 10 at once and 10 a second
//	limited.note  event     the same limit
//	join          request   subscribes to the topic; leave ends it
//	open          request   subscribes to a topic with a history; with all, everything in it comes first
//	say           request   publishes "said" to the topic
//	ask           request   asks its client "confirm" {text} and answers its answer, {"yes":true}
//	write         run       writes the words of text, ms apart, but for EVENT, ASK, INPUT, CHECKPOINT and FAIL, which
//	                        are done, and RESUMED, for which it writes first or again; the result is how many; without
//	                        Options.Redis
//	rewrite       run       the same, and restartable
//	whoami        request   answers the user as text
//
// Events are "said", with n counted up from 1 for each topic. Topics that begin with "history:" have a
// history of 100 messages.
package clienttest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/redistest"
)

// Options configure a [Server]. The zero value works.
type Options struct {
	// Redis has a Redis of its own keep the state. Default: memory.
	Redis bool `json:"redis"`
	// Servers is how many servers share the state. Default: 1.
	Servers int `json:"servers"`
	// NeedToken refuses clients without a token with 401.
	NeedToken bool `json:"needToken"`
	// ExpiryNoticeMs, PingMs, PongMs, DrainWindowMs and RequestTimeoutMs are those of
	// router.Options. Default: 1 s, 25 s, 10 s, 500 ms, 30 s.
	ExpiryNoticeMs   int `json:"expiryNoticeMs"`
	PingMs           int `json:"pingMs"`
	PongMs           int `json:"pongMs"`
	DrainWindowMs    int `json:"drainWindowMs"`
	RequestTimeoutMs int `json:"requestTimeoutMs"`
	// Inbox is a topic to which the server subscribes each connection when it is opened, from the oldest message if All
	// is set. Default: none.
	Inbox string `json:"inbox"`
	All   bool   `json:"all"`
}

// Server is a router, a proxy before it and a record. Its methods may be called concurrently.
type Server struct {
	URL     string // ws://host:port/ws, of the proxy
	Control string // http://host:port, of the controls

	o      Options
	t      testing.TB
	redis  *redistest.Server
	record record
	proxy  *proxy
	door   door
	bans   bans

	opening atomic.Int64 // handshakes that were accepted, of connections that are not known yet
	flood   floodLimit
	tokens  tokens
	topics  topics

	mu      sync.Mutex
	backend *backend
	running []*instance
	used    int // the index of the one that gets new connections
}

// closeTime is how long a server may take to end.
const closeTime = 10 * time.Second

// Start starts a server, until the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{o: o, t: t}
	s.bans.record = &s.record
	s.door.bans = &s.bans
	s.record.begin()
	s.flood.set(FloodLimit{})
	if o.Redis {
		s.redis = redistest.Start(t)
	}
	var err error
	if s.proxy, err = startProxy(&s.record); err != nil {
		t.Fatal(err)
	}
	s.URL = "ws://" + s.proxy.listener.Addr().String() + "/ws"
	t.Cleanup(s.close)
	if err := s.Start(StartOptions{}); err != nil {
		t.Fatal(err)
	}
	controls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Control = "http://" + controls.Addr().String()
	hs := &http.Server{Handler: s.controls(), ReadHeaderTimeout: closeTime}
	var serving sync.WaitGroup
	serving.Go(func() { _ = hs.Serve(controls) })
	t.Cleanup(func() {
		s.tokens.end()
		_ = hs.Close()
		serving.Wait()
	})
	return s
}

func (s *Server) close() {
	if err := s.Stop(StopOptions{Kill: true}); err != nil {
		s.t.Errorf("clienttest: %v", err)
	}
	s.proxy.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend != nil {
		s.backend.close()
	}
}

// StopOptions are those of [Server.Stop].
type StopOptions struct {
	Kill bool `json:"kill"` // the connections are reset, and nothing is answered
}

// Stop ends the server. Handshakes are refused by TCP until [Server.Start].
func (s *Server) Stop(o StopOptions) error {
	s.proxy.use("")
	s.mu.Lock()
	ending := s.running
	s.running = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if o.Kill {
		s.proxy.cutAll("reset")
		cancel()
	}
	var errs []error
	for _, i := range ending {
		if err := i.stop(ctx); err != nil && !o.Kill {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// StartOptions are those of [Server.Start].
type StartOptions struct {
	// Lose has the server come back without what it knew: logs of topics, idempotency keys, limits.
	// The keys of tickets stay.
	Lose bool `json:"lose"`
}

// Start starts the server after [Server.Stop].
func (s *Server) Start(o StartOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) > 0 {
		return errors.New("the server runs already")
	}
	if s.backend != nil && o.Lose {
		if s.redis != nil {
			s.redis.Do("FLUSHALL")
		}
		s.backend.close()
		s.backend = nil
	}
	if s.backend == nil {
		b, err := s.openBackend()
		if err != nil {
			return err
		}
		s.backend = b
	}
	for range max(s.o.Servers, 1) {
		i, err := s.startInstance(s.backend)
		if err != nil {
			return err
		}
		s.running = append(s.running, i)
	}
	s.used = min(s.used, len(s.running)-1)
	s.proxy.use(s.running[s.used].addr)
	return nil
}

// RestartOptions are those of [Server.Restart].
type RestartOptions struct {
	StopOptions
	StartOptions
	DownMs int `json:"downMs"` // the time between
}

// Restart stops the server and starts it again.
func (s *Server) Restart(o RestartOptions) error {
	if err := s.Stop(o.StopOptions); err != nil {
		return err
	}
	pause(milliseconds(o.DownMs), nil)
	return s.Start(o.StartOptions)
}

// DrainOptions are those of [Server.Drain].
type DrainOptions struct {
	// RetryAfterMs is the advice to every client. nil: at random within Options.DrainWindowMs, as router.Shutdown does.
	RetryAfterMs *float64 `json:"retryAfterMs"`
	DownMs       int      `json:"downMs"`
}

// Drain restarts the server without an error for clients: open requests are answered, then the connections are
// closed with 1001.
func (s *Server) Drain(o DrainOptions) error {
	if o.RetryAfterMs != nil {
		if err := s.Close(CloseOptions{Code: 1001, Reason: retryReason(o.RetryAfterMs)}); err != nil {
			return err
		}
	}
	return s.Restart(RestartOptions{DownMs: o.DownMs})
}

// UseOptions are those of [Server.Use].
type UseOptions struct {
	Server int `json:"server"`
}

// Use sends new connections to one of Options.Servers.
func (s *Server) Use(o UseOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Server < 0 || o.Server >= len(s.running) {
		return errors.New("no such server")
	}
	s.used = o.Server
	s.proxy.use(s.running[o.Server].addr)
	return nil
}

// StopRedis kills Redis, which keeps nothing.
func (s *Server) StopRedis(struct{}) error {
	if s.redis == nil {
		return errors.New("there is no Redis; set redis in the options")
	}
	s.redis.Kill()
	return nil
}

// StartRedis starts Redis again, empty.
func (s *Server) StartRedis(struct{}) error {
	if s.redis == nil {
		return errors.New("there is no Redis; set redis in the options")
	}
	s.redis.Run()
	return nil
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
