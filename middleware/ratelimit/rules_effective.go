package ratelimit

import (
	"fmt"

	"github.com/wskit/wskit/ingress"
)

// Effective is what [Rules] amount to for a frame. As JSON it is for people who
// look after the rules, not for clients.
type Effective struct {
	// Limited says that the rest is in force: the rules are not disabled, the client
	// is on no list, and something limits it.
	Limited bool `json:"limited"`
	// List is the entry that allows or denies the client, such as deny[2].
	List string `json:"list,omitempty"`
	// PerMinute flows in, of Burst at most. The value of PerMinute is [Unlimited]
	// when nothing but a list limits the client.
	PerMinute Setting `json:"perMinute"`
	Burst     Setting `json:"burst"`
	// Cost is what the frame takes; 0 means what Options.Cost says, or 1.
	Cost Setting `json:"cost"`
}

// Setting is a value and where it comes from.
type Setting struct {
	// Value is in force.
	Value int64 `json:"value"`
	// From is the place in the rules that asked for a value, such as
	// tenants.acme.perMinute; empty if none did.
	From string `json:"from,omitempty"`
	// Asked is the value it asked for. It differs from Value where the maximum caps
	// it.
	Asked int64 `json:"asked"`
}

// String is the value and where it comes from.
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

// Effective says what the rules amount to for a frame, by its type, identity and
// address, without their being in force. The error is a [*RulesError].
func (r Rules) Effective(c *ingress.Context) (Effective, error) {
	b, err := newBook(r)
	if err != nil {
		return Effective{}, err
	}
	return b.effective(c), nil
}

func (b *book) effective(c *ingress.Context) (e Effective) {
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
	return e
}

func (at *ruleAt) setting(name string, value int64, asked func(Rule) int64) Setting {
	switch {
	case at == nil && value == 0:
		return Setting{}
	case at == nil: // the burst of what is unlimited, but for the maximum
		return Setting{Value: value, From: string(atMaximum.name(name)), Asked: value}
	}
	return Setting{Value: value, From: at.path + "." + name, Asked: asked(at.Rule)}
}
