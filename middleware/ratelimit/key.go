package ratelimit

import (
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// A KeyFunc chooses the bucket that a frame is charged to. It appends the parts of the subject
// to the key and returns it:
//
//	func perRoomOwner(k limit.Key, c *ingress.Context) limit.Key {
//		return k.Part(c.Identity.Tenant).Part(c.Type)
//	}
//
// With k returned unchanged, all frames share one bucket. Do not use values that a client can
// change at will, such as the id of the connection or a token that was not verified: the client
// would get a new bucket. The message type is safe: all frames of unregistered types have the
// type "". A KeyFunc is called concurrently.
type KeyFunc func(k limit.Key, c *ingress.Context) limit.Key

// PerUserPerType limits each user of a tenant separately for each message type. Clients that
// are not authenticated share one limit per tenant and type.
func PerUserPerType(k limit.Key, c *ingress.Context) limit.Key {
	return PerUser(k, c).Part(c.Type)
}

// PerUser limits each user of a tenant over all message types. Clients that are not
// authenticated share one limit per tenant.
func PerUser(k limit.Key, c *ingress.Context) limit.Key {
	return k.Part("user").Part(c.Identity.Tenant).Part(c.Identity.User)
}

// PerUserOrIPPerType is the default. It limits each user of a tenant separately for each
// message type, and clients that are not authenticated by tenant, address and type: see
// [PerUserOrIP].
func PerUserOrIPPerType(k limit.Key, c *ingress.Context) limit.Key {
	return PerUserOrIP(k, c).Part(c.Type)
}

// PerUserOrIP limits each user of a tenant over all message types, and clients that are not
// authenticated by tenant and address, IPv6 by its /64. Clients of a tenant without an address
// share a limit. So Authenticate must not return a Tenant that a client can choose without
// authentication: the client would get a new limit with each name.
func PerUserOrIP(k limit.Key, c *ingress.Context) limit.Key {
	if c.Identity.Authenticated() {
		return PerUser(k, c)
	}
	if c.Identity.Tenant != "" {
		k = PerTenant(k, c)
	}
	return PerIP(k, c)
}

// PerIP limits each address over all message types and tenants, IPv6 by its /64. Clients without
// an address share a limit. Use it together with a limit by an identity that clients can invent.
func PerIP(k limit.Key, c *ingress.Context) limit.Key {
	return k.Part("ip").Addr(ingress.GroupIP(c.IP))
}

// PerTenant limits each tenant over all its users and message types. Clients without a tenant
// share one limit.
func PerTenant(k limit.Key, c *ingress.Context) limit.Key {
	return k.Part("tenant").Part(c.Identity.Tenant)
}

// Global is one limit for all frames together.
func Global(k limit.Key, _ *ingress.Context) limit.Key { return k }
