package rules

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// DryRunReport is the result of [DryRun].
type DryRunReport struct {
	// Messages counts the messages of the log, Refused those that the rules would have
	// refused, Denied those of clients on the deny list among them, Shadowed those over a limit
	// in shadow mode, and Delayed those that a pacer would have delayed.
	Messages, Refused, Denied, Shadowed, Delayed int64
	// Clients have what was refused and shadowed, the largest numbers first.
	Clients []DryRunClient
}

// DryRunClient has what one rule would have refused: messages of one client and type.
type DryRunClient struct {
	// Subject is a user, or the address of a client that is not authenticated.
	Subject Subject
	// Tier and Type are those of the messages.
	Tier, Type string
	// Rule is the place of the rule, and Policy its limit, as in [ratelimit.Limited]. For a client on
	// the deny list, Rule is that, and Policy is empty.
	Rule, Policy string
	// Refused is the number of messages. Shadow means that the rule is in shadow mode, and they
	// would have passed.
	Refused int64
	Shadow  bool
	// First is the time of the first of them.
	First time.Time
}

// dryRunLine is a message of the log.
type dryRunLine struct {
	Time   *time.Time `json:"time"`
	Tenant string     `json:"tenant"`
	User   string     `json:"user"`
	IP     netip.Addr `json:"ip"`
	Tier   string     `json:"tier"`
	Type   string     `json:"type"`
	Cost   *int       `json:"cost"`
}

// DryRun says which messages of a log the rules would have refused. The log has a JSON object in
// each line, ordered by time:
//
//	{"time": "2026-11-22T15:04:05.123Z", "tenant": "acme", "user": "ann", "tier": "free", "type": "report.daily", "cost": 3}
//
// Time must be set. A client without a user has an "ip". The cost, 1 if it is left out, applies if
// no rule has one. Empty lines are skipped. An error in the log names the line.
//
// The messages pass through a [Limiter] at the times of the log. The options are those of the
// server, without hooks; newStore makes a store with a clock, such as memory.NewStore. DryRun does
// not wait for pacers: a message is decided at its own time, also when an earlier one is delayed.
func DryRun(rules Rules, newStore func(now func() time.Time) limit.Store, o Options, log io.Reader) (DryRunReport, error) {
	var now time.Time
	d := dryRun{counts: map[DryRunClient]*DryRunClient{}}
	o.OnLimited, o.OnDenied, o.OnInvalidCost = d.limited, nil, nil
	o.Cost = func(*ingress.Context) int { return d.cost }
	limits, err := New(newStore(func() time.Time { return now }), rules, o)
	if err != nil {
		return DryRunReport{}, err
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l dryRunLine
		if err := json.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true)); err != nil {
			return d.report, fmt.Errorf("rules: line %d of the log cannot be read: %w; a line has time, tenant, user, ip, tier, type and cost", n, err)
		}
		if err := l.check(d.at); err != nil {
			return d.report, fmt.Errorf("rules: line %d of the log: %w", n, err)
		}
		d.at, d.cost = *l.Time, 1
		if l.Cost != nil {
			d.cost = *l.Cost
		}
		now = d.at
		d.message(limits, &ingress.Context{
			Type: l.Type, IP: l.IP, ReceivedAt: d.at,
			Identity: ingress.Identity{Tenant: l.Tenant, User: l.User, Tier: l.Tier},
		})
	}
	if err := lines.Err(); err != nil {
		return d.report, fmt.Errorf("rules: the log cannot be read: %w", err)
	}
	return d.result(), nil
}

// check checks a line that is not earlier than the one before.
func (l *dryRunLine) check(before time.Time) error {
	switch {
	case l.Time == nil:
		return errors.New(`"time" is missing; write it as "2026-11-22T15:04:05Z"`)
	case l.Time.Before(before):
		return fmt.Errorf(`"time" is %s, before that of an earlier line; sort the log by time`, l.Time.Format(time.RFC3339Nano))
	case l.Time.UnixMicro() < 0:
		return errors.New(`"time" is before 1970; the clock of limits begins there`)
	case l.Cost != nil && *l.Cost < 1:
		return fmt.Errorf(`"cost" is %d; it must be at least 1`, *l.Cost)
	}
	return nil
}

// dryRun is a dry run at one message of the log.
type dryRun struct {
	report DryRunReport
	counts map[DryRunClient]*DryRunClient // by what identifies them
	at     time.Time
	cost   int
}

func (d *dryRun) message(limits *Limiter, c *ingress.Context) {
	d.report.Messages++
	rules := limits.now.Load()
	if rules.rules.Disabled {
		return
	}
	if i, ok := rules.deny.find(c); ok {
		d.report.Refused++
		d.report.Denied++
		d.count(c, DryRunClient{Rule: string(atDeny.index(i))})
		return
	}
	if wait, _ := limits.admit(c, rules); wait > 0 {
		d.report.Delayed++
	}
}

// limited is the hook of the limiter.
func (d *dryRun) limited(c *ingress.Context, l ratelimit.Limited) {
	if l.Shadow {
		d.report.Shadowed++
	} else {
		d.report.Refused++
	}
	d.count(c, DryRunClient{Rule: l.Rule, Policy: l.Decision.Policy, Shadow: l.Shadow})
}

func (d *dryRun) count(c *ingress.Context, row DryRunClient) {
	row.Tier, row.Type = c.Identity.Tier, c.Type
	row.Subject = Subject{Tenant: c.Identity.Tenant, User: c.Identity.User}
	if ip := ingress.GroupIP(c.IP); row.Subject.User == "" && ip.IsValid() {
		row.Subject.IP = netip.PrefixFrom(ip, ip.BitLen())
	}
	counted := d.counts[row]
	if counted == nil {
		counted = new(DryRunClient)
		*counted = row
		counted.First = d.at
		d.counts[row] = counted
	}
	counted.Refused++
}

func (d *dryRun) result() DryRunReport {
	for _, c := range d.counts {
		d.report.Clients = append(d.report.Clients, *c)
	}
	slices.SortFunc(d.report.Clients, func(a, b DryRunClient) int {
		return cmp.Or(
			cmp.Compare(b.Refused, a.Refused), a.First.Compare(b.First),
			cmp.Compare(a.Subject.Tenant, b.Subject.Tenant), cmp.Compare(a.Subject.User, b.Subject.User),
			a.Subject.IP.Addr().Compare(b.Subject.IP.Addr()), cmp.Compare(a.Type, b.Type),
		)
	})
	return d.report
}
