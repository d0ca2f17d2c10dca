package ratelimit

import (
	"fmt"

	"github.com/wskit/wskit/ingress"
)

// Effective is the result of [Rules] for a frame. As JSON it is for the operators of a server,
// not for clients.
type Effective struct {
	// Limited means that the values below are enforced: the rules are not disabled, the
	// client is on no list, and its rate is not Unlimited.
	Limited bool `json:"limited"`
	// List is the entry that allows or denies the client, such as deny[2].
	List string `json:"list,omitempty"`
	// PerMinute and Burst are the limit. The value of PerMinute may be [Unlimited].
	PerMinute Setting `json:"perMinute"`
	Burst     Setting `json:"burst"`
	// Cost is the cost of the frame; 0 means that of Options.Cost, or 1 without it.
	Cost Setting `json:"cost"`
}

// Setting is a value and its origin.
type Setting struct {
	// Value is the value that applies.
	Value int64 `json:"value"`
	// From is the place of the rule that has the value, such as tenants.acme.perMinute;
	// empty if no rule has it.
	From string `json:"from,omitempty"`
	// Asked is the value of the rule. It differs from Value if the maximum caps it.
	Asked int64 `json:"asked"`
}

// String returns the value and its origin.
func (s Setting) String() string {
	switch {
	case s.From == "":
		return fmt.Sprint(s.Value)
	case s.Value != s.Asked:
		return fmt.Sprintf("%d (%s: %s, capped by the maximum)", s.Value, s.From, amount(s.Asked))
	}
	return fmt.Sprintf("%s (%s)", amount(s.Value), s.From)
}

func amount(v int64) string {
	if v == Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(v)
}

// Effective returns the result of the rules for a frame, by its type, identity and address. The
// rules need not be in use. The error is a [*RulesError].
func (r Rules) Effective(c *ingress.Context) (e Effective, err error) {
	b, err := newBook(r)
	if err != nil {
		return e, err
	}
	is := b.resolve(c)
	e.PerMinute = is.perMinuteBy.setting("perMinute", is.PerMinute, func(r Rule) int64 { return r.PerMinute })
	e.Burst = is.burstBy.setting("burst", is.Burst, func(r Rule) int64 { return r.Burst })
	e.Cost = is.costBy.setting("cost", is.cost, func(r Rule) int64 { return r.Cost })
	if i, ok := b.deny.find(c); ok {
		e.List = string(atDeny.index(i))
	} else if i, ok := b.allow.find(c); ok {
		e.List = string(atAllow.index(i))
	}
	e.Limited = !b.rules.Disabled && e.List == "" && is.PerMinute != Unlimited
	return e, nil
}

func (at *ruleAt) setting(name string, value int64, asked func(Rule) int64) Setting {
	switch {
	case at == nil && value == 0:
		return Setting{}
	case at == nil: // the burst of an unlimited rule under a maximum
		return Setting{Value: value, From: string(atMaximum.name(name)), Asked: value}
	}
	return Setting{Value: value, From: at.path + "." + name, Asked: asked(at.Rule)}
}
