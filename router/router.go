// Package router serves WebSocket connections: it decodes each message into the
// type its handler takes, checks it, and sends the answer.
//
//	r := router.New()
//	r.Use(ratelimit.New(limit.New(memory.NewStore(), limit.TokenBucket{
//		Capacity: 200, Refill: 100, Per: time.Second,
//	}), ratelimit.Options{}))
//
//	router.On(r, "chat.send", func(c *router.Context, m Send) error {
//		return c.Publish("room:"+m.Room, "chat.message", Message{From: c.Identity.User, Text: m.Text})
//	})
//	router.RPC(r, "room.join", func(c *router.Context, q Join) (Joined, error) {
//		return Joined{Room: q.Room}, c.Subscribe("room:" + q.Room)
//	})
//
//	http.Handle("/ws", r)
//
// # How a frame is processed
//
// The size of a frame is checked, its envelope is read, and the middleware of
// [Router.Use] accepts or rejects it: all of this without decoding its payload. Then the
// payload is decoded, validated and passed to the handler. Every frame that fails is answered;
// PROTOCOL.md describes the protocol. dispatch.go has all steps in one function.
//
// # Groups and declared events
//
// Types can be registered in groups ([Router.Group]), each with a prefix, limits and middleware
// of its own. [Declare] fixes the Go type of an event that the server sends, [DeclareQuestion] those
// of a question to a client and its answer. [Router.Routes] lists all of them.
//
// # Order and concurrency
//
// The messages of one connection are handled one at a time in order of arrival,
// unless a route is concurrent; different connections are handled concurrently. While a
// handler runs, the connection is still read: a client can abort a request, and the end of the
// connection cancels the contexts of its handlers.
//
// # The HTTP server
//
// Until a handshake is complete, only the http.Server bounds how long a client may take,
// and by default it does not. Set these of its times:
//
//	server := &http.Server{
//		Handler:           mux,
//		ReadHeaderTimeout: 5 * time.Second,  // for the header
//		ReadTimeout:       10 * time.Second, // for the whole request
//		WriteTimeout:      10 * time.Second, // for the answer
//		IdleTimeout:       time.Minute,      // between two requests
//	}
//
// They end when a connection is upgraded: from then on [Liveness] applies. Without IdleTimeout
// and ReadHeaderTimeout a silent socket stays open for ever. A request for another handler of the
// server may announce a body that never comes; net/http waits for it as long as ReadTimeout
// allows, also in http.Server.Shutdown.
//
// Middleware that wraps the http.ResponseWriter needs a method
// Unwrap() http.ResponseWriter. Without it handshakes are answered with 500.
package router

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/handshake"
	"github.com/wskit/wskit/internal/httpclose"
	"github.com/wskit/wskit/router/internal/cluster"
	"github.com/wskit/wskit/router/internal/dedupe"
	"github.com/wskit/wskit/router/internal/fairness"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/linger"
	"github.com/wskit/wskit/router/internal/metrics"
	"github.com/wskit/wskit/router/internal/origin"
	"github.com/wskit/wskit/router/internal/presenceview"
	"github.com/wskit/wskit/router/internal/rights"
	"github.com/wskit/wskit/router/internal/serial"
	"github.com/wskit/wskit/router/internal/session"
	"github.com/wskit/wskit/router/internal/timerwheel"
	"github.com/wskit/wskit/router/internal/turn"
	"github.com/wskit/wskit/router/internal/watchdog"
)

// Router is an http.Handler that upgrades requests to WebSocket connections and serves them.
// Create it with [New], register types and middleware, serve it, and end it with
// [Router.Shutdown]. All its methods may be called from any goroutine.
type Router struct {
	opts  Options
	epoch time.Time // of the times that connections keep

	ctx    context.Context // cancelled when Shutdown has ended
	cancel context.CancelFunc

	mu       sync.Mutex
	routes   map[string]*route
	top      Group // the outermost
	conns    session.List[Conn]
	draining atomic.Bool

	drainWindow atomic.Int64 // in ns, set before draining
	checks      checks       // of the backend

	frozen     atomic.Pointer[serving] // set by the first connection, with mu: from then on nothing can be registered
	hooks      atomic.Pointer[hooks]
	events     atomic.Pointer[map[string]*declared] // nil: none
	hub        *hub.Hub                             // topics and their members
	traces     traces
	histories  atomic.Pointer[histories] // nil: none
	tickets    tickets
	rights     rights.Rights
	away       linger.Members
	fair       fairness.Queue[*Context]
	presence   presenceview.Views
	dedupe     dedupe.Config
	directory  directory
	cluster    *cluster.Cluster[ConnInfo] // nil: addressing is off, or there is no broker
	wheel      timerwheel.Wheel[*Conn]
	watchdog   watchdog.Watchdog[*Conn]
	sockets    atomic.Bool // there have been connections that the kernel keeps
	shedder    *shedder    // nil: Options.Overload is off
	limits     serial.Calls[LimitInfo]
	refusals   serial.Calls[Refused]
	refusalLog refusalLog
	turns      turn.Rules[Context]
	watched    atomic.Pointer[func(error)] // reports to a test, see refuseToSend
	origin     origin.Policy
	accepts    httpclose.Accepts
	tokens     handshake.Tokens
	stats      counters
	unkept     unkept
	handlers   metrics.InFlight

	handshakes metrics.InFlight
}

// serving is what connections need of the registrations, which are final by
// then.
type serving struct {
	routes     map[string]*route
	ingress    ingress.Handler
	own        bool // a route has an own
	maxPayload int  // the largest of all routes

	compared atomic.Int64 // the second in which an unknown type was compared with the known ones
}

var _ http.Handler = (*Router)(nil)

// now is the time after the epoch.
func (r *Router) now() time.Duration { return time.Since(r.epoch) }
