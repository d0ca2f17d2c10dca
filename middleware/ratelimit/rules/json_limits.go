package rules

import (
	"strings"
	"time"

	"github.com/wskit/wskit/limit"
)

// limitDoc is one of the limits of a rule.
type limitDoc struct {
	Kind      string `json:"kind"`
	Name      name   `json:"name"`
	PerSecond whole  `json:"perSecond"`
	PerMinute whole  `json:"perMinute"`
	PerHour   whole  `json:"perHour"`
	PerDay    whole  `json:"perDay"`
	Every     span   `json:"every"`
	Burst     whole  `json:"burst"`
	MaxWait   span   `json:"maxWait"`
	Limit     whole  `json:"limit"`
	Window    span   `json:"window"`
	Buckets   whole  `json:"buckets"`
	Period    name   `json:"period"`
	Location  name   `json:"location"`
}

// rates are the members of which a bucket or a pacer has one.
var rates = []string{"perSecond", "perMinute", "perHour", "perDay", "every"}

// kinds has the members of each kind that must be set, and those that may be. "rate" stands for
// one of the rates.
var kinds = map[string]struct{ must, may []string }{
	"bucket":        {must: []string{"rate", "burst"}},
	"pacer":         {must: []string{"rate", "burst", "maxWait"}},
	"fixedWindow":   {must: []string{"limit", "window"}},
	"calendar":      {must: []string{"limit", "period"}, may: []string{"location"}},
	"slidingWindow": {must: []string{"limit", "window"}, may: []string{"buckets"}},
	"log":           {must: []string{"limit", "window"}},
}

const kindNames = "bucket, pacer, fixedWindow, calendar, slidingWindow or log"

// limits makes one policy of the limits of a rule.
func limits(at path, docs []limitDoc) (limit.Policy, error) {
	if len(docs) == 0 {
		return nil, at.wrong("is empty; write at least one limit, or leave it out")
	}
	policies := make([]limit.Policy, len(docs))
	for i, d := range docs {
		var err error
		if policies[i], err = d.policy(at.index(i)); err != nil {
			return nil, err
		}
	}
	if len(policies) == 1 {
		return policies[0], nil
	}
	return limit.All(policies...), nil
}

func (d *limitDoc) policy(at path) (limit.Policy, error) {
	if err := d.check(at); err != nil {
		return nil, err
	}
	rate := Rule{PerMinute: int64(d.PerMinute), PerHour: int64(d.PerHour), PerDay: int64(d.PerDay), Every: time.Duration(d.Every)}
	q := rate.speed()
	if d.PerSecond != 0 {
		q = speed{int64(d.PerSecond), time.Second}
	}
	var p limit.Policy
	switch n, window := int64(d.Limit), time.Duration(d.Window); d.Kind {
	case "bucket":
		p = limit.TokenBucket{Capacity: int64(d.Burst), Refill: q.tokens, Per: q.per}
	case "pacer":
		p = limit.Pacer{Burst: int64(d.Burst), Refill: q.tokens, Per: q.per, MaxWait: time.Duration(d.MaxWait)}
	case "fixedWindow":
		p = limit.FixedWindow{Limit: n, Window: window}
	case "calendar":
		c, err := d.calendar(at)
		if err != nil {
			return nil, err
		}
		p = c
	case "slidingWindow":
		p = limit.SlidingWindow{Limit: n, Window: window, Buckets: int(d.Buckets)}
	case "log":
		p = limit.SlidingLog{Limit: n, Window: window}
	}
	if _, err := limit.Compile(p); err != nil {
		return nil, at.wrong("cannot be enforced: %v", err)
	}
	if d.Name != "" {
		p = limit.Named(string(d.Name), p)
	}
	return p, nil
}

// periods are the values of the member period.
var periods = map[name]limit.Period{"day": limit.Day, "week": limit.Week, "month": limit.Month}

func (d *limitDoc) calendar(at path) (c limit.Calendar, err error) {
	c = limit.Calendar{Limit: int64(d.Limit), Period: periods[d.Period]}
	if c.Period == 0 {
		return c, at.name("period").wrong("is %q; it must be day, week or month", d.Period)
	}
	if c.Location, err = time.LoadLocation(string(d.Location)); err != nil {
		return c, at.name("location").wrong("is not known here (%v); write one like Europe/Berlin, and install tzdata", err)
	}
	return c, nil
}

// check checks that the limit has the members of its kind, and no others.
func (d *limitDoc) check(at path) error {
	kind, ok := kinds[d.Kind]
	switch {
	case d.Kind == "":
		return at.name("kind").wrong("is missing; it must be %s", kindNames)
	case d.Kind == "concurrent":
		return at.name("kind").wrong("is %q; it must be %s; write how many at a time as concurrent of the rule", d.Kind, kindNames)
	case !ok:
		return at.name("kind").wrong("is %q; it must be %s", d.Kind, kindNames)
	}
	set := map[string]bool{
		"perSecond": d.PerSecond != 0, "perMinute": d.PerMinute != 0, "perHour": d.PerHour != 0, "perDay": d.PerDay != 0, "every": d.Every != 0,
		"burst": d.Burst != 0, "maxWait": d.MaxWait != 0, "limit": d.Limit != 0, "window": d.Window != 0, "buckets": d.Buckets != 0,
		"period": d.Period != "", "location": d.Location != "",
	}
	for _, member := range kind.must {
		members := []string{member}
		if member == "rate" {
			members = rates
		}
		found := 0
		for _, m := range members {
			if set[m] {
				found++
			}
			delete(set, m)
		}
		switch {
		case found > 1:
			return at.wrong("has several rates; write one of %s", strings.Join(rates, ", "))
		case found == 0 && member == "rate":
			return at.name("perMinute").wrong("is missing; a %s has one of %s", d.Kind, strings.Join(rates, ", "))
		case found == 0:
			return at.name(member).wrong("is missing; a %s has %s", d.Kind, strings.Join(kind.must, " and "))
		}
	}
	for _, member := range kind.may {
		delete(set, member)
	}
	for _, member := range append(rates, "burst", "maxWait", "limit", "window", "buckets", "period", "location") {
		if set[member] {
			return at.name(member).wrong("is not for the kind %s; leave it out, or choose another kind", d.Kind)
		}
	}
	return nil
}
