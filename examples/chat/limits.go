package main

import (
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

var (
	// A tab may send ten messages at once and one every three seconds from then
	// on: more than anybody types, and few enough to watch it work. Each type
	// of message has a bucket of its own.
	perTab = limit.TokenBucket{Capacity: 10, Refill: 1, Per: 3 * time.Second}

	// All tabs of one address together, whatever they send: room for an office
	// behind one address, and an end to making up new tabs.
	perAddress = limit.TokenBucket{Capacity: 300, Refill: 30, Per: time.Second}

	// Connections of a tab: reloads and bad networks, but no loop. A tab needs one
	// connection, and another while the server has not noticed the loss of the first.
	tabOpens    = limit.TokenBucket{Capacity: 20, Refill: 1, Per: time.Second}
	tabConns    = 4
	officeOpens = limit.TokenBucket{Capacity: 500, Refill: 25, Per: time.Second}
	officeConns = 1000

	// Who is refused this often within a minute is a program that does not listen,
	// and is shut out for a while. The button that floods is far from it.
	banOptions = ratelimit.BanOptions{
		After: 50_000, Within: time.Minute, Ban: time.Minute,
		Limiter: limit.Options{Name: "bans", Timeout: storeTimeout},
	}
)

// storeTimeout is how long a decision waits for a store across a network. Without an
// answer each server decides by itself.
const storeTimeout = 250 * time.Millisecond

// Limits are the limits of the chat.
type Limits struct {
	tab, address *limit.Limiter
	bans         *ratelimit.Bans
	gate         *ratelimit.Gate
}

func newLimits(b Backend) Limits {
	store := b.Limits
	bans := ratelimit.NewBans(store, banOptions)
	return Limits{
		tab:     limit.New(store, perTab, limit.Options{Name: "tab", Timeout: storeTimeout}),
		address: limit.New(store, perAddress, limit.Options{Name: "address", Timeout: storeTimeout}),
		bans:    bans,
		gate: ratelimit.NewGate(b.Connections, ratelimit.GateOptions{
			PerIdentity: tabOpens, MaxPerUser: tabConns,
			PerIP: officeOpens, MaxPerIP: officeConns,
			Banned:        bans.Banned,
			AcceptRefused: true, // the page says when to come back
			Limiter:       limit.Options{Name: "gate"},
		}),
	}
}

// Middleware asks the tab's limit first. What that refuses does not count
// against the address, so a tab that floods does not silence its neighbours.
func (l Limits) Middleware() []ingress.Middleware {
	return []ingress.Middleware{
		l.bans.Middleware,
		ratelimit.New(l.tab, ratelimit.Options{Key: ratelimit.PerUserPerType}),
		ratelimit.New(l.address, ratelimit.Options{Key: ratelimit.PerIP}),
	}
}

// Allowance tells a page how much it may send, so that it can show it.
type Allowance struct {
	Capacity int64   `json:"capacity"`
	Refill   int64   `json:"refill"`
	PerMs    int64   `json:"perMs"`
	Left     float64 `json:"left"`
}

// Allowance is what is left to the connection's tab for messages of a type.
func (l Limits) Allowance(c *router.Context, typ string) (Allowance, error) {
	key := ratelimit.PerUserPerType(l.tab.Key(nil), &ingress.Context{Type: typ, Identity: *c.Identity})
	d, err := l.tab.PeekKey(c, key, 1)
	used := float64(d.ResetAfter) / float64(perTab.Per) * float64(perTab.Refill)
	return Allowance{
		Capacity: perTab.Capacity,
		Refill:   perTab.Refill,
		PerMs:    perTab.Per.Milliseconds(),
		Left:     float64(perTab.Capacity) - used,
	}, err
}
