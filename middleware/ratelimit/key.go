package ratelimit

import (
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// A KeyFunc says whose limit a frame counts against, by appending the parts of
// the subject to the key and returning it:
//
//	func perRoomOwner(k limit.Key, c *ingress.Context) limit.Key {
//		return k.Part(c.Identity.Tenant).Part(c.Type)
//	}
//
// Returning k as it is makes one limit for everybody. Use nothing that a client
// can renew at will, such as the connection's id or a token that was not
// verified: whoever reconnects, or makes one up, would begin afresh. A
// message's type is safe: frames of unregistered types all have the type "".
type KeyFunc func(k limit.Key, c *ingress.Context) limit.Key

// PerUserPerType limits every user of every tenant for each message type.
// Clients that are not authenticated share one limit per tenant and type.
// Frames of unregistered types share one.
func PerUserPerType(k limit.Key, c *ingress.Context) limit.Key {
	return PerUser(k, c).Part(c.Type)
}

// PerUser limits every user of every tenant over all message types. Clients
// that are not authenticated share one limit per tenant.
func PerUser(k limit.Key, c *ingress.Context) limit.Key {
	return k.Part("user").Part(c.Identity.Tenant).Part(c.Identity.User)
}

// PerUserOrIPPerType limits every user of every tenant for each message type,
// and every address for clients that are not authenticated: IPv6 addresses by
// their /64. Clients without an address share a limit. It is the default.
func PerUserOrIPPerType(k limit.Key, c *ingress.Context) limit.Key {
	return PerUserOrIP(k, c).Part(c.Type)
}

// PerUserOrIP limits every user of every tenant over all message types, and every
// address for clients that are not authenticated: IPv6 addresses by their /64.
// Clients without an address share a limit.
func PerUserOrIP(k limit.Key, c *ingress.Context) limit.Key {
	if c.Identity.Authenticated() {
		return PerUser(k, c)
	}
	return PerIP(k, c)
}

// PerIP limits every address over all message types: IPv6 addresses by their /64.
// Clients without an address share a limit. It is the ceiling to put above limits
// by identities that cost nothing to make up.
func PerIP(k limit.Key, c *ingress.Context) limit.Key {
	return k.Part("ip").Addr(ingress.GroupIP(c.IP))
}

// PerTenant limits every tenant over all its users and message types. Clients of no
// tenant share one limit.
func PerTenant(k limit.Key, c *ingress.Context) limit.Key {
	return k.Part("tenant").Part(c.Identity.Tenant)
}

// Global makes one limit for everybody together.
func Global(k limit.Key, _ *ingress.Context) limit.Key { return k }
