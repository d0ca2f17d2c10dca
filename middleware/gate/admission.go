package gate

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// Admit implements [ingress.Gate].
func (g *Gate) Admit(r *http.Request, ip netip.Addr) (ingress.Admission, error) {
	a := &admission{gate: g, ip: ingress.GroupIP(ip), page: r.Header.Get("Origin") != ""}
	if s, ok := g.o.Identify(r); ok && s.Kind != "ip" {
		a.claim = s
	}
	a.trace = ingress.TraceID(r)
	admitted := false
	defer func() { // also when a hook panics
		if !admitted {
			a.Release()
		}
	}()
	if err := a.admit(r.Context()); err != nil {
		return nil, err
	}
	admitted = true
	g.admitted.Add(1)
	return a, nil
}

// admission is a connection that a [Gate] has admitted.
type admission struct {
	gate   *Gate
	ip     netip.Addr // grouped
	claim  Claim
	trace  string // until the client is identified
	page   bool
	header http.Header

	mu       sync.Mutex
	released bool
	held     [3]heldLease
	n        int
}

type heldLease struct {
	limit *limit.ConcurrencyLimit
	lease limit.Lease
}

func (a *admission) admit(ctx context.Context) error {
	if err := a.banned(ctx, ingress.Identity{}); err != nil {
		return err
	}
	if err := a.rates(ctx); err != nil {
		return err
	}
	g := a.gate
	address := ""
	if a.ip.IsValid() {
		address = a.ip.String()
	}
	if err := a.acquire(ctx, g.perIP, limit.KeyOf(address)); err != nil {
		return err
	}
	return a.acquire(ctx, g.total, limit.KeyOf("all"))
}

// Identify implements [ingress.Admission]. Calls after the first do nothing.
func (a *admission) Identify(ctx context.Context, id *ingress.Identity) error {
	if a.trace == "" {
		return nil
	}
	if err := a.identify(ctx, id); err != nil {
		a.gate.refusedLate.Add(1)
		return err
	}
	a.trace, a.claim = "", Claim{} // they need memory and are not used again
	return nil
}

// identify refuses a client that is known by more than its address by now.
func (a *admission) identify(ctx context.Context, id *ingress.Identity) error {
	if id.User == "" && id.Tenant == "" {
		return nil
	}
	err := a.banned(ctx, *id)
	if err == nil && id.Authenticated() {
		err = a.acquire(ctx, a.gate.perUser, limit.KeyOf(id.Tenant, id.User))
	}
	return err
}

// Release implements [ingress.Admission].
func (a *admission) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	for _, p := range a.held[:a.n] {
		p.limit.Release(p.lease)
	}
	a.n = 0
}

func (a *admission) banned(ctx context.Context, id ingress.Identity) error {
	if a.gate.o.Banned == nil {
		return nil
	}
	left, err := a.gate.o.Banned(ctx, a.ip, id)
	if err != nil {
		return a.fault(err)
	}
	if left <= 0 {
		return nil
	}
	return a.refuse(ban(left))
}

// keyRoom is as much as a key of usual names takes.
const keyRoom = 96

// charges has the memory of a call of rates.
type charges struct {
	limiters [2]*limit.Limiter
	keys     [2]limit.Key
	asks     [2]limit.Ask
	room     [2][keyRoom]byte
}

var chargesPool = sync.Pool{New: func() any { return new(charges) }}

// rates charges the claim and the address, both or neither.
func (a *admission) rates(ctx context.Context) error {
	g := a.gate
	c := chargesPool.Get().(*charges)
	defer chargesPool.Put(c)
	limiters := append(c.limiters[:0], g.ip)
	keys := append(c.keys[:0], g.ip.Key(c.room[0][:0]).Addr(a.ip))
	if a.claim != (Claim{}) {
		limiters = append(limiters, g.identity)
		keys = append(keys, g.identity.Key(c.room[1][:0]).Part(a.claim.Kind).Part(a.claim.ID))
	}
	asks := c.asks[:0]
	for i, l := range limiters {
		asks = append(asks, l.Ask(keys[i], 1))
	}
	bound, err := limit.TakeAll(ctx, asks)
	if errors.Is(err, errors.ErrUnsupported) {
		bound, err = inTurn(ctx, limiters, keys, asks)
	}
	if err != nil {
		return a.fault(err)
	}
	policy := g.ipRate
	if bound > 0 {
		policy = g.ownRate
	}
	d := &asks[bound].Decision
	if !d.Allowed {
		return a.refuse(rate(limiters[bound], policy, d))
	}
	if g.o.HeaderOnSuccess && !d.Shadowed {
		left := rate(limiters[bound], policy, d)
		left.wait = d.ResetAfter
		a.header = left.header(g.o.RateLimitDraft10)
	}
	return nil
}

// Header returns the fields for the answer of the handshake, nil if there are none. See
// [ingress.Admission].
func (a *admission) Header() http.Header {
	h := a.header
	a.header = nil // it needs memory and is not used again
	return h
}

// inTurn charges the address first, and the claim only if that fits. If the claim is refused,
// the address gets a refund, because other clients share it. (A store without Refund keeps the
// charge.) bound is as that of limit.TakeAll.
func inTurn(ctx context.Context, limiters []*limit.Limiter, keys []limit.Key, asks []limit.Ask) (bound int, err error) {
	for i, l := range limiters {
		d := &asks[i].Decision
		if *d, err = l.Take(ctx, keys[i], 1); err != nil || !d.Allowed {
			for j := range i {
				_ = limiters[j].Refund(ctx, keys[j], asks[j].Decision)
			}
			return i, err
		}
		if d.Remaining < asks[bound].Decision.Remaining {
			bound = i
		}
	}
	return bound, nil
}

// acquire acquires a lease for the admission.
func (a *admission) acquire(ctx context.Context, l *openLimit, key limit.Key) error {
	if l == nil {
		return nil
	}
	lease, decision, err := l.limit.Acquire(ctx, key)
	switch {
	case err != nil:
		return a.fault(err)
	case !decision.Allowed:
		return a.refuse(full(l, &decision, a.gate.advice()))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released || ctx.Err() != nil { // since the call began
		l.limit.Release(lease)
		return context.Canceled
	}
	a.held[a.n] = heldLease{l.limit, lease}
	a.n++
	return nil
}

// fault refuses because the store failed.
func (a *admission) fault(err error) error {
	return a.refuse(denial{err: err, wait: errors.From(err).RetryAfter})
}

// advice is the wait for a free connection.
func (g *Gate) advice() time.Duration {
	return g.o.RetryAfter + randomUpTo(g.o.RetryAfter)
}
