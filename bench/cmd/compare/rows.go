package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wskit/wskit/bench/page"
)

// rowID names one figure of the table.
type rowID string

const (
	cpu1           rowID = "cpu-1"
	cpu8           rowID = "cpu-8"
	cpu32          rowID = "cpu-32"
	p50Busy        rowID = "p50-busy"
	p99Busy        rowID = "p99-busy"
	p50Alone       rowID = "p50-alone"
	p99Alone       rowID = "p99-alone"
	rssIdle        rowID = "rss-idle"
	rssRest        rowID = "rss-rest"
	inUseIdle      rowID = "in-use-idle"
	liveIdle       rowID = "live-idle" // only for unusedBytes
	cpuRefused     rowID = "cpu-refused"
	refusedShare   rowID = "refused-share"
	fanOut         rowID = "fan-out"
	fanLost        rowID = "fan-lost"
	fanWithHistory rowID = "fan-history"
	fanBroker      rowID = "fan-broker"
	historyShare   rowID = "history-share"
	unusedBytes    rowID = "unused-bytes"
	unusedCPU      rowID = "unused-cpu"
	cpuFew         rowID = "cpu-few"
	cpuMany        rowID = "cpu-many"
	growthRatio    rowID = "growth"
)

// row is how a figure is shown and what is hoped for it.
type row struct {
	id     rowID
	title  string
	more   bool // a larger figure is better
	target *target
}

// target is a bound on our figure, or on its ratio to the best rival's.
type target struct {
	bound   float64
	ofRatio bool
}

func ratioTarget(bound float64) *target  { return &target{bound: bound, ofRatio: true} }
func figureTarget(bound float64) *target { return &target{bound: bound} }

var rows = []row{
	{id: cpu1, title: "CPU per message, 50 connections, 1 in flight (µs)", target: ratioTarget(1.0)},
	{id: cpu8, title: "CPU per message, 50 connections, 8 in flight (µs)", target: ratioTarget(0.45)},
	{id: cpu32, title: "CPU per message, 50 connections, 32 in flight (µs)", target: ratioTarget(0.35)},
	{id: p50Busy, title: "latency p50, 50 busy connections, 1 in flight (µs)"},
	{id: p99Busy, title: "latency p99, 50 busy connections, 1 in flight (µs)"},
	{id: p50Alone, title: "latency p50, 1 connection, 1 in flight (µs)"},
	{id: p99Alone, title: "latency p99, 1 connection, 1 in flight (µs)"},
	{id: rssIdle, title: "RSS per idle connection, garbage included (KB)", target: figureTarget(8.5)},
	{id: rssRest, title: "RSS per idle connection, at rest (KB)", target: figureTarget(8.5)},
	{id: inUseIdle, title: "heap + stack in use per idle connection, after GC (KB)", target: figureTarget(7)},
	{id: cpuRefused, title: "CPU per refused frame, 32 in flight (µs)"},
	{id: refusedShare, title: "refused frame ÷ handled frame", target: figureTarget(0.5)},
	{id: fanOut, title: "fan-out, deliveries per CPU second", more: true, target: ratioTarget(1.5)},
	{id: fanLost, title: "fan-out, lost (%)"},
	{id: fanBroker, title: "fan-out through memory.Broker, deliveries per CPU second", more: true},
	{id: fanWithHistory, title: "fan-out of a topic with history, deliveries per CPU second", more: true},
	{id: historyShare, title: "fan-out with history ÷ without, the default", more: true, target: figureTarget(0.8)},
	{id: unusedBytes, title: "live heap of an idle connection, with a history declared − without (bytes)", target: figureTarget(8)},
	{id: unusedCPU, title: "CPU per message, 8 in flight, with a history declared ÷ without", target: figureTarget(1.05)},
	{id: cpuFew, title: "CPU per message, 100 connections (µs)"},
	{id: cpuMany, title: "CPU per message, many connections (µs)"},
	{id: growthRatio, title: "CPU per message, many ÷ 100 connections", target: figureTarget(1.25)},
}

// underTLS are the targets of the same figures under TLS; there are no others.
var underTLS = map[rowID]*target{
	cpu1:      ratioTarget(1.0),
	cpu8:      ratioTarget(0.5),
	cpu32:     ratioTarget(0.4),
	rssIdle:   ratioTarget(1.0),
	rssRest:   ratioTarget(1.0),
	inUseIdle: ratioTarget(1.0),
}

// rowsFor returns the rows with their targets.
func rowsFor(secure bool) []row {
	if !secure {
		return rows
	}
	all := slices.Clone(rows)
	for i := range all {
		all[i].target = underTLS[all[i].id]
	}
	return all
}

func (r row) met(value float64) bool {
	if r.more {
		return value >= r.target.bound
	}
	return value <= r.target.bound
}

// better says whether a is the better figure of this row.
func (r row) better(a, b float64) bool {
	if r.more {
		return a > b
	}
	return a < b
}

func (r row) targetText() string {
	if r.target == nil {
		return ""
	}
	sign, suffix := "≤ ", ""
	if r.more {
		sign = "≥ "
	}
	if r.target.ofRatio {
		suffix = " ×"
	}
	return fmt.Sprintf("%s%g%s", sign, r.target.bound, suffix)
}

// figures are the results of one measurement.
type figures map[rowID]float64

func (f figures) String() string {
	var parts []string
	for _, r := range rows {
		if value, ok := f[r.id]; ok {
			parts = append(parts, fmt.Sprintf("%s %s", r.id, page.Number(value)))
		}
	}
	return strings.Join(parts, ", ")
}
