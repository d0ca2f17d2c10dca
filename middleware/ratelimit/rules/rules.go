// Package rules limits the rate of frames by rules: a default, and other values for tenants, tiers, message types and
// single subjects, with a list of those that are refused and of those that are not limited. Rules can be read from JSON
// and replaced at run time.
//
//	parsed, err := rules.Parse(document)
//	…
//	limits, err := rules.New(store, parsed)
//	…
//	r.Use(limits.Middleware)
//
// [DryRun] says which messages of a log they would refuse. Package sharedrules keeps them the same in all processes. A
// limit that is the same for all clients needs no rules: package ratelimit.
package rules

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/wskit/wskit/limit"
)

// Rules are limits for frames: a default, rules for tenants, tiers and message types, exceptions
// for single subjects, and a maximum for all. [Parse] reads them from JSON, and
// [New] enforces them.
//
// Each value of a rule is looked up separately, in this order. The first rule that has the
// value applies:
//
//  1. the override for the subject
//  2. the tenant's rule for the message type
//  3. the tier's rule for the message type
//  4. the rule for the message type
//  5. the tenant's rule
//  6. the tier's rule
//  7. the default
//
// In 2 to 4, a rule for a group of types may apply: "report.*" is for all types that begin with
// "report.". The rule for the type itself goes first, then the group with the longest name.
//
// The values are the rate (or the Limits, or Exempt), Burst, Cost and Concurrent. Silent applies if
// any rule for the frame has it. Shadow applies to the limit and the Concurrent of the same rule.
//
// The zero Rules are not valid. To limit nothing, set Disabled, or Unlimited in the Default.
type Rules struct {
	// Disabled turns all rules off, and the lists Allow and Deny.
	Disabled bool

	// Maximum caps all rules, overrides included; Unlimited becomes the Maximum. Limits are
	// enforced together with it. It does not apply to clients on the Allow list and to Exempt
	// rules. The zero Rate means no maximum.
	Maximum Rate

	// Default must have a rate and a Burst, or Limits.
	Default Rule

	// Tenants are the rules for the tenants of ingress.Identity, "" for clients
	// without one.
	Tenants map[string]Tenant

	// Tiers are the rules for the tiers of ingress.Identity, "" for clients without one. Frames
	// that a rule for a tier limits are counted by tier as well: a user that changes to another
	// tier begins there with nothing used.
	Tiers map[string]Tier

	// Types are the rules for message types as registered with the router, "" for
	// frames of a type that is not registered, and for groups of types: "report.*".
	Types map[string]Rule

	// Overrides are the exceptions. The override for an address applies to clients that are
	// not authenticated; of several, the one for the most specific network.
	Overrides []Override

	// Allow lists clients that are not limited: their frames pass and are not charged.
	Allow []Subject

	// Deny lists clients that may send nothing: their frames are rejected with
	// PERMISSION_DENIED, which is not retryable. Clients on both lists are denied.
	Deny []Subject
}

// Rule is a limit, or a part of one. A value of 0 means that the next rule in the order applies.
//
// At most one of PerMinute, PerHour, PerDay, Every, Limits and Exempt is set. A rate, with a
// Burst, makes a token bucket.
type Rule struct {
	// PerMinute is the number of tokens that are added in a minute, continuously: 600 is one
	// every 100 ms. It is at most 30,000,000, or [Unlimited].
	PerMinute int64
	// PerHour and PerDay are rates as well, each at most 30,000,000.
	PerHour, PerDay int64
	// Every is the time in which one token is added, from 1 ms to 9,999 days, in whole
	// microseconds.
	Every time.Duration
	// Limits is a limit of any kind, or several ([limit.All]), complete by itself: the Burst
	// of no rule applies to it. All of several are charged, or none. With a Maximum at most 7
	// are possible, otherwise 8.
	Limits limit.Policy
	// Exempt frames pass and are not charged. The Maximum does not apply to them.
	Exempt bool
	// Burst is the number of tokens that may be used at once after a pause, at most
	// 30,000,000. It has no effect if PerMinute is Unlimited, or with Limits.
	Burst int64
	// Cost is the number of tokens that a frame uses, at most 30,000,000. If no rule has one,
	// Options.Cost applies, or 1 without it. A frame whose cost is above the Burst of the
	// client never passes.
	Cost int64
	// Concurrent is the number of messages that may be handled at a time, at most 30,000,000, in
	// all processes that share the store, as with [NewConcurrency]. It is counted under the key
	// of the rate, and applies in addition to it, also where the rate is Unlimited, but not to Exempt
	// frames. The Maximum does not cap it. It needs a store that is a [limit.LeaseStore].
	Concurrent int64
	// Silent rejects frames without an answer, as Options.Silent does.
	Silent bool
	// Shadow tries the limit of this rule: frames over it are counted and reported, and pass.
	// It needs a rate, Limits or Concurrent in the same rule.
	Shadow bool
}

// Unlimited as [Rule.PerMinute] means that only [Rules.Maximum] applies.
const Unlimited = -1

// Tenant is the rule for a tenant, with rules for its message types.
type Tenant struct {
	Rule
	// Types are the rules for the tenant's message types. They take precedence over
	// Rules.Types.
	Types map[string]Rule
}

// Tier is the rule for a tier, with rules for message types in it.
type Tier struct {
	Rule
	// Types are the rules for message types in the tier. They take precedence over
	// Rules.Types.
	Types map[string]Rule
}

// Rate is a number of tokens per minute, hour or day, and a number at once. Within any time t it
// admits at most
//
//	Burst + PerMinute·t/1min
//
// tokens for each key of the limiter; [Rules.Maximum] guarantees this as long as it is not
// changed. A frame uses at least one token. All rules are converted to one unit before they are
// capped, and rate and burst are both capped, so that neither a shorter window nor a larger burst
// exceeds the maximum.
type Rate struct {
	// PerMinute is from 1 to 30,000,000. In its place PerHour, PerDay or Every may be set, as
	// in a [Rule].
	PerMinute, PerHour, PerDay int64
	Every                      time.Duration
	// Burst is the number of tokens at once, from 1 to 30,000,000.
	Burst int64
}

// Override is the exception for one subject: a user, or the addresses of a network. Each address
// has its own limit.
type Override struct {
	Subject
	Rule
}

// Subject selects the clients to which an override or an entry of a list applies. It is one of
// the following:
//
//	Subject{Tenant: "acme", User: "ann"}    a user; Tenant is empty where there are none
//	Subject{Tenant: "acme"}                 all clients of a tenant, for lists
//	Subject{IP: prefix}                     an address or a network
//
// Tenant and User are compared with those of ingress.Identity, byte by byte. Lists apply to the
// address of every client, authenticated or not. IPv6 clients are counted by their /64, so an
// override for a smaller network is not valid.
type Subject struct {
	// Tenant is the user's tenant.
	Tenant string
	// User is the user's name within the tenant.
	User string
	// IP is a network in its canonical form; a single address is a network with all bits.
	// IPv4 must not be written as IPv6.
	IP netip.Prefix
}

// maxValue bounds rates, bursts and costs, so that limit.TokenBucket is exact for every
// combination.
const maxValue = 30_000_000

// maxSpan bounds the times of rules.
const maxSpan = 9999 * day

// clone returns a deep copy of r.
func (r Rules) clone() Rules {
	r.Types, r.Tenants = maps.Clone(r.Types), maps.Clone(r.Tenants)
	for name, t := range r.Tenants {
		t.Types = maps.Clone(t.Types)
		r.Tenants[name] = t
	}
	r.Tiers = maps.Clone(r.Tiers)
	for name, t := range r.Tiers {
		t.Types = maps.Clone(t.Types)
		r.Tiers[name] = t
	}
	r.Overrides, r.Allow, r.Deny = slices.Clone(r.Overrides), slices.Clone(r.Allow), slices.Clone(r.Deny)
	return r
}
