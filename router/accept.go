package router

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/closereason"
	"github.com/wskit/wskit/internal/handshake"
	"github.com/wskit/wskit/internal/httpclose"
	"github.com/wskit/wskit/router/internal/life"
	"github.com/wskit/wskit/router/internal/wire"
)

// clientIDHeader has the id of the connection, for support and logs.
const clientIDHeader = "X-Client-Id"

// ServeHTTP upgrades a request to a WebSocket connection, calls
// [Options.OnOpen] and returns; the connection is served by goroutines of its
// own. A request that is refused is answered with problem details (RFC 9457),
// a malformed handshake with plain text.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.draining.Load() {
		r.refuseHandshake(w, req, RefusedDraining, r.drainError())
		return
	}
	if httpclose.HasBody(req) && handshake.IsUpgrade(req) {
		r.refuseHandshake(w, req, RefusedHandshake, httpclose.ErrBody)
		return
	}
	if !handshake.IsUpgrade(req) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		r.refuseHandshake(w, req, RefusedHandshake, noHandshake(req))
		return
	}
	req = r.tokens.With(req)
	r.handshakes.Add(1)
	defer r.handshakes.Add(-1)
	c, check, err := r.admit(w, req)
	if err != nil {
		r.refuseHandshake(w, req, check, err)
		return
	}
	if c != nil {
		r.open(c)
	}
}

var errNoUpgrade = &ingress.Refusal{
	Err:    errors.InvalidArgument.New("this is a WebSocket endpoint; connect with a WebSocket client"),
	Status: http.StatusUpgradeRequired,
}

// errUpgradeLost is for a handshake of which something on the way has removed what makes it one.
var errUpgradeLost = &ingress.Refusal{
	Err:    errors.InvalidArgument.New("the handshake has lost its Upgrade and Connection headers; the proxy before this server must pass them on"),
	Status: http.StatusUpgradeRequired,
}

// noHandshake is the answer to a request that is none.
func noHandshake(req *http.Request) *ingress.Refusal {
	if req.Header.Get("Sec-WebSocket-Key") != "" {
		return errUpgradeLost
	}
	return errNoUpgrade
}

// admit checks a handshake, the cheap questions first, and upgrades it. It returns
// no connection and no error when a malformed handshake has been answered. With an error it returns
// which check has failed.
func (r *Router) admit(w http.ResponseWriter, req *http.Request) (c *Conn, check RefusedKind, err error) {
	if r.draining.Load() { // Shutdown does not wait for those that it did not count
		return nil, RefusedDraining, r.drainError()
	}
	if err := r.origin.CheckHost(req); err != nil {
		return nil, RefusedHost, err
	}
	if err := r.origin.CheckOrigin(req); err != nil {
		return nil, RefusedOrigin, err
	}
	if c, check, err = r.admitClient(w, req); err != nil {
		err = r.acceptRefused(req, err)
	}
	return c, check, err
}

// acceptRefused has the refusal of a page accepted, so that the page gets the reason.
func (r *Router) acceptRefused(req *http.Request, err error) error {
	if r.opts.Handshake.RefuseOverHTTP || req.Header.Get("Origin") == "" {
		return err
	}
	refusal := ingress.Refusal{Err: err}
	if given, ok := errors.AsType[*ingress.Refusal](err); ok && given != nil {
		refusal = *given
	}
	refusal.Accept = refusal.Accept || r.accepts.Take()
	return &refusal
}

// admitClient is admit after the host and the origin have been checked.
func (r *Router) admitClient(w http.ResponseWriter, req *http.Request) (c *Conn, check RefusedKind, err error) {
	ip, err := r.clientIP(req)
	if err != nil {
		return nil, RefusedHandshake, err
	}
	if err := r.shedder.checkHandshake(r, ip); err != nil {
		return nil, RefusedOverload, err
	}
	var admission ingress.Admission
	if r.opts.Gate != nil {
		if admission, err = r.opts.Gate.Admit(req, ip); err != nil {
			return nil, RefusedGate, err
		}
		defer func() {
			if c == nil {
				admission.Release()
			}
		}()
	}
	identity, err := r.authenticate(req)
	if err != nil {
		return nil, RefusedIdentity, err
	}
	if admission != nil {
		if err := admission.Identify(req.Context(), &identity); err != nil {
			return nil, RefusedGate, err
		}
		handshake.SetFields(w, admission)
	}
	if c, err = r.accept(w, req, ip, identity); c != nil {
		c.admission = admission
	}
	return c, RefusedHandshake, err
}

func (r *Router) authenticate(req *http.Request) (id ingress.Identity, err error) {
	if r.opts.Authenticate == nil {
		return id, nil
	}
	defer r.containHook("Authenticate", nil, &err)
	if id, err = r.opts.Authenticate(req); err == nil && id.Expired(time.Now()) {
		err = errExpired
	}
	return id, err
}

func (r *Router) clientIP(req *http.Request) (ip netip.Addr, err error) {
	defer r.containHook("ClientIP", nil, &err)
	return r.opts.ClientIP(req), nil
}

// containHook is deferred by a call of a hook that may fail. A panic becomes its error,
// and an error without a code of its own is a fault.
func (r *Router) containHook(name string, c *Conn, err *error) {
	if v := recover(); v != nil {
		*err = &panicFault{err: panicError(name, v), stack: stack()}
	}
	if *err != nil && errors.CodeOf(*err) == errors.Internal {
		r.fault(Fault{Conn: c, Hook: name, Err: *err})
	}
}

// accept takes the connection over and completes the handshake. Until the connection
// has been taken over nothing is sent, so that a failure can still be answered. It
// returns no connection and no error when a malformed handshake has been answered.
func (r *Router) accept(w http.ResponseWriter, req *http.Request, ip netip.Addr, identity ingress.Identity) (*Conn, error) {
	key, malformed := handshake.Key(req)
	if malformed != nil {
		r.refusedHandshake(req, RefusedHandshake, errors.InvalidArgument.New(malformed.Text))
		httpclose.AfterAnswer(w, req)
		malformed.Answer(w)
		return nil, nil
	}
	ctx, err := r.connContext(req)
	if err != nil {
		return nil, err
	}
	nc, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		err = hijackError(w, err)
		r.fault(Fault{Err: err})
		return nil, err
	}
	// The server's read and write timeouts were meant for the request. This fails
	// only for a connection that is closed, as reading will find out.
	_ = nc.SetDeadline(time.Time{})
	early, _ := brw.Reader.Peek(brw.Reader.Buffered())

	c := r.newConn(r.newID(), ip, identity, wire.NewStream(nc, early, r.epoch))
	c.ctx.Store(ctx)
	if c.stream.Socket() && !r.sockets.Load() {
		r.sockets.Store(true)
	}

	h := w.Header()
	h.Set(clientIDHeader, c.peer.ID)
	if p := handshake.Select(req, r.opts.Handshake.Subprotocols); p != "" {
		h.Set("Sec-WebSocket-Protocol", p)
	}
	if r.opts.Compression {
		if agreed := handshake.Deflate(req); agreed != "" {
			h.Set("Sec-WebSocket-Extensions", agreed)
			c.peer.Deflate = true
		}
	}
	if n := r.opts.Limits.SocketBuffer; n > 0 {
		c.stream.Buffer(n)
	}
	c.stream.Limit(c.serving.maxPayload, c.peer.Deflate)
	_ = c.stream.Out.Append(handshake.Response(h, key))
	c.stream.Out.Flush()
	c.stream.Count(&r.stats.traffic[c.stripe])
	return c, nil
}

// hijackError explains why a connection cannot be taken over: nearly always because of
// middleware that wraps the ResponseWriter.
func hijackError(w http.ResponseWriter, err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("router: the connection cannot be hijacked through the ResponseWriter %T; "+
			"the middleware that wraps the ResponseWriter has to give its type a method Unwrap() http.ResponseWriter (http.TimeoutHandler has none: keep it off this path): %w", w, err)
	}
	return fmt.Errorf("router: the connection cannot be hijacked through the ResponseWriter %T: %w", w, err)
}

// open registers an accepted connection, has OnOpen run, and only then starts to
// read.
func (r *Router) open(c *Conn) {
	r.stats.accepted.Add(1)
	r.conns.Add(c)
	r.traceOpened(c)
	opened := false
	defer func() {
		if !opened { // a hook has called runtime.Goexit
			c.announce()
			c.stream.Abort()
			c.end(errors.New("router: OnOpen ended its goroutine"))
		}
	}()
	err := c.onOpen()
	going := c.announce() // false: Shutdown has cut it off
	switch {
	case err == nil && going:
		r.wheel.Schedule(&c.timer, c.nextCheck(r.now()))
	case err != nil:
		r.stats.handshakes.Add(RefusedOpen)
		r.reportRefused(Refused{Kind: RefusedOpen, Conn: c, IP: c.ip}, r.now(), err)
		e := errors.From(err)
		wait := time.Duration(0)
		if e.Retryable() {
			wait = e.RetryAfter
		}
		c.Close(closeCodeOf(err), closereason.Of(wait, e.Message))
	}
	opened = true
	go c.rest()
}

func closeCodeOf(err error) errors.CloseCode {
	if l := rejection(err); l != nil && l.Close.Valid() {
		return l.Close
	}
	e := errors.From(err)
	switch {
	case e.Code == errors.Unauthenticated, e.Code == errors.PermissionDenied:
		return errors.ClosePolicy
	case e.Retryable():
		return errors.CloseTryAgainLater
	default:
		return errors.CloseInternal
	}
}

func (r *Router) newConn(id string, ip netip.Addr, identity ingress.Identity, stream *wire.Stream) *Conn {
	c := &Conn{
		router: r, serving: r.freeze(), stream: stream, stripe: uint8(r.stats.stripe.Add(1) % stripes),
		ip: ip, opened: r.now(),
	}
	c.peer.Init(r.hub, id, &stream.Out, (*host)(c))
	identity.Own()
	c.identity.Store(&identity)
	c.initLiveness()
	c.turn.Init(&r.turns)
	c.message.Store(int64(c.opened))
	stream.Out.Configure(r.opts.Limits.MaxQueued, r.opts.Liveness.WriteTimeout, owner{c})
	return c
}

// owner is what the connection's stream refers to.
type owner struct{ *Conn }

func (o owner) SlowConsumer() {
	o.router.stats.slow.Add(1)
	if o.to(life.Closing) {
		o.note(CloseInfo{Code: errors.CloseSlowConsumer, Reason: "slow consumer", ByServer: true})
	}
	o.enterPhase(life.AwaitSlow)
}

func (o owner) FramesDropped(n int) { o.router.stats.dropped.Add(int64(n)) }

func (o owner) BeforeWait() { o.peer.FlushBatch() }

var _ wire.Owner = owner{}
