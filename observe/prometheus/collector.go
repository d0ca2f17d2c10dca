// Package prometheus exports the figures of a router, and of the limiters, stores and brokers that it
// uses, to Prometheus.
//
//	registry.MustRegister(prometheus.NewCollector(r, prometheus.Options{
//		Components: map[string]any{"user": perUser, "redis": store, "broker": broker},
//	}))
//	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// The figures are counted by the router itself (router.Stats); a scrape reads them. Their number is
// bounded: there are some for each registered message type, limiter and code, and none for a user or a
// topic. observe/metrics.md describes all of them. A dashboard for Grafana and alert
// rules are in the folder of this package.
//
// Serve /metrics on a port that is not public: it shows the names of all message types.
package prometheus

import (
	"strings"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/histogram"
	"github.com/wskit/wskit/observe/internal/figures"
	"github.com/wskit/wskit/router"
)

// Options configure a collector. The zero value exports the figures of the router alone.
type Options struct {
	// Components are what the router uses, by the name that the label of their figures gets:
	// *limit.Limiter, *rules.Limiter, *gate.Gate, *webhook.Webhook, *run.Runs, the Store of adapters/memory,
	// adapters/redis and adapters/cfdo, the Broker of adapters/memory and adapters/redis, and the
	// Presence of adapters/redis.
	//
	// Default: none.
	Components map[string]any

	// ConstLabels are put on all figures, to distinguish several routers of one process.
	//
	// Default: none.
	ConstLabels map[string]string
}

// NewCollector returns a collector of the figures of a router and its components. It panics if a
// component is of a type that Options.Components does not list.
func NewCollector(r *router.Router, options ...Options) client.Collector {
	o := given.Must("prometheus", "NewCollector", options)
	c := &collector{source: figures.New(r, o.Components), descs: make(map[*figures.Metric]*client.Desc)}
	for _, m := range figures.All() {
		c.descs[m] = client.NewDesc(nameOf(m), m.Help, m.Labels, o.ConstLabels)
	}
	return c
}

// nameOf returns the name of a metric, by the conventions of Prometheus.
func nameOf(m *figures.Metric) string {
	name := "wskit_" + strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.Kind == figures.Counter {
		name += "_total"
	}
	return name
}

type collector struct {
	source *figures.Source
	descs  map[*figures.Metric]*client.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *client.Desc) {
	for _, m := range figures.All() {
		ch <- c.descs[m]
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- client.Metric) { c.source.Collect(sink{c, ch}) }

// sink passes samples on to a scrape.
type sink struct {
	*collector
	ch chan<- client.Metric
}

func (s sink) Value(m *figures.Metric, value float64, labels ...string) {
	kind := client.CounterValue
	if m.Kind == figures.Gauge {
		kind = client.GaugeValue
	}
	s.ch <- client.MustNewConstMetric(s.descs[m], kind, value, labels...)
}

func (s sink) Histogram(m *figures.Metric, h histogram.Snapshot, labels ...string) {
	buckets := make(map[float64]uint64)
	count := uint64(0)
	for i, bound := range h.Bounds() {
		count += uint64(h.Counts[i])
		buckets[bound.Seconds()] = count
	}
	s.ch <- client.MustNewConstHistogram(s.descs[m], uint64(h.Count()), h.Sum.Seconds(), buckets, labels...)
}
