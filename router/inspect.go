package router

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/inspection"
	"github.com/wskit/wskit/pubsub"
)

// What package inspect sees of a router.

func init() { inspection.Of = func(r any) inspection.Router { return inside{r.(*Router)} } }

type inside struct{ r *Router }

func (in inside) Broker() pubsub.Broker    { return in.r.opts.Backend.Broker }
func (in inside) Context() context.Context { return in.r.ctx }

func (in inside) Conns(match func(*inspection.Conn) bool, most int) (list []inspection.Conn, n int) {
	all := in.r.conns.All()
	slices.SortFunc(all, func(a, b *Conn) int {
		return cmp.Or(cmp.Compare(a.opened, b.opened), cmp.Compare(a.peer.ID, b.peer.ID))
	})
	for _, c := range all {
		if c.ended() {
			continue
		}
		i := c.inspect()
		if !match(&i) {
			continue
		}
		if n++; len(list) < most {
			list = append(list, i)
		}
	}
	return list, n
}

func (c *Conn) inspect() inspection.Conn {
	id, r := c.Identity(), c.router
	i := inspection.Conn{
		ID: c.peer.ID, Tenant: id.Tenant, User: id.User, Tier: id.Tier, Roles: id.Roles, IP: c.ip.String(),
		OpenedAt: r.epoch.Add(c.opened), ExpiresAt: id.ExpiresAt, Topics: c.peer.Memberships(), Queued: c.Queued(), Compressed: c.peer.Deflate,
	}
	if at := c.message.Load(); at > 0 {
		i.LastAt = r.epoch.Add(time.Duration(at))
	}
	return i
}

func (in inside) Topics(match func(string) bool, most int) (list []inspection.Topic, n int) {
	return in.r.hub.List(match, most)
}

func (in inside) Close(id string, code errors.CloseCode, reason string) bool {
	for _, c := range in.r.conns.All() {
		if c.peer.ID == id {
			c.Close(code, reason)
			return true
		}
	}
	return false
}

// Traces

// traces are the traces of a router that run.
type traces struct {
	mu  sync.RWMutex
	all []*trace
}

// trace records the messages of some connections.
type trace struct {
	match  func(*inspection.Conn) bool
	record func(inspection.Message)
	conns  map[*Conn]struct{} // guarded by traces.mu
}

func (in inside) Trace(match func(*inspection.Conn) bool, record func(inspection.Message)) (stop func()) {
	ts := &in.r.traces
	t := &trace{match, record, make(map[*Conn]struct{})}
	ts.mu.Lock()
	ts.all = append(ts.all, t)
	ts.mu.Unlock()
	for _, c := range in.r.conns.All() { // those that are opened from now on are in traceOpened
		t.begin(c)
	}
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.all = slices.DeleteFunc(slices.Clone(ts.all), func(other *trace) bool { return other == t })
		for c := range t.conns {
			c.peer.Traced.Store(slices.ContainsFunc(ts.all, func(other *trace) bool { _, ok := other.conns[c]; return ok }))
		}
	}
}

func (t *trace) begin(c *Conn) {
	i := c.inspect()
	if !t.match(&i) {
		return
	}
	ts := &c.router.traces
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if slices.Contains(ts.all, t) && !c.ended() {
		t.conns[c] = struct{}{}
		c.peer.Traced.Store(true)
	}
}

// traceOpened has the traces that run record a new connection.
func (r *Router) traceOpened(c *Conn) {
	r.traces.mu.RLock()
	all := r.traces.all
	r.traces.mu.RUnlock()
	for _, t := range all {
		t.begin(c)
	}
}

// traceEnded is called when a connection that is traced has ended.
func (r *Router) traceEnded(c *Conn) {
	r.traces.mu.Lock()
	defer r.traces.mu.Unlock()
	for _, t := range r.traces.all {
		delete(t.conns, c)
	}
}

// trace records a message of a connection that is traced.
func (c *Conn) trace(sent bool, payload []byte) {
	ts := &c.router.traces
	m := inspection.Message{At: time.Now(), Conn: c.peer.ID, Sent: sent, Payload: payload}
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for _, t := range ts.all {
		if _, ok := t.conns[c]; ok {
			t.record(m)
		}
	}
}
