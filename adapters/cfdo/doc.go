// Package cfdo keeps limits in Cloudflare Durable Objects, so that several
// processes share them without a server of their own to run.
//
// The state is in the objects of a Worker, which is in the folder worker;
// README.md says how to deploy it. It decides with the arithmetic of package
// limit, in one atomic step per object. This package is its client:
//
//	store, err := cfdo.Open("https://wskit-limits.example.workers.dev", os.Getenv("LIMITS_SECRET"))
//	…
//	messages := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second},
//		limit.Options{Name: "messages", Timeout: 250 * time.Millisecond})
//
// The store keeps leases as well (limit.NewConcurrencyLimit, ratelimit.NewConcurrency, gate.Gate),
// at most 4,096 of a key. The leases of a key are one row, which every acquisition, renewal and release
// writes. So it is for small numbers, such as the requests of a user; leave GateOptions.MaxTotal negative.
//
// # Fewer requests
//
// Concurrent calls share requests, and a lone call goes out at once (see package
// internal/batch). A denial is remembered by the state it was made from (see
// package internal/denialcache), so a flood of refused costs makes no requests. A request
// that may have been charged is never sent again.
//
// # One object is one step
//
// The keys are spread over objects, 128 of them unless the Worker is configured
// otherwise, and each of [Options].Tenant has objects of its own. An object
// handles one call after the other, by its own clock: what is decided for keys in
// different objects at once, by TakeMany, is answered at instants that
// differ a little. TakeAll can charge all or none within one object only
// and answers errors.ErrUnsupported where the keys lie in several; give what
// belongs together one tenant.
package cfdo
