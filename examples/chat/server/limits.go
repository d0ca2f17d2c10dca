package server

import (
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
)

var (
	// A tab may send ten messages at once, and then one every three seconds: more than
	// people type, and few enough to see the limit. Each type of message has its own bucket.
	perTab = limit.TokenBucket{Capacity: 10, Refill: 1, Per: 3 * time.Second}

	// All tabs of one address together, over all types: enough for an office behind one
	// address, and a limit for invented tabs.
	perAddress = limit.TokenBucket{Capacity: 300, Refill: 30, Per: time.Second}

	// Connections of a tab: enough for reloads and bad networks, but not for a loop. A tab
	// needs one connection, and a second one until the server notices that the first is lost.
	tabOpens    = limit.TokenBucket{Capacity: 20, Refill: 1, Per: time.Second}
	tabConns    = 4
	officeOpens = limit.TokenBucket{Capacity: 500, Refill: 25, Per: time.Second}
	officeConns = 1000

	// A client that is rejected this often within a minute is a faulty program, and is
	// banned for a time. The flood button of the page stays far below.
	banOptions = ratelimit.BanOptions{
		After: 50_000, Within: time.Minute, Ban: time.Minute,
		Limiter: limit.Options{Name: "bans", Timeout: storeTimeout},
	}
)

// storeTimeout is how long a decision waits for a store across a network. After it, each server
// decides by itself.
const storeTimeout = 250 * time.Millisecond

// Limits are the limits of the chat.
type Limits struct {
	tab, address *limit.Limiter
	bans         *ratelimit.Bans
	gate         *gate.Gate
}

func newLimits(store, connections limit.Store) Limits {
	bans := ratelimit.NewBans(store, banOptions)
	return Limits{
		tab:     limit.New(store, perTab, limit.Options{Name: "tab", Timeout: storeTimeout}),
		address: limit.New(store, perAddress, limit.Options{Name: "address", Timeout: storeTimeout}),
		bans:    bans,
		gate: gate.New(connections, gate.Options{
			PerIdentity: tabOpens, MaxPerUser: tabConns,
			PerIP: officeOpens, MaxPerIP: officeConns,
			Banned:  bans.Banned,
			Limiter: limit.Options{Name: "gate"},
		}),
	}
}

// Middleware charges the limit of the tab first. Frames that it rejects are not charged to the
// address, so that a flood from one tab does not affect other tabs.
func (l Limits) Middleware() []ingress.Middleware {
	return []ingress.Middleware{
		l.bans.Middleware,
		ratelimit.New(l.tab, ratelimit.PerUserPerType, ratelimit.Options{Announce: "messages"}), // the page shows it
		ratelimit.New(l.address, ratelimit.PerIP),
	}
}
