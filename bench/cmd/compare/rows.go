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

// row is how a figure is shown.
type row struct {
	id rowID
	page.Compared
}

var rows = []row{
	{cpu1, page.Compared{Title: "CPU per message, 50 connections, 1 in flight (µs)", Target: 1}},
	{cpu8, page.Compared{Title: "CPU per message, 50 connections, 8 in flight (µs)", Target: 0.45}},
	{cpu32, page.Compared{Title: "CPU per message, 50 connections, 32 in flight (µs)", Target: 0.35}},
	{p50Busy, page.Compared{Title: "latency p50, 50 busy connections, 1 in flight (µs)"}},
	{p99Busy, page.Compared{Title: "latency p99, 50 busy connections, 1 in flight (µs)"}},
	{p50Alone, page.Compared{Title: "latency p50, 1 connection, 1 in flight (µs)"}},
	{p99Alone, page.Compared{Title: "latency p99, 1 connection, 1 in flight (µs)"}},
	{rssIdle, page.Compared{Title: "RSS per idle connection, garbage included (KB)", Target: 8.5, OfFigure: true}},
	{rssRest, page.Compared{Title: "RSS per idle connection, at rest (KB)", Target: 8.5, OfFigure: true}},
	{inUseIdle, page.Compared{Title: "heap + stack in use per idle connection, after GC (KB)", Target: 7, OfFigure: true}},
	{cpuRefused, page.Compared{Title: "CPU per refused frame, 32 in flight (µs)"}},
	{refusedShare, page.Compared{Title: "refused frame ÷ handled frame", Target: 0.5, OfFigure: true}},
	{fanOut, page.Compared{Title: "fan-out, deliveries per CPU second", More: true, Target: 1.5}},
	{fanLost, page.Compared{Title: "fan-out, lost (%)"}},
	{fanBroker, page.Compared{Title: "fan-out through memory.Broker, deliveries per CPU second", More: true}},
	{fanWithHistory, page.Compared{Title: "fan-out of a topic with history, deliveries per CPU second", More: true}},
	{historyShare, page.Compared{Title: "fan-out with history ÷ without, the default", More: true, Target: 0.8, OfFigure: true}},
	{unusedBytes, page.Compared{Title: "live heap of an idle connection, with a history declared − without (bytes)", Target: 8, OfFigure: true}},
	{unusedCPU, page.Compared{Title: "CPU per message, 8 in flight, with a history declared ÷ without", Target: 1.05, OfFigure: true}},
	{cpuFew, page.Compared{Title: "CPU per message, 100 connections (µs)"}},
	{cpuMany, page.Compared{Title: "CPU per message, many connections (µs)"}},
	{growthRatio, page.Compared{Title: "CPU per message, many ÷ 100 connections", Target: 1.25, OfFigure: true}},
}

// underTLS are the bounds of the ratios under TLS; there are no others.
var underTLS = map[rowID]float64{cpu1: 1, cpu8: 0.5, cpu32: 0.4, rssIdle: 1, rssRest: 1, inUseIdle: 1}

// compressing are the bounds of the ratios with compression.
var compressing = map[rowID]float64{cpu1: 1, cpu8: 1, cpu32: 1, rssIdle: 1, rssRest: 1, inUseIdle: 1}

// rowsFor returns the rows with their targets.
func rowsFor(s settings) []row {
	var targets map[rowID]float64
	switch {
	case s.tls:
		targets = underTLS
	case s.compress:
		targets = compressing
	default:
		return rows
	}
	all := slices.Clone(rows)
	for i := range all {
		all[i].Target, all[i].OfFigure = targets[all[i].id], false
	}
	return all
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
