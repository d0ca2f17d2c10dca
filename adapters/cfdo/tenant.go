package cfdo

import "strings"

// KeyPart reads the tenant from a part of the keys that a [limit.Limiter] makes, for
// [Options].Tenant: 0 is the first part after the limiter's name. If a first part is given,
// only keys that begin with it have a tenant. KeyPart(1, "user") gives each tenant of
// ratelimit.PerUser and what is made of it objects of its own; limits by address then
// belong to no tenant. KeyPart(0) is for keys that begin with the tenant:
//
//	Key: func(k limit.Key, c *ingress.Context) limit.Key { return k.Part(c.Identity.Tenant) }
//
// A key that has no such part, or an empty one, belongs to no tenant. KeyPart
// panics when the index is negative or more than one first part is given.
func KeyPart(index int, first ...string) func(key string) string {
	if index < 0 || len(first) > 1 {
		panic("cfdo: KeyPart takes an index, of which 0 is the first part after the limiter's name, and at most one first part")
	}
	return func(key string) string {
		if len(first) > 0 && part(key, 0) != first[0] {
			return ""
		}
		return part(key, index)
	}
}

// part is a part of a limiter's key, prefix:name:part:part…, as it is written
// there: escaped.
func part(key string, index int) string {
	for range index + 2 {
		var found bool
		if _, key, found = strings.Cut(key, ":"); !found {
			return ""
		}
	}
	key, _, _ = strings.Cut(key, ":")
	if key == "%none" {
		return ""
	}
	return key
}
