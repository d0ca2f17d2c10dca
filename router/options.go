package router

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/handshake"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/origin"
)

// Options configure a [Router]. The zero value works: clients are not authenticated, pages of
// the same host may connect, nothing is shared with other processes.
type Options struct {
	// Authenticate returns the identity of a connection, before it is upgraded. An error
	// refuses the connection: 401 for UNAUTHENTICATED, 400 for INVALID_ARGUMENT, 404
	// for NOT_FOUND, 429 for RESOURCE_EXHAUSTED, 503 for UNAVAILABLE,
	// DEADLINE_EXCEEDED and ABORTED, 500 for INTERNAL and for an error without
	// a code, and 403 for all others. [ingress.Token] reads the credentials a browser
	// can send. It is called concurrently, by the goroutines of the requests.
	//
	// Default: every client is accepted without an identity.
	Authenticate func(*http.Request) (ingress.Identity, error)

	// Renew returns the identity of a new token, with which a client renews its identity over the
	// open connection ($ws:renew, see PROTOCOL.md): roles, tier and expiry of the connection are
	// replaced. Tenant and user have to stay the same, or else the renewal is refused. Values that
	// are stored with a Key stay, too; those that are set with the returned identity replace them.
	// Handlers that run go on with the identity that they began with.
	//
	// An error is the answer to the client, and the identity stays as it is. Renew may wait for the
	// network: it runs in a separate goroutine, for at most 10 s, and for one renewal of a
	// connection at a time. The context ends with that time and with the connection. The token has
	// at most 8 KiB.
	//
	// Default: renewals are answered UNIMPLEMENTED.
	Renew func(context.Context, *Conn, string) (ingress.Identity, error)

	// Recheck is called after each renewal, for each topic of the connection: the user may have lost the right to it.
	// With an error such as errors.PermissionDenied the membership ends, with its presence, and the client gets
	// $ws:unsubscribed with the reason revoked. One that is retryable, has no code (a fault), or is that of a context
	// says nothing about the right: it is called again after 1 s to 1 min. ctx ends with the connection. A client can
	// come back with its ticket: set Resume.Allow, too.
	//
	// Default: the topics stay.
	Recheck func(ctx context.Context, c *Conn, topic string) error

	// Gate admits or refuses handshakes, before Authenticate is called, and is called again
	// when their connections have ended. gate.New makes one. Handshakes from pages
	// of other origins are refused before: they must not use up the limits of the user.
	//
	// Default: all are admitted.
	Gate ingress.Gate

	// Origins lists the origins of pages that may connect, besides pages of
	// the host the request itself is for: a host ("app.example.com"), a
	// pattern as of path.Match ("*.example.com"), or either with its scheme
	// ("https://app.example.com"). The names localhost, 127.0.0.1 and [::1] with
	// the same port are one host. Requests without an Origin header do not
	// come from a browser's page and are not checked. A refused origin is logged
	// once with Logger, 100 of them an hour at most.
	//
	// A page of the request's own host may not connect if it was loaded over http and the request
	// came by TLS. That is so if the entry of Hosts begins with https, if a proxy sends
	// X-Forwarded-Proto: https, or if the server itself has the TLS connection.
	//
	// Default: none.
	Origins []string

	// Handshake has what else may be set for the opening of connections.
	//
	// Default: see Handshake.
	Handshake Handshake

	// ClientIP finds the address of a client.
	//
	// Default: ingress.PeerIP, which reads no header. Behind a proxy that is the address of
	// the proxy: use [ingress.ClientIP].
	ClientIP func(*http.Request) netip.Addr

	// Backend keeps what processes share: topics, presence, the answers of messages with an idempotency key.
	// redis.Open makes one. [Router.Serve] closes it; Shutdown does not.
	//
	// Default: the memory of this process. Topics stay within this Router.
	Backend adapters.Backend

	// Addressing switches on [Router.User], [Router.Connection] and [Router.AllConnections].
	//
	// Default: off where other processes share the Backend.
	Addressing AddressingOptions

	// Idempotency handles messages with the same meta.idempotencyKey once.
	//
	// Default: see IdempotencyOptions.
	Idempotency IdempotencyOptions

	// Resume says which clients may resume their subscriptions to topics with history, see
	// Router.History.
	//
	// Default: all clients, with tickets of Backend.Secret.
	Resume ResumeOptions

	// HistoryCheck is how often the ends of the logs of topics with history are compared with
	// what this process has delivered. A lost message is noticed when the next message of the topic comes, or
	// else after this time.
	//
	// Default: 5 s. At least 10 ms.
	HistoryCheck time.Duration

	// OnLost is called when messages of topics without history may have been lost on the way from
	// the broker to this process, with the topics that have members here. Losses at one time
	// are reported in one call, when messages come again. It is called by one goroutine for each report.
	//
	// Topics of the router itself, whose names begin with "$ws:", are not reported. Their messages are
	// those to targets, see [Target.Send].
	//
	// Default: none.
	OnLost func(topics []string)

	// SendGaps sends the members of the topics of OnLost $ws:gap, so that clients can load again what
	// they show.
	//
	// Default: clients are not informed.
	SendGaps bool

	// Limits bound the resources of one connection.
	//
	// Default: see Limits.
	Limits Limits

	// Strict refuses payloads with unknown members, in all routes. See RouteOptions.Strict.
	//
	// Default: unknown members are ignored.
	Strict bool

	// ValidateOutgoing checks replies and declared events by the `validate` tags of their
	// types before they are sent. In place of a reply that is not valid, the answer is
	// INTERNAL; an event that is not valid is not sent. Package routertest always checks, and
	// fails the test.
	//
	// Default: only messages from clients are checked.
	ValidateOutgoing bool

	// Overload refuses messages while this process cannot keep up, by their priority.
	//
	// Default: off.
	Overload OverloadOptions

	// Liveness has the times after which a connection counts as dead.
	//
	// Default: see Liveness.
	Liveness Liveness

	// RequestTimeout is the maximum time for a request, unless its route sets another one;
	// a client may ask for less. After it, the request is answered with DEADLINE_EXCEEDED
	// and the handler's context is cancelled. It starts when the request arrives, so it
	// includes the time in which the request waits for earlier ones.
	//
	// Default: 30 s. Negative: no limit.
	RequestTimeout time.Duration

	// Compression accepts permessage-deflate from clients that offer it, and compresses
	// messages of 1 KiB and more. Each message is compressed separately: context takeover
	// would need more than a megabyte for each connection.
	//
	// Default: off. It needs more CPU than the rest of the router together.
	Compression bool

	// OnOpen is called when a connection has been accepted, before its first message is read.
	// It may subscribe and send. An error closes the connection: with 1008 for
	// UNAUTHENTICATED and PERMISSION_DENIED, 1013 for an error that is retryable, else 1011,
	// unless it is a rejection that has a close code (errors.LimitExceeded.Close). The
	// reason is {"retryAfterMs":n,"message":"…"}, with a wait if the error has one. It is
	// called concurrently. A library adds further hooks with [Router.AddHooks].
	//
	// Default: none.
	OnOpen func(*Conn) error

	// OnClose is called once for every connection for which OnOpen returned nil, when it has
	// ended. The connection has left its topics, which are in CloseInfo.Topics, and its context
	// is cancelled by then; a handler that ignores its context may still be running. It is
	// called concurrently, and Shutdown waits for it.
	//
	// Default: none.
	OnClose func(*Conn, CloseInfo)

	// OnError is called for faults of the server: errors without a code or with
	// INTERNAL, panics, answers that cannot be encoded. It is called concurrently, by the
	// goroutine with the fault, which waits for it.
	//
	// Default: the fault is logged with Logger.
	OnError func(Fault)

	// OnLimitExceeded is called once for every frame that a limit rejects, in order, by one
	// goroutine: a slow hook does not delay frames. If 65,536 calls are queued, further
	// ones are left out and counted in Stats.HooksMissed. Shutdown does not wait for the hook.
	//
	// Default: none.
	OnLimitExceeded func(LimitInfo)

	// OnRefused is called once for every handshake that is refused, and for every message that is
	// refused before it reaches its handler, in order, by one goroutine: a slow hook delays
	// neither. Faults are for OnError, and messages that a limit rejects for OnLimitExceeded. If
	// 65,536 calls are queued, further ones are left out and counted in Stats.HooksMissed.
	// Shutdown does not wait for the hook.
	//
	// Default: one refusal in a second is logged with Logger, with the number of those since the last.
	OnRefused func(Refused)

	// Logger gets everything that no hook gets: faults without OnError, refusals without OnRefused, faults of hooks,
	// and refused origins.
	//
	// Default: slog.Default().
	Logger *slog.Logger
}

// Limits bound the resources of one connection. In the worst case, with a client that sends as
// much as it may and reads nothing, a connection needs about
//
//	MaxPending + 2·MaxPayload   messages that wait, encoded and decoded
//	+ 1 KiB · MaxInFlight       in addition, and a goroutine's stack for each concurrent one
//	+ 1.25·MaxPayload           a message that is not complete
//	+ MaxQueued + MaxPayload    output for the client, with the answer that fills it; up to 6·MaxQueued
//	                            where all messages are tiny
//	+ 4·SocketBuffer            in the kernel, both directions
//
// for as long as Liveness allows. An idle connection needs about 5 KB, see
// docs/tuning.md.
type Limits struct {
	// MaxPayload is the size in bytes of the largest frame that is accepted,
	// after decompression, of types whose RouteOptions.MaxPayload does not say
	// otherwise. Default: 64 KiB. At least 128.
	MaxPayload int

	// MaxInFlight bounds each of three numbers: messages that wait for earlier ones, and, of
	// concurrent routes, events and requests that are handled at once. Default: 256. At the first
	// two bounds the connection is not read until there is room, so a client may send any number of
	// messages at once. A concurrent request over the third is refused. The time of a request
	// begins when it is read.
	MaxInFlight int

	// MaxPending is the total size in bytes of the messages that may be open at once. A message is
	// open from when it has been read until its handler has returned. Default: 1 MiB. At least 4
	// KiB. At this bound the connection is not read. A single message may be open whatever its
	// size.
	MaxPending int

	// MaxTopics is the number of topics that the connection may be a member of at once.
	// Default: 256. Beyond it Subscribe fails; OnExceeded does not apply.
	MaxTopics int

	// MaxQuestions is the number of questions to the client that may be open at once, see
	// [Question.Ask]. Default: 64. Beyond it Ask fails.
	MaxQuestions int

	// MaxQueued is the number of bytes that may be queued for a client that reads slowly. Default: 1 MiB. At least 4
	// KiB. For a message that does not fit, its Overflow policy applies. Of messages that may be dropped, one for each
	// 64 of these bytes is queued at most, because a place in the queue takes memory, too. Answers always fit: if they
	// fill half of it, the connection is not read until they have been sent.
	MaxQueued int

	// SocketBuffer is the size of the kernel's buffers for the connection, in bytes for each
	// direction (SO_RCVBUF and SO_SNDBUF; Linux doubles it for its own data). SO_SNDBUF is set
	// once that much has been sent, or the buffer that the kernel has chosen is full. Default:
	// 64 KiB. At least 4 KiB. Negative: the kernel chooses, which on Linux may be megabytes
	// for a client that does not read. A connection transfers at most this much per round
	// trip.
	SocketBuffer int

	// OnExceeded is what happens when a frame exceeds a limit: MaxPayload, MaxInFlight, or
	// one of the middleware. Default: OnExceededSend. A rejection with a close code
	// (errors.LimitExceeded.Close) closes the connection in any case. See also
	// RouteOptions.Silent.
	OnExceeded OnExceeded

	// CloseCode is the code used by OnExceededClose. Default: 1013 (try again later),
	// and 1009 for a frame that is too large.
	CloseCode errors.CloseCode
}

// OnExceeded is what happens when a frame exceeds a limit. The hook Options.OnLimitExceeded is
// called in any case.
type OnExceeded uint8

const (
	// OnExceededSend answers the frame with an error. The connection stays open.
	OnExceededSend OnExceeded = iota
	// OnExceededClose closes the connection with the reason {"retryAfterMs":n}, with null if
	// waiting does not help.
	OnExceededClose
	// OnExceededCustom sends nothing, also for a request: the OnLimitExceeded hook has to answer.
	OnExceededCustom
	// OnExceededSilent drops the frame without an answer, and counts it in Stats.Unanswered. A
	// frame with a correlation id is answered as by OnExceededSend, because its client waits for an answer.
	OnExceededSilent
)

// Handshake has further options for the opening of connections: the names of the server, where tokens are found, what a
// connection keeps of its request. The zero value works.
type Handshake struct {
	// Hosts lists the names of this server, as in the field Host of a request: a host
	// ("app.example.com"; without a port, any port is meant), a pattern as of path.Match
	// ("*.example.com"), or either with the scheme of its pages ("https://app.example.com").
	// Requests for other hosts are refused with 421. Without it, a page of another site can connect
	// like a page of this server, if the name of that site leads to this server's address (DNS
	// rebinding). Set it for servers in private networks and on developers' machines, and wherever
	// clients are not authenticated.
	//
	// Default: any host.
	Hosts []string

	// InsecureAnyOrigin lets pages of any origin connect. The browser sends the user's
	// cookies with their requests: use it only if cookies do not authenticate users.
	//
	// Default: false: pages of Origins and of the own host.
	InsecureAnyOrigin bool

	// RefuseOverHTTP answers pages that the Gate or Authenticate refuse with HTTP alone, as all others. Browsers hide
	// such an answer from the page.
	//
	// Default: such a handshake of a page is accepted, and the connection closed at once, so that the page sees why:
	// with 4401 for a status of 401, 4403 for 403, 4429 for 429 and 1013 for 503, and the reason
	// {"retryAfterMs":n,"message":"…"}, see ingress.Refusal.Accept. At most 100 a second are answered like this, each
	// for 2 s at most. All other refusals, such as those of origins and hosts, and those of clients that are not pages
	// (without an Origin), are HTTP answers.
	RefuseOverHTTP bool

	// TokenSubprotocol and TokenQuery say where [ingress.Token] finds the token of a handshake: in
	// a subprotocol with this prefix, and in this parameter of the query.
	//
	// Default: "bearer." and "access_token".
	TokenSubprotocol, TokenQuery string

	// Subprotocols lists the subprotocols of this server. The first one that the client offers as
	// well is selected. A token that is offered as a subprotocol is selected only if it is the only
	// offer, see [ingress.Token].
	//
	// Default: the first that the client offers, because browsers fail a connection for
	// which none of their offers is selected.
	Subprotocols []string

	// ConnContext returns a context with values for the connection: the contexts of the
	// connection and of its messages have them. An example is a trace id or a logger that HTTP
	// middleware put into the context of the request. It is called before the connection is upgraded, concurrently. An
	// upgrade ends the request, so the cancellation and the deadline of what it returns do not count.
	// What it returns is held for as long as the connection: req.Context() has all values, and
	// needs up to 1 KB; a context made of context.Background() has only those that are
	// put into it. Some HTTP routers use a value again for the next request (chi.URLParam):
	// copy what is needed of it.
	//
	// Default: none; the contexts have no values of the request.
	ConnContext func(req *http.Request) context.Context
}

// Liveness has the times of a connection: after which it counts as dead, and how it ends. Any bytes from the client,
// pongs included, show that it is alive. This is checked four times a second, and more often if
// one of the times is shorter than 2 s.
type Liveness struct {
	// PingInterval is the silence after which the client is pinged, unless it has not answered
	// the last ping yet. Default: 25 s. Negative: never.
	PingInterval time.Duration
	// PongTimeout is the time within which bytes must come after a ping; otherwise the connection
	// is closed with 4000. Default: 10 s.
	PongTimeout time.Duration
	// MessageTimeout is the maximum time from the first to the last byte of a message, and of each
	// frame; after it the connection is closed with 4000. Default: 30 s. Negative: no limit. Set a
	// longer time if messages are large and clients slow.
	MessageTimeout time.Duration
	// WriteTimeout is the time within which a client must accept bytes that are written to
	// it. Default: 30 s.
	WriteTimeout time.Duration
	// IdleTimeout is the time without a message for a handler after which the connection is
	// closed with 1000: pings, heartbeats and rejected frames do not count. Default: 0, no
	// limit.
	IdleTimeout time.Duration
	// MaxAge is the age at which a connection is closed with 1001, so that clients move to
	// new servers after some time. It is up to a tenth less for each connection, at random.
	// Default: 0, no limit.
	MaxAge time.Duration

	// ExpiryNotice is how long before its identity expires (ingress.Identity.ExpiresAt) a client
	// gets $ws:expiring. An identity that has expired by then is not accepted: a handshake is
	// refused with 401, a message with UNAUTHENTICATED, and a connection is closed with 4401. A
	// renewal that came before may end first. The clock is the wall clock: if it is set, a connection
	// gets the notice and is closed up to 30 s late. A connection that Shutdown drains is not closed
	// before the messages that it has accepted are answered.
	//
	// Default: 60 s. Negative: no notice.
	ExpiryNotice time.Duration

	// DrainWindow is the time over which Shutdown spreads the reconnects of clients, so that
	// they do not all reconnect at once. A client is away for half of it on average. Shutdown
	// itself does not wait for it. Handshakes and messages that are refused during a drain may be
	// repeated within it, and within 5 s.
	//
	// Default: 2 ms for each connection that is open when Shutdown begins, at least 1 s and at
	// most 1 minute. So about 500 clients a second reconnect, and more if the server has more
	// than 30,000. Negative: at once.
	DrainWindow time.Duration
}

// withDefaults returns a copy with the defaults, or an error that says what to change.
func (o Options) withDefaults() (Options, error) {
	o.Limits.MaxPayload = cmp.Or(o.Limits.MaxPayload, 64<<10)
	o.Limits.MaxInFlight = cmp.Or(o.Limits.MaxInFlight, 256)
	o.Limits.MaxPending = cmp.Or(o.Limits.MaxPending, 1<<20)
	o.Limits.MaxTopics = cmp.Or(o.Limits.MaxTopics, 256)
	o.Limits.MaxQuestions = cmp.Or(o.Limits.MaxQuestions, 64)
	o.Limits.SocketBuffer = cmp.Or(o.Limits.SocketBuffer, 64<<10)
	o.Limits.MaxQueued = cmp.Or(o.Limits.MaxQueued, 1<<20)
	o.Liveness.PingInterval = cmp.Or(o.Liveness.PingInterval, 25*time.Second)
	o.Liveness.PongTimeout = cmp.Or(o.Liveness.PongTimeout, 10*time.Second)
	o.Liveness.MessageTimeout = cmp.Or(o.Liveness.MessageTimeout, 30*time.Second)
	o.Liveness.WriteTimeout = cmp.Or(o.Liveness.WriteTimeout, 30*time.Second)
	o.Liveness.ExpiryNotice = cmp.Or(o.Liveness.ExpiryNotice, time.Minute)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.HistoryCheck = cmp.Or(o.HistoryCheck, 5*time.Second)
	if o.ClientIP == nil {
		o.ClientIP = ingress.PeerIP
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l, v := o.Limits, o.Liveness
	switch {
	case o.Recheck != nil && o.Renew == nil:
		return o, fmt.Errorf("router: Options.Recheck is called after renewals, and there are none; set Options.Renew, too")
	case l.MaxPayload < 128:
		return o, fmt.Errorf("router: Limits.MaxPayload is %d; it is in bytes and must be at least 128 (0 for 64 KiB)", l.MaxPayload)
	case l.MaxInFlight < 0:
		return o, fmt.Errorf("router: Limits.MaxInFlight is %d; it must be positive (0 for 256)", l.MaxInFlight)
	case l.MaxPending < 4<<10:
		return o, fmt.Errorf("router: Limits.MaxPending is %d; it is in bytes and must be at least 4096 (0 for 1 MiB)", l.MaxPending)
	case l.MaxTopics < 0:
		return o, fmt.Errorf("router: Limits.MaxTopics is %d; it must be positive (0 for 256)", l.MaxTopics)
	case l.MaxQuestions < 0:
		return o, fmt.Errorf("router: Limits.MaxQuestions is %d; it must be positive (0 for 64)", l.MaxQuestions)
	case l.MaxQueued < 4<<10:
		return o, fmt.Errorf("router: Limits.MaxQueued is %d; it is in bytes and must be at least 4096 (0 for 1 MiB)", l.MaxQueued)
	case l.SocketBuffer >= 0 && l.SocketBuffer < 4<<10:
		return o, fmt.Errorf("router: Limits.SocketBuffer is %d; it is in bytes and must be at least 4096 (0 for 64 KiB, negative for the kernel's choice)", l.SocketBuffer)
	case l.OnExceeded > OnExceededSilent:
		return o, fmt.Errorf("router: Limits.OnExceeded is %d; use OnExceededSend, OnExceededClose, OnExceededSilent or OnExceededCustom", l.OnExceeded)
	case l.OnExceeded == OnExceededCustom && o.OnLimitExceeded == nil:
		return o, fmt.Errorf("router: Limits.OnExceeded is OnExceededCustom, which needs Options.OnLimitExceeded; set that hook or use OnExceededSend")
	case l.CloseCode != 0 && !l.CloseCode.Valid():
		return o, fmt.Errorf("router: Limits.CloseCode %d may not be sent; use 1013 or a code from 4000 to 4999", l.CloseCode)
	case o.HistoryCheck < 10*time.Millisecond:
		return o, fmt.Errorf("router: Options.HistoryCheck is %v; it must be at least 10ms (0 for 5s)", o.HistoryCheck)
	case o.Handshake.TokenSubprotocol != "" && !handshake.IsToken(o.Handshake.TokenSubprotocol):
		return o, fmt.Errorf("router: Options.Handshake.TokenSubprotocol is %q; a subprotocol has letters, digits and !#$%%&'*+-.^_`|~ only", o.Handshake.TokenSubprotocol)
	case v.PongTimeout < 0 || v.WriteTimeout < 0 || v.IdleTimeout < 0 || v.MaxAge < 0:
		return o, fmt.Errorf("router: a time of Liveness is negative that must not be; use 0 for the default of PongTimeout, WriteTimeout, IdleTimeout and MaxAge")
	}
	var err error
	if o.Origins, err = origin.Patterns("Origins", o.Origins, "list the hosts that may connect, or set Handshake.InsecureAnyOrigin if you mean any"); err != nil {
		return o, err
	}
	if o.Handshake.Hosts, err = origin.Patterns("Handshake.Hosts", o.Handshake.Hosts, "list the names of this server, or leave Hosts empty if you mean any"); err != nil {
		return o, err
	}
	o.Handshake.Subprotocols = append([]string(nil), o.Handshake.Subprotocols...)
	if o.Addressing, err = o.Addressing.withDefaults(); err != nil {
		return o, err
	}
	if o.Backend, err = withMemory(o.Backend); err != nil {
		return o, err
	}
	broker := o.Backend.Broker
	if _, ok := broker.(pubsub.ReceiverCounter); o.Addressing.Enabled && broker != nil && !ok {
		return o, fmt.Errorf("router: Options.Addressing needs a Broker that is a pubsub.ReceiverCounter, and %T is none; use redis.Broker or memory.Broker, or add the method PublishCounted", broker)
	}
	if o.Overload, err = o.Overload.withDefaults(); err != nil {
		return o, err
	}
	if o.Resume, err = o.Resume.withDefaults(); err != nil {
		return o, err
	}
	o.Idempotency, err = o.Idempotency.withDefaults()
	return o, err
}

// LimitInfo describes a frame that a limit has rejected: the limit, the connection and the
// message.
type LimitInfo struct {
	errors.LimitExceeded
	// Conn is the connection that exceeded the limit.
	Conn *Conn
	// Type is the message's registered type; empty if it has none.
	Type string
	// IP is the client's address as Options.ClientIP found it.
	IP netip.Addr
	// Identity is the identity of the connection.
	Identity ingress.Identity
}

// Fault is a fault of the server: what a client sees as INTERNAL.
type Fault struct {
	// Conn is the connection it happened on. It is nil for Authenticate, when
	// there is none yet.
	Conn *Conn
	// Type is the message's registered type, empty if there is none.
	Type string
	// Hook is the hook that failed, such as "Authenticate"; empty if it is none.
	Hook string
	// Err is what went wrong, as it was returned; for a panic, it says where.
	Err error
	// Stack is where it happened, for a panic; otherwise nil.
	Stack []byte
}
