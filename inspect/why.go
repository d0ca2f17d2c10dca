package inspect

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
)

// maxRecent is how many rejections are kept.
const maxRecent = 4096

// maxRecentShown is how many of them are shown, equal ones as one.
const maxRecentShown = 50

// rejection is a message that a limit has rejected, and in an answer the last of N equal ones.
type rejection struct {
	N          int       `json:"n,omitzero"`
	At         time.Time `json:"at"`
	Conn       string    `json:"conn"`
	Tenant     string    `json:"tenant,omitzero"`
	User       string    `json:"user,omitzero"`
	Tier       string    `json:"tier,omitzero"`
	IP         string    `json:"ip"`
	Type       string    `json:"type"`
	Kind       string    `json:"kind"`
	Limiter    string    `json:"limiter,omitzero"`
	Policy     string    `json:"policy,omitzero"`
	Limit      int64     `json:"limit"`
	Observed   int64     `json:"observed"`
	Remaining  int64     `json:"remaining"`
	RetryAfter float64   `json:"retryAfter"` // seconds
	Never      bool      `json:"never,omitzero"`
	Closed     int       `json:"closed,omitzero"` // with this code
}

// recent has the last rejections.
type recent struct {
	mu   sync.Mutex
	ring []rejection
	next int
}

func (r *recent) add(l router.LimitInfo) {
	x := rejection{
		At: time.Now(), Tenant: l.Identity.Tenant, User: l.Identity.User, Tier: l.Identity.Tier, IP: l.IP.String(), Type: l.Type,
		Kind: string(l.Kind), Limiter: l.Limiter, Policy: l.Policy, Limit: l.Limit, Observed: l.Observed, Remaining: l.Remaining,
		RetryAfter: l.RetryAfter.Seconds(), Never: l.Never, Closed: int(l.Close),
	}
	if l.Conn != nil {
		x.Conn = l.Conn.ID()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, x)
		return
	}
	r.ring[r.next] = x
	r.next = (r.next + 1) % maxRecent
}

// latest are the rejections, the latest first. r.mu is held.
func (r *recent) latest(yield func(*rejection) bool) {
	for n := range r.ring {
		if !yield(&r.ring[(r.next+len(r.ring)-1-n)%len(r.ring)]) {
			return
		}
	}
}

// of returns the last rejections that match, the latest first. Those of the same client, type and limit are one.
func (r *recent) of(match func(*rejection) bool) (list []rejection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := range r.latest {
		if !match(x) {
			continue
		}
		i := slices.IndexFunc(list, x.equals)
		if i < 0 && len(list) == maxRecentShown {
			continue
		}
		if i < 0 {
			i, list = len(list), append(list, *x)
		}
		list[i].N++
	}
	return list
}

// equals reports whether the same limit has rejected another message of the same client and type.
func (r *rejection) equals(o rejection) bool {
	return r.Tenant == o.Tenant && r.User == o.User && (r.User != "" || r.IP == o.IP) &&
		r.Type == o.Type && r.Kind == o.Kind && r.Limiter == o.Limiter && r.Policy == o.Policy && r.Never == o.Never && r.Closed == o.Closed
}

// limited is a client of which messages were rejected.
type limited struct {
	Tenant string    `json:"tenant,omitzero"`
	User   string    `json:"user,omitzero"`
	IP     string    `json:"ip,omitzero"` // of a client without a user
	N      int       `json:"n"`
	At     time.Time `json:"at"` // of the last one
	Type   string    `json:"type"`
}

// maxLimited is how many clients are shown of those that were limited.
const maxLimited = 10

// clients are those that were limited since a time: first those with the most rejections.
func (r *recent) clients(since time.Time) (list []limited) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := make(map[limited]int)
	for x := range r.latest {
		if x.At.Before(since) {
			break
		}
		c := limited{Tenant: x.Tenant, User: x.User}
		if c.User == "" {
			c.IP = x.IP
		}
		at, ok := known[c]
		if !ok {
			at, known[c] = len(list), len(list)
			c.At, c.Type = x.At, x.Type
			list = append(list, c)
		}
		list[at].N++
	}
	slices.SortStableFunc(list, func(a, b limited) int { return cmp.Compare(b.N, a.N) })
	return list[:min(len(list), maxLimited)]
}

// limitState is a limit for the messages of a client of one type, and what is left of it.
type limitState struct {
	Limiter string `json:"limiter"`
	Type    string `json:"type"`
	Policy  string `json:"policy,omitzero"`
	// Bound says that a message would be rejected now.
	Bound      bool    `json:"bound"`
	Limit      int64   `json:"limit"`
	Remaining  int64   `json:"remaining"`
	RetryAfter float64 `json:"retryAfter,omitzero"` // seconds until a message fits
	ResetAfter float64 `json:"resetAfter,omitzero"` // seconds until nothing is used
	Error      string  `json:"error,omitzero"`
	// Rule is what the rules say.
	Rule *rules.Effective `json:"rule,omitzero"`
}

// maxTypes bounds for how many types limits are read.
const maxTypes = 8

// why finds the limits that apply to a client, and its last rejections.
func (i *inspector) why(ctx context.Context, q query, a *answer) {
	c, err := q.subject()
	if err != nil {
		a.Error = err.Error()
		return
	}
	conns, _ := i.inside.Conns(matchConn(query{Tenant: q.Tenant, User: q.User, IP: q.IP}), 1)
	a.Recent = i.recent.of(func(r *rejection) bool {
		return (q.User == "" || r.User == q.User && r.Tenant == q.Tenant) && (q.IP == "" || r.IP == q.IP) && (q.Type == "" || r.Type == q.Type)
	})
	switch { // what is not said of the client is known from its connection, or its last rejection
	case len(conns) > 0:
		c.Identity.Tier = conns[0].Tier
		if !c.IP.IsValid() {
			c.IP, _ = netip.ParseAddr(conns[0].IP)
		}
	case len(a.Recent) > 0:
		c.Identity.Tier = a.Recent[0].Tier
	}
	types := []string{q.Type}
	if q.Type == "" {
		types = types[:0]
		for _, r := range a.Recent {
			if !slices.Contains(types, r.Type) && len(types) < maxTypes {
				types = append(types, r.Type)
			}
		}
		if len(types) == 0 {
			for _, rt := range i.r.Routes() {
				if (rt.Kind == router.KindRequest || rt.Kind == router.KindEvent) && len(types) < maxTypes {
					types = append(types, rt.Type)
				}
			}
		}
	}
	for _, typ := range types {
		c.Type = typ
		if i.o.Rules != nil {
			e, d, err := i.o.Rules.Peek(ctx, c)
			s := newLimitState("rules", typ, d, err)
			s.Rule, s.Policy = &e, e.Policy
			s.Bound = s.Bound && e.Limited
			a.Limits = append(a.Limits, s)
			if d, err := i.o.Rules.PeekConcurrent(ctx, c); err != nil || d.Limit > 0 {
				s := newPlacesState("rules", typ, d, err)
				s.Rule = &e
				a.Limits = append(a.Limits, s)
			}
		}
		for _, l := range i.o.Limits {
			if len(l.Types) > 0 && !slices.Contains(l.Types, typ) {
				continue
			}
			if places := l.Concurrency; places != nil {
				d, err := places.Peek(ctx, l.Key(places.Key(nil), c))
				a.Limits = append(a.Limits, newPlacesState(places.Name(), typ, d, err))
				continue
			}
			d, err := l.Limiter.Peek(ctx, l.Key(l.Limiter.Key(nil), c), 1)
			a.Limits = append(a.Limits, newLimitState(l.Limiter.Name(), typ, d, err))
		}
	}
	if i.o.Bans != nil {
		a.Bans = true
		banned, err := i.o.Bans.Banned(ctx, c.IP, c.Identity)
		if err != nil {
			a.Error = errors.From(err).Message
		}
		a.Banned = banned.Seconds()
	}
}

func newLimitState(limiter, typ string, d limit.Decision, err error) limitState {
	s := limitState{
		Limiter: limiter, Type: typ, Policy: d.Policy, Bound: err == nil && !d.Allowed, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter.Seconds(), ResetAfter: d.ResetAfter.Seconds(),
	}
	if err != nil {
		s.Error = errors.From(err).Message
	}
	return s
}

// newPlacesState is that of a concurrency limit. When the next message fits is not known.
func newPlacesState(limiter, typ string, d limit.Decision, err error) limitState {
	s := newLimitState(limiter, typ, d, err)
	s.Policy = "concurrency"
	return s
}
