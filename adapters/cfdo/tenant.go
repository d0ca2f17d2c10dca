package cfdo

import "strings"

// KeyPart reads the tenant from a part of the keys that a [limit.Limiter] makes:
// 0 is the first after the limiter's name. It is for [Options].Tenant, where every
// key is begun with the tenant:
//
//	Key: func(k limit.Key, c *ingress.Context) limit.Key { return k.Part(c.Identity.Tenant) }
//
// A key that has no such part, or an empty one, belongs to no tenant. KeyPart
// panics when the index is negative.
func KeyPart(index int) func(key string) string {
	if index < 0 {
		panic("cfdo: KeyPart of a negative index; 0 is the first part after the limiter's name")
	}
	return func(key string) string { return part(key, index) }
}

// PartAfter reads the tenant from the second part of the keys whose first part is
// as given; others belong to no tenant. It is for [Options].Tenant:
// PartAfter("user") gives each tenant of ratelimit.PerUser and what is made of it
// objects of its own, and leaves addresses to all.
func PartAfter(first string) func(key string) string {
	return func(key string) string {
		if part(key, 0) != first {
			return ""
		}
		return part(key, 1)
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
