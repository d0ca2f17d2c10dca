package ratelimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// openingRate is how fast one client may open connections by default.
var openingRate = limit.TokenBucket{Capacity: 5, Refill: 10, Per: time.Minute}

// GateOptions configure a [Gate]. The zero value is ready to use over a store in
// this process; over a shared one, Limiter.Name must be set.
type GateOptions struct {
	// ClientIP finds a client's address; IPv6 is grouped by /64. It must be the
	// router's, too.
	//
	// Default: [ingress.PeerIP]. Behind a proxy that is the proxy's address, and all
	// clients are one: use [ingress.ClientIP].
	ClientIP func(*http.Request) netip.Addr

	// Identify finds out who a handshake claims to come from. The claim has its own
	// rate, and its address has one above it, because claims cost nothing to make up.
	//
	// Default: the bearer token, or else the API key in X-API-Key, both hashed; or
	// else the address alone.
	Identify ingress.Identifier

	// PerIdentity and PerIP are the rates at which connections may be opened.
	//
	// Default: 5 at once, and 10 a minute, each.
	PerIdentity, PerIP limit.Policy

	// MaxPerUser, MaxPerIP and MaxTotal are how many connections may be open at a
	// time: of one user of a tenant once it is authenticated, of one address, and in
	// all. They count in all processes that share the store, which has to be a
	// [limit.LeaseStore] unless all three are negative. Negative: no limit.
	//
	// Default: 10, 100 and 50,000.
	MaxPerUser, MaxPerIP, MaxTotal int

	// Lease is the time after which the connections of a process that was killed
	// count no more. A process that lives renews its own three times as often. A
	// store in this process has no use for it.
	//
	// Default: 30 s. At least 1 s.
	Lease time.Duration

	// Instance names this server among those that share the store: a name that is the
	// same when the server starts again, and that no other server has at the same time,
	// such as the host's. What a server of this name held that was killed is then
	// released within seconds of the next one's start, not after Lease. A process that
	// lives keeps what it holds, even if another one has its name by mistake, unless it
	// cannot reach the store for 2 s while the other one starts; then its places are
	// counted again when it renews them. It costs one more entry in the store for each
	// place, and a call for each handshake that is made at the same time as its others.
	//
	// Default: none. A store in this process has no use for it.
	Instance string

	// Banned says how long a client is still banned; 0 means it is not. It is asked
	// about every handshake with the address alone, and again with the identity once
	// that is authenticated. The method Banned of [Bans] is one.
	//
	// Default: nobody is banned.
	Banned func(ctx context.Context, ip netip.Addr, id ingress.Identity) (time.Duration, error)

	// RetryAfter is the wait to advise where nobody can know when there will be room,
	// because it depends on others to leave. Up to as much is added at random, so that
	// they do not all come back at once.
	//
	// Default: 5 s.
	RetryAfter time.Duration

	// AcceptRefused tells pages why they are refused. A browser hides the answer of a
	// handshake that fails, so it is accepted and closed at once with 4429 (1013 if
	// the server is full) and the reason {"retryAfterMs":n}. At most 100 a second are
	// answered like this; others, and clients that are no pages, get the plain answer.
	AcceptRefused bool

	// RateLimitDraft10 adds the fields RateLimit and RateLimit-Policy to refusals, as
	// of draft-ietf-httpapi-ratelimit-headers-10, which is not a standard yet.
	RateLimitDraft10 bool

	// OnRefused is called for every handshake that is refused, before it is answered.
	// It runs on the request's goroutine and must not block.
	//
	// Default: refusals are logged at level INFO, at most one a second, which tells
	// the number of those between, and all at level DEBUG.
	OnRefused func(GateRefusal)

	// Limiter are the options of the gate's limits. Their names are Limiter.Name with
	// "/rate-ip", "/rate-identity", "/open-ip", "/open-user" and "/open-total". With
	// Shadow the gate refuses nobody for them, and counts.
	Limiter limit.Options
}

// GateRefusal describes a handshake that was refused. It holds no secret.
type GateRefusal struct {
	// Policy names what refused: "connections-per-ip", "connections-per-identity",
	// "open-per-ip", "open-per-user", "open-total", "ban", a name of your own
	// (limit.Named), or "" for a store that fails.
	Policy string
	// IP is the client's address, IPv6 as its /64.
	IP netip.Addr
	// Subject is whom the client claims to be. It is the zero Subject where the
	// address is all that is known.
	Claim ingress.Claim
	// RetryAfter is the wait that the client is told.
	RetryAfter time.Duration
	// TraceID is the id that the client is told.
	TraceID string
	// Err is what was returned in place of a decision, or the rejection.
	Err error
}

// Gate limits the opening of connections, before anything expensive is done for
// them. It is an [ingress.Gate], to be set as the option of a router:
//
//	gate := ratelimit.NewGate(store, ratelimit.GateOptions{})
//	r := router.New(router.Options{Gate: gate, Authenticate: authenticate})
//
// and, by [Gate.Handler], middleware for any other handler of WebSockets.
//
// In this order it asks whether the address is banned; how fast its client and its
// address open connections, which are charged together or not at all; how many
// connections the address has, and all have; and once the client is authenticated,
// whether it is banned, and how many connections it has. A refused handshake is
// answered 429, or 503 when the server is full, with
//
//   - Retry-After, in whole seconds, rounded up;
//   - except for a ban, X-RateLimit-Limit, the most that may be opened at once, or be open;
//     X-RateLimit-Remaining, what is left of it; and X-RateLimit-Reset, the whole
//     seconds from now, rounded up, until all of it is there again;
//   - X-Trace-Id, see [ingress.TraceID];
//   - a body of type application/problem+json (RFC 9457) with retryAfterMs, traceId
//     and violated-policies.
//
// A connection's places are given back when it ends, however it does, and those of
// a process that was killed when the lease is over. Before a process ends, [Gate.Flush]
// waits until the store has released the last of them; router.Router.Shutdown calls it.
// All methods may be used by any number of goroutines.
type Gate struct {
	o           GateOptions
	ip          *limit.Limiter
	identity    *limit.Limiter
	perIP       *leaseRenewer
	perUser     *leaseRenewer
	total       *leaseRenewer
	instance    *instance // nil without GateOptions.Instance
	told        told
	log         logged
	admitted    atomic.Int64
	refused     atomic.Int64
	refusedLate atomic.Int64
}

var _ ingress.Gate = (*Gate)(nil)

// NewGate makes a gate over a store, which must be a [limit.LeaseStore] unless all
// numbers of open connections are without limit. It panics when an option is
// invalid.
func NewGate(store limit.Store, o GateOptions) *Gate {
	o = o.withDefaults()
	mustBeNamed("NewGate", "GateOptions", store, o.Limiter)
	g := &Gate{
		o:        o,
		ip:       limit.New(store, defaultName("connections-per-ip", o.PerIP), named(o.Limiter, "/rate-ip")),
		identity: limit.New(store, defaultName("connections-per-identity", o.PerIdentity), named(o.Limiter, "/rate-identity")),
	}
	g.perIP = newLeaseRenewer(store, "open-per-ip", o.MaxPerIP, o.Lease, named(o.Limiter, "/open-ip"))
	g.perUser = newLeaseRenewer(store, "open-per-user", o.MaxPerUser, o.Lease, named(o.Limiter, "/open-user"))
	g.total = newLeaseRenewer(store, "open-total", o.MaxTotal, o.Lease, named(o.Limiter, "/open-total"))
	g.instance = newInstance(store, o)
	g.told.plan = mustCompile(limit.TokenBucket{Capacity: tellPerSecond, Refill: tellPerSecond, Per: time.Second})
	return g
}

func (o GateOptions) withDefaults() GateOptions {
	if o.ClientIP == nil {
		o.ClientIP = ingress.PeerIP
	}
	if o.Identify == nil {
		o.Identify = ingress.FirstOf(ingress.ByBearer, ingress.ByAPIKey("X-API-Key"))
	}
	for p, byDefault := range map[*limit.Policy]limit.Policy{&o.PerIdentity: openingRate, &o.PerIP: openingRate} {
		if *p == nil {
			*p = byDefault
		}
	}
	for n, byDefault := range map[*int]int{&o.MaxPerUser: 10, &o.MaxPerIP: 100, &o.MaxTotal: 50_000} {
		if *n == 0 {
			*n = byDefault
		}
	}
	if o.Lease == 0 {
		o.Lease = limit.DefaultLeaseTime
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = 5 * time.Second
	}
	if o.Limiter.Logger == nil {
		o.Limiter.Logger = slog.Default()
	}
	switch {
	case o.Lease < time.Second:
		panic(fmt.Sprintf("ratelimit: GateOptions.Lease is %v; it must be at least 1 s (0 for 30 s)", o.Lease))
	case o.RetryAfter < 0:
		panic(fmt.Sprintf("ratelimit: GateOptions.RetryAfter is %v; it must be positive (0 for 5 s)", o.RetryAfter))
	}
	return o
}

// defaultName names a policy that has no name of its own. A composite's parts keep theirs.
func defaultName(name string, p limit.Policy) limit.Policy {
	switch p.(type) {
	case limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.Pacer:
		return limit.Named(name, p)
	default:
		return p
	}
}

func mustCompile(p limit.Policy) *limit.Plan {
	plan, err := limit.Compile(p)
	if err != nil {
		panic("ratelimit: " + err.Error())
	}
	return plan
}

// Flush waits until the store has released the places of all connections that have
// ended. Releases of many connections share their calls. It returns an error when ctx
// ends before, and after a lease at the latest, because then nothing is held any more.
//
// A router calls it in Shutdown. With [Gate.Handler], call it after the last
// connection has ended and before the store is closed.
func (g *Gate) Flush(ctx context.Context) error {
	renewers := []*leaseRenewer{g.perIP, g.perUser, g.total}
	errs := make([]error, len(renewers))
	var wait sync.WaitGroup
	for i, k := range renewers {
		if k != nil {
			wait.Go(func() { errs[i] = k.flushed(ctx) })
		}
	}
	wait.Wait()
	return errors.Join(append(errs, g.instance.flush(ctx))...)
}

// GateStats are figures of a [Gate] since it was made, and of this process.
type GateStats struct {
	// Entered counts the handshakes that were let in; Refused those that were not,
	// the ones included that were refused when they were authenticated.
	Admitted, Refused int64
	// Open is how many places the process has to renew. It is 0 over a store in this
	// process.
	Open int
}

// Stats returns the figures of the gate.
func (g *Gate) Stats() GateStats {
	return GateStats{
		Admitted: g.admitted.Load() - g.refusedLate.Load(), Refused: g.refused.Load(),
		Open: g.perIP.mine() + g.perUser.mine() + g.total.mine(),
	}
}
