package router

import (
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// Refused describes a handshake or a message that the router has refused, for metrics and logs. It
// has no payload, no header field and no token. Its texts are those that the client gets. Only
// those of RefusedHost and RefusedOrigin contain text of the client: the host and the origin,
// quoted and cut after 200 bytes.
type Refused struct {
	// Kind is which check has refused it.
	Kind RefusedKind
	// Code and Message are those of the error that the client gets.
	Code    errors.Code
	Message string
	// Conn is the connection; nil for a handshake.
	Conn *Conn
	// Type is the message's registered type; empty if it has none, and for a handshake.
	Type string
	// IP is the client's address as Options.ClientIP finds it.
	IP netip.Addr
}

// RefusedKind says why a handshake or a message was refused. It can be the label of a metric.
type RefusedKind string

const (
	// RefusedDraining is a handshake or a message that comes while the router shuts down.
	RefusedDraining RefusedKind = "draining"

	// RefusedOverload is a handshake or a message for which there is no room, see Options.Overload.
	RefusedOverload RefusedKind = "overload"

	// RefusedHandshake is a request that is no handshake, or a malformed one.
	RefusedHandshake RefusedKind = "handshake"
	// RefusedHost is a handshake for a host that is not in Options.Handshake.Hosts.
	RefusedHost RefusedKind = "host"
	// RefusedOrigin is a handshake from a page of another origin.
	RefusedOrigin RefusedKind = "origin"
	// RefusedGate is a handshake that Options.Gate refuses.
	RefusedGate RefusedKind = "gate"
	// RefusedIdentity is a handshake that Options.Authenticate refuses, or a message of a client
	// whose identity has expired.
	RefusedIdentity RefusedKind = "identity"
	// RefusedOpen is a connection that is closed before it is open, mostly because OnOpen returns
	// an error. OnClose is called only for hooks whose OnOpen has succeeded before.
	RefusedOpen RefusedKind = "open"

	// RefusedMiddleware is a message that middleware refuses before it is decoded. Rejections by a limit are not
	// included.
	RefusedMiddleware RefusedKind = "middleware"
	// RefusedEnvelope is a frame without a valid envelope, or a request without an id.
	RefusedEnvelope RefusedKind = "envelope"
	// RefusedType is a message of a type that is not registered.
	RefusedType RefusedKind = "type"
	// RefusedPayload is a message whose payload does not decode or is not valid.
	RefusedPayload RefusedKind = "payload"
)

// reportRefused has OnRefused called, or logs the refusal if there is no hook, unless OnError gets the error. at is
// about now, after the epoch.
func (r *Router) reportRefused(info Refused, at time.Duration, err error) {
	hooked := len(r.hooks.Load().refusals) > 0
	if !hooked && info.Kind.loggedElsewhere() {
		return
	}
	others, due := int64(0), hooked
	if !hooked {
		others, due = r.refusalLog.due(at)
	}
	if !due {
		return
	}
	e := errors.From(err)
	if e.Code == errors.Internal {
		return
	}
	info.Code, info.Message = e.Code, e.Message
	if hooked {
		r.refusals.Add(info)
		return
	}
	attrs := []any{"kind", info.Kind, "code", info.Code, "message", info.Message, "ip", info.IP}
	if info.Conn != nil {
		attrs = append(attrs, "type", info.Type, "conn", info.Conn.peer.ID)
	}
	r.opts.Logger.Info("wskit: refused", append(attrs, "others_since_last_line", others)...)
}

// loggedElsewhere reports whether such refusals have a line of their own: of the router, with a remedy, or of the gate.
func (k RefusedKind) loggedElsewhere() bool {
	return k == RefusedHost || k == RefusedOrigin || k == RefusedGate || k == RefusedOverload
}

// refusalLog lets one line a second pass: anyone can be refused as often as he likes.
type refusalLog struct {
	next atomic.Int64 // when the next line may come, after the router's epoch
	left atomic.Int64 // refusals without a line since the last
}

// due reports whether a line may be written now, and how many refusals had none since the last.
func (l *refusalLog) due(now time.Duration) (others int64, due bool) {
	next := l.next.Load()
	if int64(now) < next || !l.next.CompareAndSwap(next, int64(now+time.Second)) {
		l.left.Add(1)
		return 0, false
	}
	return l.left.Swap(0), true
}

// refused is for a message. Rejections by limits are for OnLimitExceeded.
func (c *Conn) refused(kind RefusedKind, typ string, err error) {
	if rejection(err) == nil {
		c.router.stats.messages.Add(kind)
		c.router.reportRefused(Refused{Kind: kind, Conn: c, Type: typ, IP: c.ip}, c.stream.Heard(), err)
	}
}

// refusedHandshake is for a handshake.
func (r *Router) refusedHandshake(req *http.Request, kind RefusedKind, err error) {
	r.stats.handshakes.Add(kind)
	if errors.CodeOf(err) == errors.Internal {
		return // for OnError
	}
	ip, _ := r.clientIP(req)
	r.reportRefused(Refused{Kind: kind, IP: ip}, r.now(), err)
}

func (r *Router) callOnRefused(info Refused) {
	callAll(r.hooks.Load().refusals, func(hook func(Refused)) {
		defer r.containPanic("OnRefused", info.Conn, info.Type)
		hook(info)
	})
}

// refuseHandshake answers a request that is not upgraded.
func (r *Router) refuseHandshake(w http.ResponseWriter, req *http.Request, kind RefusedKind, err error) {
	r.refusedHandshake(req, kind, err)
	ingress.Refuse(w, req, err)
}
