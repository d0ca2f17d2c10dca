package router

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/pubsub"
)

// Options configure a [Router]. The zero value works: nobody is authenticated,
// pages of the same host may connect, topics stay in this process.
type Options struct {
	// Authenticate finds out who opens a connection, before it is upgraded. An
	// error refuses it: 401 for UNAUTHENTICATED, 400 for INVALID_ARGUMENT, 404
	// for NOT_FOUND, 429 for RESOURCE_EXHAUSTED, 503 for UNAVAILABLE,
	// DEADLINE_EXCEEDED and ABORTED, 500 for INTERNAL and for an error without
	// a code, and 403 for all others. [ingress.Token] reads the credentials a browser
	// can send. It is called concurrently, by the goroutines of the requests.
	//
	// Default: every client is accepted without an identity.
	Authenticate func(*http.Request) (ingress.Identity, error)

	// Gate decides which handshakes are let in, before Authenticate is called for
	// them, and is told when their connections have ended. ratelimit.NewGate makes
	// one. A handshake from a foreign page is refused before that: it must not use up
	// what its visitor may open.
	//
	// Default: all are let in.
	Gate ingress.Gate

	// Hosts lists the names by which clients reach this server, in the field Host of a
	// request: a host ("app.example.com"), which stands for all its ports unless it has
	// one, a pattern as of path.Match ("*.example.com"), or either with the scheme of its
	// pages ("https://app.example.com"). Requests for other hosts are refused with 421.
	// Without it, a page of any site connects as if it were of this server's host, once the
	// site's name leads to this server's address (DNS rebinding): set it for servers in
	// private networks and on developers' machines, and wherever the network, and not the
	// client's identity, protects the server.
	//
	// Default: any host.
	Hosts []string

	// Origins lists the origins of pages that may connect, besides pages of
	// the host the request itself is for: a host ("app.example.com"), a
	// pattern as of path.Match ("*.example.com"), or either with its scheme
	// ("https://app.example.com"). The names localhost, 127.0.0.1 and [::1] with
	// the same port are one host. Requests without an Origin header do not
	// come from a browser's page and are not checked. A refused origin is logged
	// once with Logger, 100 of them an hour at most.
	//
	// A page of the request's own host may not connect if it was loaded over http and
	// the request came by TLS: if the entry of Hosts begins with https, a proxy says so
	// in X-Forwarded-Proto, or the server itself ends TLS.
	//
	// Default: none.
	Origins []string

	// InsecureAnyOrigin lets pages of any origin connect, with whatever the
	// browser knows of its user: cookies above all. Use it only where no
	// cookie counts.
	InsecureAnyOrigin bool

	// Subprotocols lists the subprotocols to agree on, the first that the
	// client offers too. A token offered as a subprotocol is never agreed on.
	//
	// Default: the first that the client offers, because a browser gives a
	// connection up when none of its offers is taken.
	Subprotocols []string

	// ClientIP finds the client's address.
	//
	// Default: ingress.PeerIP, which believes no header. Behind a proxy that
	// is the proxy's address.
	ClientIP func(*http.Request) netip.Addr

	// Broker carries published messages between processes. The Router does not
	// close it.
	//
	// Default: topics stay within this Router.
	Broker pubsub.Broker

	// Presence knows who has joined a topic, for [Context.Join] and
	// [Router.Presence]: memory.NewPresence for one process, redis.NewPresence
	// for several. The Router does not close it.
	//
	// Default: none; nobody can be seen, and Join fails.
	Presence pubsub.Presence

	// Limits bound what one connection may take.
	Limits Limits

	// Liveness says when a connection counts as dead.
	Liveness Liveness

	// RequestTimeout is the most time a request has, unless its route says
	// otherwise; a client may ask for less. When it is over, the client is
	// answered DEADLINE_EXCEEDED and the handler's context is cancelled. It
	// counts from when the request came: waiting for its turn is part of it.
	//
	// Default: 30 s. Negative: no limit.
	RequestTimeout time.Duration

	// DrainWindow is the time over which Shutdown spreads the moments at which
	// it asks clients to come back, so that they do not all come at once.
	// Shutdown itself does not wait for it.
	//
	// Default: 5 s. Negative: at once.
	DrainWindow time.Duration

	// Compression agrees on permessage-deflate with clients that offer it and
	// compresses messages of 1 KiB and more. Each message is compressed by
	// itself: with context takeover every connection would hold more than a
	// megabyte.
	//
	// Default: off. It costs more than the rest of the router together.
	Compression bool

	// OnOpen is called when a connection has been accepted, before its first
	// message is read. Subscribe and send from here what every client gets. An
	// error closes the connection: with 1008 for UNAUTHENTICATED and
	// PERMISSION_DENIED, 1013 for an error that is retryable, else 1011, unless it
	// is a rejection with a code of its own (errors.LimitExceeded.Close); its
	// message becomes the reason, or {"retryAfterMs":n} where it says when to come
	// back. It is called concurrently.
	OnOpen func(*Conn) error

	// OnClose is called once for every connection for which OnOpen returned
	// nil, when it has ended. Its topics and its context are gone by then; a
	// handler that takes no notice of its context may still be running. It is
	// called concurrently, and Shutdown waits for it.
	OnClose func(*Conn, CloseInfo)

	// OnError is called for faults of the server: errors without a code or with
	// INTERNAL, panics, answers that cannot be encoded. It is called
	// concurrently, by the goroutines at fault, which wait for it.
	//
	// Default: the fault is logged with Logger.
	OnError func(Fault)

	// OnLimitExceeded is called once for every frame that a limit rejects, one
	// after the other in order, by a goroutine of its own: a slow hook delays
	// no frame. A hook that is 65,536 rejections behind misses the next; Stats
	// counts these. The context is never cancelled, and Shutdown does not wait
	// for the hook.
	OnLimitExceeded func(context.Context, LimitInfo)

	// Logger takes what no hook receives: faults without OnError, what goes wrong in
	// the hooks, and origins that are refused.
	//
	// Default: slog.Default().
	Logger *slog.Logger
}

// Limits bound what one connection may take. In the worst case, that of a client that
// sends as much as it may and reads nothing, a connection holds about
//
//	MaxPending + 2·MaxPayload   messages that wait, as they came and decoded
//	+ 1.25·MaxPayload           a message that is not complete
//	+ MaxQueued + MaxPayload    what waits for the client, with the answer that fills it
//	+ 4·SocketBuffer            in the kernel, both directions
//
// for the time that Liveness gives it. An idle one holds 7 KB.
type Limits struct {
	// MaxPayload is the size in bytes of the largest frame that is accepted,
	// after decompression. Default: 64 KiB. At least 128.
	MaxPayload int

	// MaxInFlight is how many requests may be open at once: read, and their
	// handlers not returned. Default: 64. Requests that have not been read yet,
	// because the handlers before them are quick, do not count. Events that
	// wait for their turn are bounded by the same number, and so are events of
	// concurrent routes that are being handled: when either number is reached,
	// nothing more is read from the connection.
	MaxInFlight int

	// MaxPending is how many bytes of messages may be open at once: read, and their
	// handlers not returned. Default: 1 MiB. At least 4 KiB. When it is reached,
	// nothing more is read from the connection, except that one message may be open
	// whatever its size.
	MaxPending int

	// MaxTopics is how many topics the connection may be a member of at once.
	// Default: 256. Beyond it Subscribe fails; OnExceeded has no part in that.
	MaxTopics int

	// MaxQueued is how many bytes may wait for a client that reads more slowly
	// than it is sent to. Default: 1 MiB. At least 4 KiB. A message that does
	// not fit any more meets its Overflow policy. Answers always fit: when they
	// fill half of it, the connection is not read until they have left.
	MaxQueued int

	// SocketBuffer is how many bytes the kernel may hold for the connection in each
	// direction (SO_RCVBUF and SO_SNDBUF; Linux doubles it for its own bookkeeping). Default: 64 KiB. At least 4 KiB. Negative:
	// what the kernel chooses, which on Linux grows to megabytes for a client that
	// does not read. A connection carries at most this much per round trip.
	SocketBuffer int

	// OnExceeded says what happens when a frame runs into a limit: MaxPayload,
	// MaxInFlight, or one of the middleware's. Default: OnExceededSend. A rejection that says
	// itself that it closes the connection (errors.LimitExceeded.Close) does so in
	// any case.
	OnExceeded OnExceeded

	// CloseCode is the code used by OnExceededClose. Default: 1013 (try again later),
	// and 1009 for a frame that is too large.
	CloseCode errors.CloseCode
}

// OnExceeded says what happens when a frame runs into a limit. The hook
// Options.OnLimitExceeded is told in any case.
type OnExceeded uint8

const (
	// OnExceededSend answers the frame with an error and goes on.
	OnExceededSend OnExceeded = iota
	// OnExceededClose closes the connection; the reason tells when to come back:
	// {"retryAfterMs":n}, with null where waiting does not help.
	OnExceededClose
	// OnExceededCustom leaves it to the OnLimitExceeded hook alone: nothing is sent, not
	// even to a request.
	OnExceededCustom
)

// Liveness says when a connection counts as dead. Any bytes from the client,
// pongs included, prove that it is alive. That is checked four times a second, and
// more often where one of the times is shorter than 2 s.
type Liveness struct {
	// PingInterval is the silence after which the client is pinged. Default:
	// 25 s. Negative: never.
	PingInterval time.Duration
	// PongTimeout is how long a pinged client has to be heard of, before the
	// connection is closed with 4000. Default: 10 s.
	PongTimeout time.Duration
	// MessageTimeout is how long a message may take from its first byte to its last,
	// and likewise a frame of any kind; then the connection is closed with 1008.
	// Default: 30 s. Negative: for ever. Where MaxPayload is megabytes and clients
	// are slow, it has to be longer.
	MessageTimeout time.Duration
	// WriteTimeout is how long a client may take to accept bytes that are
	// written to it. Default: 30 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may go without a message for a
	// handler, before it is closed with 1000: pings, heartbeats and frames that
	// are refused do not count. Default: 0, for ever.
	IdleTimeout time.Duration
	// MaxAge is how long a connection may last before it is closed with 1001,
	// so that clients spread over new servers in time. Each connection gets up
	// to a tenth less, at random. Default: 0, for ever.
	MaxAge time.Duration
}

// withDefaults returns a copy in which every field says what it means, or an
// error that says what to change.
func (o Options) withDefaults() (Options, error) {
	o.Limits.MaxPayload = defaultTo(o.Limits.MaxPayload, 64<<10)
	o.Limits.MaxInFlight = defaultTo(o.Limits.MaxInFlight, 64)
	o.Limits.MaxPending = defaultTo(o.Limits.MaxPending, 1<<20)
	o.Limits.MaxTopics = defaultTo(o.Limits.MaxTopics, 256)
	o.Limits.SocketBuffer = defaultTo(o.Limits.SocketBuffer, 64<<10)
	o.Limits.MaxQueued = defaultTo(o.Limits.MaxQueued, 1<<20)
	o.Liveness.PingInterval = defaultTo(o.Liveness.PingInterval, 25*time.Second)
	o.Liveness.PongTimeout = defaultTo(o.Liveness.PongTimeout, 10*time.Second)
	o.Liveness.MessageTimeout = defaultTo(o.Liveness.MessageTimeout, 30*time.Second)
	o.Liveness.WriteTimeout = defaultTo(o.Liveness.WriteTimeout, 30*time.Second)
	o.RequestTimeout = defaultTo(o.RequestTimeout, 30*time.Second)
	o.DrainWindow = max(0, defaultTo(o.DrainWindow, 5*time.Second))
	if o.ClientIP == nil {
		o.ClientIP = ingress.PeerIP
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l, v := o.Limits, o.Liveness
	switch {
	case l.MaxPayload < 128:
		return o, fmt.Errorf("router: Limits.MaxPayload is %d; it is in bytes and must be at least 128 (0 for 64 KiB)", l.MaxPayload)
	case l.MaxInFlight < 0:
		return o, fmt.Errorf("router: Limits.MaxInFlight is %d; it must be positive (0 for 64)", l.MaxInFlight)
	case l.MaxPending < 4<<10:
		return o, fmt.Errorf("router: Limits.MaxPending is %d; it is in bytes and must be at least 4096 (0 for 1 MiB)", l.MaxPending)
	case l.MaxTopics < 0:
		return o, fmt.Errorf("router: Limits.MaxTopics is %d; it must be positive (0 for 256)", l.MaxTopics)
	case l.MaxQueued < 4<<10:
		return o, fmt.Errorf("router: Limits.MaxQueued is %d; it is in bytes and must be at least 4096 (0 for 1 MiB)", l.MaxQueued)
	case l.SocketBuffer >= 0 && l.SocketBuffer < 4<<10:
		return o, fmt.Errorf("router: Limits.SocketBuffer is %d; it is in bytes and must be at least 4096 (0 for 64 KiB, negative for the kernel's choice)", l.SocketBuffer)
	case l.OnExceeded > OnExceededCustom:
		return o, fmt.Errorf("router: Limits.OnExceeded is %d; use OnExceededSend, OnExceededClose or OnExceededCustom", l.OnExceeded)
	case l.OnExceeded == OnExceededCustom && o.OnLimitExceeded == nil:
		return o, fmt.Errorf("router: Limits.OnExceeded is OnExceededCustom, which leaves it to Options.OnLimitExceeded; set that hook or use OnExceededSend")
	case l.CloseCode != 0 && !l.CloseCode.Valid():
		return o, fmt.Errorf("router: Limits.CloseCode %d may not be sent; use 1013 or a code from 4000 to 4999", l.CloseCode)
	case v.PongTimeout < 0 || v.WriteTimeout < 0 || v.IdleTimeout < 0 || v.MaxAge < 0:
		return o, fmt.Errorf("router: Liveness holds a negative time; only PingInterval and MessageTimeout may be negative, for never")
	}
	var err error
	if o.Origins, err = hostPatterns("Origins", o.Origins, "list the hosts that may connect, or set InsecureAnyOrigin if you mean any"); err != nil {
		return o, err
	}
	if o.Hosts, err = hostPatterns("Hosts", o.Hosts, "list the names of this server, or leave Hosts empty if you mean any"); err != nil {
		return o, err
	}
	o.Subprotocols = append([]string(nil), o.Subprotocols...)
	return o, nil
}

// hostPatterns returns a copy of a list of hosts and patterns, each perhaps with a scheme, in
// lower case. remedy says what to do in place of an entry for all hosts.
func hostPatterns(option string, list []string, remedy string) ([]string, error) {
	list = append([]string(nil), list...)
	for i, entry := range list {
		entry = strings.ToLower(strings.TrimSuffix(entry, "/"))
		scheme, host := cutScheme(entry)
		switch _, err := path.Match(host, ""); {
		case host == "*" && scheme == "" || host == "":
			return nil, fmt.Errorf("router: Options.%s holds %q; %s", option, entry, remedy)
		case strings.Contains(host, "/"):
			return nil, fmt.Errorf("router: Options.%s holds %q; an entry has no path: leave it out", option, entry)
		case err != nil:
			return nil, fmt.Errorf("router: Options.%s holds the malformed pattern %q", option, entry)
		case option == "Hosts" && scheme != "" && scheme != "http" && scheme != "https":
			return nil, fmt.Errorf("router: Options.Hosts holds %q; the scheme is https or http, that of the pages", entry)
		}
		list[i] = entry
	}
	return list, nil
}

func defaultTo[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}
