// Package gate limits how fast connections are opened and how many are open, of an address, of an identity that is
// claimed, of a user, and in total. A [Gate] is the option of a router, and middleware for WebSocket handlers of other
// libraries.
package gate

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
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/httpclose"
	"github.com/wskit/wskit/internal/limitname"
	"github.com/wskit/wskit/limit"
)

// How fast connections may be opened by default.
var (
	identityRate = limit.TokenBucket{Capacity: 5, Refill: 10, Per: time.Minute}
	addressRate  = limit.TokenBucket{Capacity: 100, Refill: 10, Per: time.Second}
)

// Options configure a [Gate]. The zero value is ready to use over a store in
// this process; over a shared one, Limiter.Name must be set.
type Options struct {
	// ClientIP finds the address of a client for [Gate.Handler]; a router has Options.ClientIP, which its gate uses.
	// IPv6 is grouped by /64.
	//
	// Default: [ingress.PeerIP]. Behind a proxy that is the address of the proxy, and all
	// clients share its limits: use [ingress.ClientIP].
	ClientIP func(*http.Request) netip.Addr

	// Identify finds the identity that a handshake claims. The claim has a rate of its own.
	// The rate of the address applies as well, because clients can invent claims.
	//
	// Default: the bearer token, or else the API key in X-API-Key, both hashed; or
	// else the address alone.
	Identify Identifier

	// PerIdentity and PerIP are the rates at which connections may be opened. The identity is that of
	// [Options].Identify. Offices and mobile networks share an address.
	//
	// Default: 5 at once, and then 10 a minute, for an identity; 100 at once, and then 10 a second, for an address.
	PerIdentity, PerIP limit.Policy

	// MaxPerUser, MaxPerIP and MaxTotal are the numbers of connections that may be open at
	// a time: of one authenticated user of a tenant, of one address, and in total. All
	// processes that share the store count together. The store has to be a
	// [limit.LeaseStore] unless all three are negative. Negative: no limit.
	//
	// Default: 10, 1,000 and 50,000.
	MaxPerUser, MaxPerIP, MaxTotal int

	// Instance is the name of this server among those that share the store, such as the
	// name of the host. The leases of a killed server are then released within seconds of the
	// next start of a server with this name, and not after the ProcessTimeout of the store: see
	// [limit.ConcurrencyOptions].
	//
	// Default: none. A store in this process ignores it.
	Instance string

	// Banned returns how long a client is still banned; 0 means not banned. It is called for
	// every handshake with the address, and after authentication again with an identity that
	// has a user or a tenant, concurrently. Use [Bans.Banned].
	//
	// Default: no bans.
	Banned func(ctx context.Context, ip netip.Addr, id ingress.Identity) (time.Duration, error)

	// RetryAfter is the wait that a refused client gets if too many connections are open. (It is
	// not known when one ends.) Up to as much is added at random, so that clients do not all
	// reconnect at once.
	//
	// Default: 5 s.
	RetryAfter time.Duration

	// AcceptRefused sends pages the reason of a refusal, for [Gate.Handler]. A router does so by itself.
	// Browsers hide the answer of a failed handshake, so the handshake is accepted and the
	// connection closed at once with 4429 (1013 if the server is full) and the reason
	// {"retryAfterMs":n}. At most 100 a second are answered like this. All other refusals, and
	// those of clients that are not pages, are HTTP answers.
	//
	// Default: false.
	AcceptRefused bool

	// RateLimitDraft10 adds the fields RateLimit and RateLimit-Policy to refusals, according
	// to draft-ietf-httpapi-ratelimit-headers-10, which is not a standard yet.
	//
	// Default: false.
	RateLimitDraft10 bool

	// HeaderOnSuccess adds the same fields to the answers of handshakes that are admitted, of the rate
	// that has the least left. With [Gate.Handler] they are set before the handler is called; a
	// library that writes its own answer may leave them out. Pages cannot read them.
	//
	// Default: only refusals have them.
	HeaderOnSuccess bool

	// OnRefused is called for every handshake that is refused, before it is answered.
	// It runs on the request's goroutine and must not block.
	//
	// Default: refusals are logged at level INFO, at most one a second with the number of
	// those since the last, and all at level DEBUG.
	OnRefused func(Refusal)

	// Limiter has the options of the gate's limits. Their names are Limiter.Name followed by
	// "/rate-ip", "/rate-identity", "/open-ip", "/open-user" and "/open-total". With Shadow
	// the limits are counted and not enforced.
	//
	// Default: see [limit.Options]. Over a shared store its Name must be set.
	Limiter limit.Options
}

// Refusal describes a handshake that was refused. It contains no secret.
type Refusal struct {
	// Policy is the policy that refused: "connections-per-ip", "connections-per-identity",
	// "open-per-ip", "open-per-user", "open-total", "ban", a name of your own
	// (limit.Named), or "" if the store failed.
	Policy string
	// IP is the client's address, IPv6 as its /64.
	IP netip.Addr
	// Claim is the identity that the client claims; the zero Claim if it has none.
	Claim Claim
	// RetryAfter is the wait that is sent to the client.
	RetryAfter time.Duration
	// TraceID is the id that is sent to the client.
	TraceID string
	// Err is the rejection, or the error of the store.
	Err error
}

// Gate limits the opening of connections, before authentication. It is an [ingress.Gate], the
// option of a router:
//
//	gate := gate.New(store)
//	r := router.New(router.Options{Gate: gate, Authenticate: authenticate})
//
// [Gate.Handler] is middleware for handlers of WebSockets of other libraries.
//
// The checks are made in this order: a ban of the address; the rates of the claim and of the
// address, which are charged together or not at all; the open connections of the address, and
// of all clients; and after authentication, a ban of the user, or of the address in its tenant,
// and the open connections of the user. A refused handshake is answered with 429, or 503 if the server is full, and
//
//   - Retry-After, in whole seconds, rounded up;
//   - except for a ban, X-RateLimit-Limit, the number of connections that may be opened at
//     once, or be open; X-RateLimit-Remaining, the rest of it; and X-RateLimit-Reset, the
//     seconds, rounded up, until all of it is available again;
//   - X-Trace-Id, see [ingress.TraceID];
//   - a body of type application/problem+json (RFC 9457) with retryAfterMs, traceId
//     and violated-policies.
//
// The leases of a connection are released when it ends, and those of a killed process when
// they expire. Before a process ends, [Gate.Flush] waits until the store has released all of
// them; router.Router.Shutdown calls it.
// All methods may be used by any number of goroutines.
type Gate struct {
	o           Options
	ip          *limit.Limiter
	identity    *limit.Limiter
	ipRate      *limit.Plan // of ip
	ownRate     *limit.Plan // of identity
	perIP       *openLimit
	perUser     *openLimit
	total       *openLimit
	accepts     httpclose.Accepts
	log         logged
	admitted    atomic.Int64
	refused     atomic.Int64
	refusedLate atomic.Int64
}

var _ ingress.Gate = (*Gate)(nil)

// New returns a gate over a store, which must be a [limit.LeaseStore] unless the numbers
// of open connections are not limited. It panics if an option is not valid.
func New(store limit.Store, options ...Options) *Gate {
	o := given.Must("gate", "New", options)
	o = o.withDefaults()
	limitname.Must("gate", "New", "Options", store, o.Limiter)
	g := &Gate{
		o:       o,
		ipRate:  mustCompile(defaultName("connections-per-ip", o.PerIP)),
		ownRate: mustCompile(defaultName("connections-per-identity", o.PerIdentity)),
	}
	g.ip = limit.New(store, g.ipRate, limitname.With(o.Limiter, "/rate-ip"))
	g.identity = limit.New(store, g.ownRate, limitname.With(o.Limiter, "/rate-identity"))
	g.perIP = newOpenLimit(store, "open-per-ip", o.MaxPerIP, o, "/open-ip")
	g.perUser = newOpenLimit(store, "open-per-user", o.MaxPerUser, o, "/open-user")
	g.total = newOpenLimit(store, "open-total", o.MaxTotal, o, "/open-total")
	return g
}

func (o Options) withDefaults() Options {
	if o.ClientIP == nil {
		o.ClientIP = ingress.PeerIP
	}
	if o.Identify == nil {
		o.Identify = FirstOf(ByBearer, ByAPIKey("X-API-Key"))
	}
	for p, byDefault := range map[*limit.Policy]limit.Policy{&o.PerIdentity: identityRate, &o.PerIP: addressRate} {
		if *p == nil {
			*p = byDefault
		}
	}
	for n, byDefault := range map[*int]int{&o.MaxPerUser: 10, &o.MaxPerIP: 1000, &o.MaxTotal: 50_000} {
		if *n == 0 {
			*n = byDefault
		}
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = 5 * time.Second
	}
	if o.Limiter.Logger == nil {
		o.Limiter.Logger = slog.Default()
	}
	if o.RetryAfter < 0 {
		panic(fmt.Sprintf("gate: Options.RetryAfter is %v; it must be positive (0 for 5 s)", o.RetryAfter))
	}
	return o
}

// defaultName names a policy that has no name. The parts of a composite keep their names.
func defaultName(name string, p limit.Policy) limit.Policy {
	switch p.(type) {
	case limit.TokenBucket, limit.FixedWindow, limit.Calendar, limit.SlidingWindow, limit.SlidingLog, limit.Pacer:
		return limit.Named(name, p)
	default:
		return p
	}
}

func mustCompile(p limit.Policy) *limit.Plan {
	plan, err := limit.Compile(p)
	if err != nil {
		panic("gate: " + err.Error())
	}
	return plan
}

// Flush waits until the store has released the leases of all connections that have ended.
// Releases of many connections share calls. It returns an error if ctx ends before, and after
// the time of a lease at the latest, because then all of them have expired.
//
// Router.Shutdown calls it. With [Gate.Handler], call it after the last connection has ended
// and before the store is closed.
func (g *Gate) Flush(ctx context.Context) error {
	limits := []*openLimit{g.perIP, g.perUser, g.total}
	errs := make([]error, len(limits))
	var wait sync.WaitGroup
	for i, l := range limits {
		if l != nil {
			wait.Go(func() { errs[i] = l.limit.Flush(ctx) })
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// openLimit limits the connections that are open under a key.
type openLimit struct {
	limit  *limit.ConcurrencyLimit
	policy string
	most   int64
}

// newOpenLimit returns nil for a negative number: no limit.
func newOpenLimit(store limit.Store, policy string, most int, o Options, suffix string) *openLimit {
	if most < 0 {
		return nil
	}
	return &openLimit{policy: policy, most: int64(most), limit: limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
		Max: int64(most), Instance: o.Instance, Limiter: limitname.With(o.Limiter, suffix),
	})}
}

func (l *openLimit) count() int {
	if l == nil {
		return 0
	}
	return l.limit.Open()
}

// Stats has the figures of a [Gate] in this process since it was made.
type Stats struct {
	// Admitted counts the handshakes that were admitted, Refused the others, including those
	// that were refused after authentication.
	Admitted, Refused int64
	// Open is the number of leases that the process renews. It is 0 over a store in this
	// process.
	Open int
}

// Stats returns the figures.
func (g *Gate) Stats() Stats {
	return Stats{
		Admitted: g.admitted.Load() - g.refusedLate.Load(), Refused: g.refused.Load(),
		Open: g.perIP.count() + g.perUser.count() + g.total.count(),
	}
}
