package router

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/router/internal/overload"
)

// shedder refuses messages while the process cannot keep up. Package overload decides what is refused;
// this file applies its decisions.
type shedder struct {
	router  *Router
	control *overload.Controller
	opts    OverloadOptions
	tiers   map[string]int
	seed    maphash.Seed
	meter   overload.Meter
	report  outage.Reporter
}

func newShedder(r *Router) *shedder {
	o := r.opts.Overload
	s := &shedder{
		router: r, control: overload.New(o.Target), opts: o, tiers: maps.Clone(o.Tiers), seed: maphash.MakeSeed(),
		report: outage.Reporter{
			Component: "router", Name: "overload", Log: r.opts.Logger, Settle: overload.Settle,
			Failing: "wskit: this process cannot keep up; messages are refused by their priority",
			Working: "wskit: this process keeps up again; no messages are refused",
		},
	}
	s.meter.Config = overload.Config{
		Now: r.now, Sockets: &r.sockets, Connections: r.conns.Len, Busy: s.busy, MaxMemory: o.MaxMemory,
		Look: s.look, Stop: r.ctx.Done(),
	}
	return s
}

const errOverloaded = "the server is overloaded"

// level is the level of a message, from 0 on.
func (s *shedder) level(priority int, id *ingress.Identity) int {
	if len(s.tiers) > 0 {
		priority += s.tiers[id.Tier]
	}
	return min(max(priority, -maxPriority), maxPriority) + maxPriority
}

// subject is a hash of the one whose share a message is part of.
func (s *shedder) subject(id *ingress.Identity, ip netip.Addr) uint64 {
	if id.User == "" {
		address := ip.As16()
		return maphash.Bytes(s.seed, address[:])
	}
	return maphash.String(s.seed, id.User) ^ maphash.String(s.seed, id.Tenant)<<1
}

// checkOverload refuses a message for which there is no room. Most often it is one comparison.
func (c *Conn) checkOverload(s *scratch, f *incoming) error {
	shed := c.router.shedder
	if shed == nil || !shed.control.Counting() || f.route == nil || f.route.protocol || f.route.builtin != nil {
		return nil
	}
	at := c.stream.Heard()
	level := shed.level(f.route.opts.Priority, s.identity)
	if shed.control.Admit(level, shed.subject(s.identity, c.ip), at) {
		return nil
	}
	s.overloaded = errors.Error{Code: errors.Unavailable, Message: errOverloaded, RetryAfter: shed.control.RetryAfter(at)}
	return &s.overloaded
}

// checkHandshake is the same for a new connection, whose identity is not known yet.
func (s *shedder) checkHandshake(r *Router, ip netip.Addr) error {
	if s == nil {
		return nil
	}
	s.meter.Begin()
	if !s.control.Counting() {
		return nil
	}
	if at := r.now(); !s.control.Admit(maxPriority, s.subject(&ingress.Identity{}, ip), at) {
		return errors.Unavailable.New(errOverloaded).WithRetryAfter(s.control.RetryAfter(at))
	}
	s.control.Done()
	return nil
}

// handled counts a message whose handler has returned.
func (s *shedder) handled(rt *route) {
	if s != nil && s.control.Counting() && !rt.protocol {
		s.control.Done()
	}
}

// look passes on what is seen, and reports the beginning and the end.
func (s *shedder) look(seen overload.Seen) {
	s.control.Look(seen)
	if !s.control.Refusing() {
		s.report.Works()
		return
	}
	why := "something that handlers need is busy (Options.Overload.Busy)"
	switch {
	case seen.Wait > s.opts.Target:
		why = fmt.Sprintf("work waits for a CPU for %v or longer", seen.Wait.Round(time.Millisecond))
	case seen.Memory > overload.MemoryFree:
		why = fmt.Sprintf("%d %% of the memory are in use", int(math.Round(100*seen.Memory)))
	}
	s.report.Failed(errors.New(why))
}

// busy calls Options.Overload.Busy, which must not end the looks.
func (s *shedder) busy() (busy bool) {
	if s.opts.Busy == nil {
		return false
	}
	defer s.router.containPanic("Overload.Busy", nil, "")
	return s.opts.Busy()
}

// OverloadStats are the figures of Options.Overload, without which they are all 0.
type OverloadStats struct {
	// Refusing says that messages are refused now.
	Refusing bool
	// Wait is the shortest time for which work waited for a CPU in the last 100 ms.
	Wait time.Duration
	// Shed counts the messages and handshakes that were refused, by priority, from -3 to 3.
	Shed map[int]int64
}

func (s *shedder) stats() OverloadStats {
	if s == nil {
		return OverloadStats{}
	}
	stats := OverloadStats{Refusing: s.control.Refusing(), Wait: s.meter.LastWait(), Shed: make(map[int]int64)}
	for level := range overload.Levels {
		stats.Shed[level-maxPriority] = s.control.Refused(level)
	}
	return stats
}
