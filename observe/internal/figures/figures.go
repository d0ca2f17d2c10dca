// Package figures lists the metrics of a router and of what it uses, for the packages that export
// them to a monitoring system: one definition of each name.
package figures

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/histogram"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
	"github.com/wskit/wskit/webhook"
)

// Kind is the kind of a metric.
type Kind uint8

const (
	// Counter is a sum that only grows.
	Counter Kind = iota
	// Gauge is a value of the moment.
	Gauge
	// Histogram is a histogram of durations.
	Histogram
)

// Metric is a metric: its name without a prefix, in words separated by dots.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string // of UCUM: "1", "s", "By", or a noun in braces
	Help   string
	Labels []string
}

// Sink takes samples.
type Sink interface {
	// Value takes a value of a counter or gauge, with the values of its labels.
	Value(m *Metric, value float64, labels ...string)
	// Histogram takes a histogram.
	Histogram(m *Metric, h histogram.Snapshot, labels ...string)
}

// Source is where samples come from.
type Source struct {
	router     *router.Router
	components []func(Sink)
}

// New returns the source of a router and of named components. It panics if one of them has no figures
// that are known.
func New(r *router.Router, components map[string]any) *Source {
	if r == nil {
		panic("observe: the router is nil; pass the one that serves the connections")
	}
	s := &Source{router: r}
	for _, name := range slices.Sorted(maps.Keys(components)) {
		collect := collectorOf(components[name])
		if collect == nil {
			panic(fmt.Sprintf("observe: the component %q is %T, which has no figures; pass a *limit.Limiter, *rules.Limiter, *gate.Gate, *webhook.Webhook or *run.Runs, or a store, broker or presence of the adapters", name, components[name]))
		}
		s.components = append(s.components, func(to Sink) { collect(name, to) })
	}
	return s
}

func collectorOf(v any) func(string, Sink) {
	switch v := v.(type) {
	case interface{ Stats() limit.Stats }:
		return func(name string, to Sink) { limiter(name, v.Stats(), to) }
	case interface{ Stats() rules.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			limiter(name, s.Stats, to)
			to.Value(limiterBarred, float64(s.Barred), name)
			if s.Concurrent.Allowed+s.Concurrent.Denied > 0 {
				limiter(name+"/concurrent", s.Concurrent, to)
			}
		}
	case interface{ Stats() gate.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(gateHandshakes, float64(s.Admitted), name, "admitted")
			to.Value(gateHandshakes, float64(s.Refused), name, "refused")
			to.Value(gateLeases, float64(s.Open), name)
		}
	case interface{ Stats() redis.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(storeCalls, float64(s.Sent), name)
			to.Value(storeTrips, float64(s.Trips), name)
			to.Value(storeRemembered, float64(s.Remembered), name)
			for _, why := range slices.Sorted(maps.Keys(s.Errors)) {
				to.Value(storeErrors, float64(s.Errors[why]), name, why)
			}
			to.Value(storeEvicted, float64(s.Evicted), name)
			to.Value(storeRoundTrip, s.RoundTrip.Seconds(), name)
			to.Value(storeLate, float64(s.LateReads), name)
		}
	case interface{ Stats() cfdo.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(storeCalls, float64(s.Asks), name)
			to.Value(storeTrips, float64(s.Requests), name)
			to.Value(storeRemembered, float64(s.Remembered), name)
		}
	case interface{ Stats() memory.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(storeKeys, float64(s.Keys), name)
			to.Value(storeOverflowed, float64(s.Overflowed), name)
			to.Value(storeLeases, float64(s.Held), name)
		}
	case interface{ Stats() redis.BrokerStats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(brokerTopics, float64(s.Topics), name)
			to.Value(brokerMissing, float64(s.Missing), name)
			to.Value(brokerLost, float64(s.Lost), name)
			to.Value(brokerFailed, float64(s.Failed), name)
			to.Value(brokerDropped, float64(s.Dropped), name)
			to.Value(brokerIgnored, float64(s.Ignored), name)
			to.Value(brokerEvicted, float64(s.Evicted), name)
		}
	case interface{ Stats() memory.BrokerStats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(brokerLogs, float64(s.Logs), name)
			to.Value(brokerLogBytes, float64(s.LogBytes), name)
			to.Value(brokerRemoved, float64(s.Removed), name)
		}
	case interface{ Stats() redis.PresenceStats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(presenceTopics, float64(s.Topics), name)
			to.Value(presenceMembers, float64(s.Members), name)
			to.Value(presenceFailed, float64(s.Failed), name)
			to.Value(presenceRepaired, float64(s.Repaired), name)
		}
	case interface{ Stats() webhook.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(webhookEvents, float64(s.Sent), name, "sent")
			to.Value(webhookEvents, float64(s.Dropped), name, "dropped")
			to.Value(webhookFailures, float64(s.Failed), name)
			behind := 0.0
			if !s.Behind.IsZero() {
				behind = time.Since(s.Behind).Seconds()
			}
			to.Value(webhookBehind, behind, name)
		}
	case interface{ Stats() run.Stats }:
		return func(name string, to Sink) {
			s := v.Stats()
			to.Value(runsRunning, float64(s.Running), name)
			for _, t := range s.Types {
				to.Value(runsBegun, float64(t.Begun), name, t.Type)
				to.Value(runsRestarted, float64(t.Restarted), name, t.Type)
				for state, n := range t.Ends {
					to.Value(runsEnded, float64(n), name, t.Type, string(state))
				}
			}
		}
	}
	return nil
}

func limiter(name string, s limit.Stats, to Sink) {
	degraded := 0.0
	if s.Degraded {
		degraded = 1
	}
	to.Value(limiterDecisions, float64(s.Allowed), name, "allowed")
	to.Value(limiterDecisions, float64(s.Denied), name, "denied")
	to.Value(limiterImpossible, float64(s.Impossible), name)
	to.Value(limiterShadowed, float64(s.Shadowed), name)
	to.Value(limiterInvalid, float64(s.Invalid), name)
	to.Value(limiterStoreFailures, float64(s.StoreFailures), name)
	to.Value(limiterTimeouts, float64(s.TimedOut), name)
	to.Value(limiterFailedOver, float64(s.FailedOver), name)
	to.Value(limiterSkipped, float64(s.Skipped), name)
	to.Value(limiterSwitches, float64(s.Switches), name)
	to.Value(limiterDegraded, degraded, name)
	to.Histogram(limiterStoreDuration, s.Took, name)
}

// OtherType is the label of messages whose type is not registered.
const OtherType = "_OTHER"

// Collect passes on all samples of the moment.
func (s *Source) Collect(to Sink) {
	stats := s.router.Stats()
	for _, v := range []struct {
		m *Metric
		n int64
	}{
		{activeConnections, stats.Connections}, {connections, stats.Accepted},
		{ioRead, stats.BytesRead}, {ioWritten, stats.BytesWritten}, {framesWritten, stats.FramesWritten}, {framesDropped, stats.FramesDropped},
		{backlogConnections, stats.Backlogged}, {backlogBytes, stats.BacklogBytes}, {slowConsumers, stats.SlowConsumers},
		{messagesActive, stats.InFlight}, {rejectionsDropped, stats.Unanswered},
		{published, stats.Published}, {publishFailures, stats.PublishFailed}, {delivered, stats.Delivered},
		{foreign, stats.Foreign}, {lost, stats.Lost}, {topics, stats.Topics},
		{logRecovered, stats.Recovered}, {logReadFailures, stats.ReadFailures}, {logBehind, stats.Behind}, {revoked, stats.Revoked},
		{faults, stats.Faults}, {panics, stats.Panics}, {hooksMissed, stats.HooksMissed}, {answersIgnored, stats.AnswersIgnored},
	} {
		to.Value(v.m, float64(v.n))
	}
	refusing := 0.0
	if stats.Overload.Refusing {
		refusing = 1
	}
	to.Value(overloaded, refusing)
	to.Value(cpuWait, stats.Overload.Wait.Seconds())
	for priority, n := range stats.Overload.Shed {
		to.Value(shed, float64(n), strconv.Itoa(priority))
	}
	to.Histogram(connectionDuration, stats.ConnectionTime)
	to.Histogram(messageWait, stats.Waiting)
	for code, n := range stats.ClosedByServer {
		to.Value(connectionsClosed, float64(n), codeText(int(code)), "server")
	}
	for code, n := range stats.ClosedByClient {
		to.Value(connectionsClosed, float64(n), codeText(int(code)), "client")
	}
	each(to, handshakesRefused, stats.RefusedHandshakes)
	each(to, messagesRefused, stats.RefusedMessages)
	each(to, logResets, stats.Resets)
	each(to, resumes, stats.Resumes)
	for _, l := range stats.Rejections {
		to.Value(rejections, float64(l.Count), l.Limiter, string(l.Kind))
	}
	for _, t := range stats.Types {
		typ := t.Type
		if typ == "" {
			typ = OtherType
		}
		for code, n := range t.Outcomes {
			to.Value(messages, float64(n), typ, string(code))
		}
		to.Histogram(MessageDuration, t.Handling, typ)
	}
	for _, collect := range s.components {
		collect(to)
	}
}

func each[K ~string](to Sink, m *Metric, n map[K]int64) {
	for key, n := range n {
		to.Value(m, float64(n), string(key))
	}
}

func codeText(code int) string {
	if code == 0 {
		return "other"
	}
	return strconv.Itoa(code)
}
