package inspect

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// maxRecent is how many rejections are kept.
const maxRecent = 4096

// maxRecentShown is how many of them are shown of a client.
const maxRecentShown = 50

// rejection is a message that a limit has rejected.
type rejection struct {
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

// of returns the last rejections of a client, the latest first.
func (r *recent) of(match func(*rejection) bool) (list []rejection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.ring {
		x := &r.ring[(r.next+len(r.ring)-1-n)%len(r.ring)]
		if match(x) {
			if list = append(list, *x); len(list) == maxRecentShown {
				break
			}
		}
	}
	return list
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
	Rule *ratelimit.Effective `json:"rule,omitzero"`
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

func (i *inspector) unban(ctx context.Context, q query) string {
	if i.o.Bans == nil {
		return "this process has no bans"
	}
	c, err := q.subject()
	if err == nil {
		err = i.o.Bans.Unban(ctx, c.IP, c.Identity)
	}
	if err != nil {
		return errors.From(err).Message
	}
	return ""
}

func (i *inspector) replaceRules(ctx context.Context, document string) string {
	var err error
	switch {
	case i.o.Shared != nil:
		err = i.o.Shared.Replace(ctx, []byte(document))
	case i.o.Rules == nil:
		return "this process has no rules"
	default:
		var rules ratelimit.Rules
		if rules, err = ratelimit.ParseRules([]byte(document)); err == nil {
			err = i.o.Rules.Replace(rules)
		}
	}
	if err != nil {
		return err.Error() // the operator's own text
	}
	return ""
}
