package router

import (
	"context"
	"time"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/handshake"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/router/internal/dedupe"
	"github.com/wskit/wskit/router/internal/serial"
	"github.com/wskit/wskit/router/internal/session"
	"github.com/wskit/wskit/router/internal/timerwheel"
	"github.com/wskit/wskit/router/internal/turn"
	"github.com/wskit/wskit/router/internal/watchdog"
)

// New returns a Router. It panics if an option is not valid, with a message that says what to
// change.
func New(options ...Options) *Router {
	opts := given.Must("router", "New", options)
	opts, err := opts.withDefaults()
	if err != nil {
		panic(err.Error())
	}
	r := &Router{opts: opts, epoch: time.Now(), routes: make(map[string]*route)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.stats.init()
	r.conns.Link = func(c *Conn) *session.Link[Conn] { return &c.list }
	r.addHooks(Hooks{
		OnOpen: opts.OnOpen, OnClose: opts.OnClose, OnError: opts.OnError, OnLimitExceeded: opts.OnLimitExceeded, OnRefused: opts.OnRefused,
	})
	r.top = Group{router: r, opts: RouteOptions{Strict: opts.Strict}}
	r.tokens = handshake.Tokens{Prefix: opts.Handshake.TokenSubprotocol, Query: opts.Handshake.TokenQuery}
	r.tickets.init(opts.Resume, opts.Backend.Secret)
	r.hub = r.newHub()
	r.checks.outage = outage.Reporter{
		Component: "backend", Log: opts.Logger,
		Failing: "wskit: the backend does not work, so this server is not ready", Working: "wskit: the backend works again",
	}
	r.initRights()
	r.away.Leave = opts.Backend.Presence.Leave
	r.directory.conns = make(map[string]*Conn)
	if opts.Addressing.Enabled {
		r.directory.on.Store(true)
		if opts.Backend.Broker != nil {
			r.cluster = r.newCluster()
		}
	}
	r.origin.Origins, r.origin.AnyOrigin, r.origin.Hosts = opts.Origins, opts.Handshake.InsecureAnyOrigin, opts.Handshake.Hosts
	r.origin.Logger = opts.Logger
	r.fair.Init(&r.sockets, func(k *Context) { go k.conn.handleConcurrently(k) })
	r.presence.MaxList, r.presence.Panicked = opts.Limits.MaxQueued/2, r.panickedOutside
	r.watchdog.Config = watchdog.Config[*Conn]{Observe: (*Conn).observe, Sockets: &r.sockets, Stop: r.ctx.Done()}
	r.wheel.Init(timerwheel.Config[*Conn]{
		Epoch: r.epoch, Tick: opts.Liveness.tick(), Check: (*Conn).check, Stop: r.ctx.Done(),
	})
	r.limits = serial.Calls[LimitInfo]{Name: "OnLimitExceeded", Call: r.callOnLimitExceeded, Missed: &r.stats.missed, Logger: opts.Logger}
	r.refusals = serial.Calls[Refused]{Name: "OnRefused", Call: r.callOnRefused, Missed: &r.stats.missed, Logger: opts.Logger}
	i := opts.Idempotency
	r.dedupe = dedupe.Config{Store: opts.Backend.Idempotency, Keep: i.Keep, Lease: opts.Backend.ProcessTimeout, Timeout: i.Timeout, Busy: r.handlers.Add}
	if opts.Overload.Enabled {
		r.shedder = newShedder(r)
	}
	r.turns = turn.Rules[Context]{
		MaxInFlight: opts.Limits.MaxInFlight, MaxPending: opts.Limits.MaxPending, Opened: (*Context).opened,
	}
	return r
}
