package inspect

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/inspection"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// query is what the page asks each process.
type query struct {
	Do string `json:"do"`
	// Search is a part of an id, a user, a tenant, an address or a topic.
	Search string `json:"search,omitzero"`
	// Slow says that only connections are meant which have not taken all that was sent to them.
	Slow bool `json:"slow,omitzero"`
	// Tenant, User and IP name a client.
	Tenant string `json:"tenant,omitzero"`
	User   string `json:"user,omitzero"`
	IP     string `json:"ip,omitzero"`
	Type   string `json:"type,omitzero"`
	// ID is a connection's or a trace's.
	ID string `json:"id,omitzero"`
	// Seconds is how long a trace runs or a ban lasts, Payloads whether it has them and the viewer may see them, and
	// After the last entry that is known.
	Seconds  int  `json:"seconds,omitzero"`
	Payloads bool `json:"payloads,omitzero"`
	After    int  `json:"after,omitzero"`
	// Rules replace those of the version Base.
	Rules string `json:"rules,omitzero"`
	Base  string `json:"base,omitzero"`
	// Topics are those of a right.
	Topics string `json:"topics,omitzero"`
	// Viewer is the name of the viewer, for the log, and for the traces that it has begun.
	Viewer string `json:"viewer,omitzero"`
}

// answer is the answer of a process.
type answer struct {
	Process string `json:"process"`
	Error   string `json:"error,omitzero"`

	Overview    *overview          `json:"overview,omitzero"`
	Connections []inspection.Conn  `json:"connections,omitzero"`
	Topics      []inspection.Topic `json:"topics,omitzero"`
	N           int                `json:"n,omitzero"` // how many there are, or were closed
	Limits      []limitState       `json:"limits,omitzero"`
	Banned      float64            `json:"banned,omitzero"` // for so many seconds
	Bans        bool               `json:"bans,omitzero"`   // the process can ban
	Recent      []rejection        `json:"recent,omitzero"`
	Entries     []entry            `json:"entries,omitzero"`
	Running     bool               `json:"running,omitzero"` // the trace goes on
	Dropped     int                `json:"dropped,omitzero"` // entries of the trace that had no room
	Rules       string             `json:"rules,omitzero"`
	Version     string             `json:"version,omitzero"` // of the rules
}

type overview struct {
	StartedAt time.Time               `json:"startedAt"`
	Stats     router.Stats            `json:"stats"`
	Bounds    []float64               `json:"bounds"` // of the histograms, in ms
	Routes    []route                 `json:"routes"`
	Limiters  map[string]limiterStats `json:"limiters"`
	// Limited are clients that were limited in the last five minutes, those with the most rejections.
	Limited []limited `json:"limited,omitzero"`
	// Runs are the oldest of those that go on here, Running is how many there are, and RunTypes has all by type.
	Runs     []run.Info      `json:"runs,omitzero"`
	Running  int64           `json:"running,omitzero"`
	RunTypes []run.TypeStats `json:"runTypes,omitzero"`
}

// limitedFor is how long a client is shown as limited after its last rejection.
const limitedFor = 5 * time.Minute

type route struct {
	Type  string `json:"type"`
	Kind  string `json:"kind"`
	Group string `json:"group,omitzero"`
	Doc   string `json:"doc,omitzero"`
}

type limiterStats struct {
	Allowed, Denied, StoreFailures, FailedOver int64
	Degraded                                   bool
}

// local answers a query for this process.
func (i *inspector) local(ctx context.Context, q query) answer {
	a := answer{Process: i.o.Process}
	switch q.Do {
	case "overview":
		a.Overview = i.overview()
	case "connections":
		a.Connections, a.N = i.inside.Conns(matchConn(q), maxListed)
	case "topics":
		a.Topics, a.N = i.inside.Topics(func(name string) bool { return contains(name, q.Search) }, maxListed)
	case "why":
		i.why(ctx, q, &a)
	case "trace":
		a.Error = i.startTrace(q)
	case "entries":
		a.Entries, a.Dropped, a.Running = i.traces.read(q)
	case "close":
		if i.inside.Close(q.ID, errors.ClosePolicy, "closed by an operator") {
			a.N = 1
		}
	case "rules":
		a.Error = text(i.replaceRules(ctx, q.Rules))
	case "inforce":
		var err error
		a.Rules, a.Version, err = i.rules()
		a.Error = text(err)
	case "ban":
		a.Error = text(i.ban(ctx, q))
	case "unban":
		a.Error = text(i.unban(ctx, q))
	case "revoke":
		a.Error = text(i.revoke(ctx, q))
	default:
		a.Error = "this process has no such query"
	}
	return a
}

// text is that of an error of something that the operator asked for; "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (i *inspector) overview() *overview {
	o := &overview{StartedAt: i.started, Stats: i.r.Stats(), Limiters: make(map[string]limiterStats)}
	for _, b := range o.Stats.Waiting.Bounds() {
		o.Bounds = append(o.Bounds, float64(b)/float64(time.Millisecond))
	}
	for _, rt := range i.r.Routes() {
		o.Routes = append(o.Routes, route{rt.Type, string(rt.Kind), rt.Group, rt.Doc})
	}
	add := func(name string, s limit.Stats) {
		o.Limiters[name] = limiterStats{s.Allowed, s.Denied, s.StoreFailures, s.FailedOver, s.Degraded}
	}
	for _, l := range i.o.Limits {
		if l.Concurrency != nil {
			add(l.Concurrency.Name(), l.Concurrency.Stats())
			continue
		}
		add(l.Limiter.Name(), l.Limiter.Stats())
	}
	if i.o.Rules != nil {
		add("rules", i.o.Rules.Stats().Stats)
	}
	for _, runs := range i.o.Runs {
		s, here := runs.Stats(), runs.Here()
		o.Runs = append(o.Runs, here[:min(len(here), maxListed)]...)
		o.Running += s.Running
		o.RunTypes = append(o.RunTypes, s.Types...)
	}
	o.Limited = i.recent.clients(time.Now().Add(-limitedFor))
	return o
}

// matchConn matches connections by the user and the address, and by any text.
func matchConn(q query) func(*inspection.Conn) bool {
	return func(c *inspection.Conn) bool {
		if q.ID != "" && c.ID != q.ID || q.User != "" && (c.User != q.User || c.Tenant != q.Tenant) || q.IP != "" && c.IP != q.IP {
			return false
		}
		if q.Slow && c.Queued == 0 {
			return false
		}
		if q.Search == "" {
			return true
		}
		return contains(c.ID, q.Search) || contains(c.User, q.Search) || contains(c.Tenant, q.Search) ||
			contains(c.IP, q.Search) ||
			slices.ContainsFunc(c.Topics, func(t inspection.Membership) bool { return contains(t.Name, q.Search) })
	}
}

func contains(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// subject is the client of a query, as middleware sees its frames.
func (q query) subject() (*ingress.Context, error) {
	c := &ingress.Context{Type: q.Type, Identity: ingress.Identity{Tenant: q.Tenant, User: q.User}}
	if q.IP != "" {
		ip, err := netip.ParseAddr(q.IP)
		if err != nil {
			return nil, errors.InvalidArgument.New("the address is not an IP address")
		}
		c.IP = ip
	}
	return c, nil
}
