package ratelimit

import (
	"maps"
	"net/netip"
	"slices"
)

// Rules say how much each client may send: a default, what differs for tenants
// and message types, exceptions for single subjects, and a ceiling above all of
// it. [ParseRules] reads them from JSON, and [NewRuleLimiter] enforces them.
//
// A value that a frame is limited by is looked for in this order, each value on
// its own, and the first rule that gives one decides:
//
//  1. the override for the subject
//  2. the tenant's rule for the message type
//  3. the rule for the message type
//  4. the tenant's rule
//  5. the default
//
// The zero Rules are not valid: a limit that nobody has set is no reason to let
// everything pass. To limit nothing say Disabled, or Unlimited in the Default.
type Rules struct {
	// Disabled turns everything off, the lists included.
	Disabled bool

	// Maximum caps whatever the rules say; the zero Rate means that there is none.
	// Overrides are capped too, and a rule that says Unlimited gets the Maximum.
	// What is on the Allow list is not limited, so not by the Maximum either.
	Maximum Rate

	// Default must say how much, and how much at once.
	Default Rule

	// Tenants are the rules for the tenants of ingress.Identity, "" for clients
	// without one.
	Tenants map[string]Tenant

	// Types are the rules for message types as registered with the router, "" for
	// frames of a type that is not registered.
	Types map[string]Rule

	// Overrides are the exceptions. An address's override is for clients that are
	// counted by their address: those that are not authenticated. The most specific
	// network decides.
	Overrides []Override

	// Allow lists who is not limited: their frames pass and are not charged.
	Allow []Subject

	// Deny lists who may send nothing: their frames are refused with
	// PERMISSION_DENIED, which is not retryable. Who is on both lists is denied.
	Deny []Subject
}

// Rule is a limit, or the part of one in which a tenant, a message type or a
// subject differs. A value of 0 leaves it to the next rule in the order.
type Rule struct {
	// PerMinute is how much flows in within a minute, continuously: of 600, one
	// every 100 ms. It is at most 30,000,000, or [Unlimited].
	PerMinute int64
	// Burst is how much may come at once after a pause, at most 30,000,000. It says
	// nothing where PerMinute is Unlimited.
	Burst int64
	// Cost is how much a frame takes, at most 30,000,000. Where no rule says it,
	// Options.Cost does, and 1 without one. A frame whose cost is above the burst
	// that another rule gives its client never passes.
	Cost int64
}

// Unlimited as [Rule.PerMinute] means that there is no limit but [Rules.Maximum].
const Unlimited = -1

// Tenant is the rule for a tenant, with what differs for its message types.
type Tenant struct {
	Rule
	// Types are the rules for the tenant's message types. They go before those of
	// [Rules].
	Types map[string]Rule
}

// Rate is a number of tokens per minute, and a number at once. Over any span of
// time t it lets through at most
//
//	Burst + PerMinute·t/1min
//
// for each key of the limiter, which is what a [Rules.Maximum] guarantees as long
// as it stays the same. A frame takes at least one token. Every rule is brought to
// the same unit before it is capped, and rate and burst are capped both, so that
// neither a shorter window nor a larger burst gets around the maximum.
type Rate struct {
	// PerMinute is from 1 to 30,000,000.
	PerMinute int64
	// Burst is from 1 to 30,000,000.
	Burst int64
}

// Override is the exception for one subject: a user, or the addresses of a
// network, each of which is limited by itself.
type Override struct {
	Subject
	Rule
}

// Subject names whom an override or a list is about. It is one of the following;
// use a literal with the fields that matter:
//
//	Subject{Tenant: "acme", User: "ann"}    a user; Tenant is empty where there are none
//	Subject{Tenant: "acme"}                 all clients of a tenant, for lists
//	Subject{IP: prefix}                     an address or a network
//
// Tenant and User are compared with ingress.Identity as they are. Lists look at the
// address of every client, authenticated or not. IPv6 clients are counted by their
// /64, so an override for less is refused.
type Subject struct {
	// Tenant is the user's tenant.
	Tenant string
	// User is the user's name within the tenant.
	User string
	// IP is a network in its canonical form, an address being a network of all its
	// bits; IPv4 is written as IPv4.
	IP netip.Prefix
}

// maxValue bounds rates, bursts and costs so that every combination of them is
// exact in the arithmetic of limit.TokenBucket.
const maxValue = 30_000_000

// clone returns rules that share nothing with r.
func (r Rules) clone() Rules {
	r.Types, r.Tenants = maps.Clone(r.Types), maps.Clone(r.Tenants)
	for name, t := range r.Tenants {
		t.Types = maps.Clone(t.Types)
		r.Tenants[name] = t
	}
	r.Overrides, r.Allow, r.Deny = slices.Clone(r.Overrides), slices.Clone(r.Allow), slices.Clone(r.Deny)
	return r
}
