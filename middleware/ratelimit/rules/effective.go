package rules

import (
	"fmt"
	"time"

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
	// Policy is the limit that is enforced, such as token_bucket(20,600/1m0s), and From the
	// place of the rule for it. The text is that of limit.Decision.Policy.
	Policy string `json:"policy,omitempty"`
	From   string `json:"from,omitempty"`
	// Rate and Burst are the limit, unless a rule has Limits. The value of Rate may be
	// [Unlimited].
	Rate  Setting `json:"rate"`
	Burst Setting `json:"burst"`
	// Cost is the cost of the frame; 0 means that of Options.Cost, or 1 without it.
	Cost Setting `json:"cost"`
	// Concurrent is the number of messages that may be handled at a time, also where the rate is
	// Unlimited; zero: any number.
	Concurrent Setting `json:"concurrent,omitzero"`
	// Silent and Shadow are those of [Rule].
	Silent bool `json:"silent,omitempty"`
	Shadow bool `json:"shadow,omitempty"`
}

// Setting is a value that applies to a frame, and the rule that it is from.
type Setting struct {
	// Value is the value that applies.
	Value int64 `json:"value"`
	// From is the place of the rule that has the value, such as tenants.acme.perMinute;
	// empty if no rule has it.
	From string `json:"from,omitempty"`
	// Rule is the value of the rule. It differs from Value if the maximum caps it.
	Rule int64 `json:"rule"`
	// Per and RulePer are the times of a rate that is not per minute, such as 1h0m0s.
	Per     string `json:"per,omitempty"`
	RulePer string `json:"rulePer,omitempty"`
}

// String returns the value and its origin.
func (s Setting) String() string {
	switch {
	case s.From == "":
		return fmt.Sprint(s.Value)
	case s.Value != s.Rule || s.Per != s.RulePer:
		return fmt.Sprintf("%s (%s: %s, capped by the maximum)", amount(s.Value, s.Per), s.From, amount(s.Rule, s.RulePer))
	}
	return fmt.Sprintf("%s (%s)", amount(s.Value, s.Per), s.From)
}

func amount(v int64, per string) string {
	switch {
	case v == Unlimited:
		return "unlimited"
	case per != "":
		return fmt.Sprintf("%d per %s", v, per)
	}
	return fmt.Sprint(v)
}

// Effective returns the result of the rules for a frame, by its type, identity and address. The
// rules need not be in use. The error is a [*Error].
func (r Rules) Effective(c *ingress.Context) (e Effective, err error) {
	b, err := newBook(r)
	if err != nil {
		return e, err
	}
	is := b.resolve(c)
	return b.effective(c, &is), nil
}

// effective says what is, the result of the rules for a frame, means for it.
func (b *book) effective(c *ingress.Context, is *resolved) (e Effective) {
	if is.tokens != 0 {
		e.Rate = Setting{
			Value: is.tokens, From: is.limitBy.limitAt, Rule: is.limitBy.tokens,
			Per: unit(is.speed), RulePer: unit(is.limitBy.speed),
		}
	}
	e.Burst = is.burstBy.setting("burst", is.burst, func(r Rule) int64 { return r.Burst })
	e.Cost = is.costBy.setting("cost", is.cost, func(r Rule) int64 { return r.Cost })
	if by := is.concurrentBy; by != nil {
		e.Concurrent = by.setting("concurrent", by.Concurrent, func(r Rule) int64 { return r.Concurrent })
	}
	e.List = b.listed(c)
	if is.limitBy == nil {
		return e // disabled
	}
	e.From, e.Silent, e.Shadow = is.limitBy.limitAt, is.silent, is.limitBy.Shadow
	switch {
	case is.exempt():
		return e
	case is.limitBy.policy != nil:
		e.Policy = is.limitBy.policy.String()
	default:
		e.Policy = is.policy().String()
	}
	e.Limited = !b.rules.Disabled && e.List == ""
	return e
}

// listed is the entry that allows or denies the client, empty if there is none.
func (b *book) listed(c *ingress.Context) string {
	if i, ok := b.deny.find(c); ok {
		return string(atDeny.index(i))
	} else if i, ok := b.allow.find(c); ok {
		return string(atAllow.index(i))
	}
	return ""
}

// unit is the time of a rate that is not per minute.
func unit(q speed) string {
	if q.per == time.Minute {
		return ""
	}
	return q.per.String()
}

func (at *ruleAt) setting(name string, value int64, of func(Rule) int64) Setting {
	switch {
	case at == nil && value == 0:
		return Setting{}
	case at == nil: // the burst of an unlimited rule under a maximum
		return Setting{Value: value, From: string(atMaximum.name(name)), Rule: value}
	}
	return Setting{Value: value, From: at.path + "." + name, Rule: of(at.Rule)}
}
