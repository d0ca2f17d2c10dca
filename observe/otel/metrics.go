// Package otel has the figures of a router, and of the limiters, stores and brokers that it uses, as
// metrics of OpenTelemetry, and its messages as spans.
//
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(otel.NewProducer(r, otel.Options{
//		Components: map[string]any{"user": perUser, "redis": store, "broker": broker},
//	})))
//	otel.Trace(r)
//
// The figures are counted by the router itself (router.Stats); a reader collects them when it exports.
// Their number is bounded: there are some for each registered message type, limiter and code, and none
// for a user or a topic. observe/metrics.md describes all of them.
package otel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/histogram"
	"github.com/wskit/wskit/observe/internal/figures"
	"github.com/wskit/wskit/router"
)

const (
	scope  = "github.com/wskit/wskit/observe/otel"
	system = "wskit"
)

// Options configure a producer. The zero value has the figures of the router alone.
type Options struct {
	// Components are what the router uses, by the name that the attribute of their figures gets:
	// *limit.Limiter, *rules.Limiter, *gate.Gate, *webhook.Webhook, *run.Runs, the Store of adapters/memory,
	// adapters/redis and adapters/cfdo, the Broker of adapters/memory and adapters/redis, and the
	// Presence of adapters/redis.
	//
	// Default: none.
	Components map[string]any

	// Attributes are put on all figures, to distinguish several routers of one process: without them, their series have
	// the same names and attributes. No key may be one of the figures' own.
	//
	// Default: none.
	Attributes []attribute.KeyValue
}

// NewProducer returns the figures of a router and its components for a reader of
// go.opentelemetry.io/otel/sdk/metric. (They come by a producer because observable instruments
// cannot be histograms.) It panics if a component is of a type that Options.Components does not
// list, and if Options.Attributes has a key of the figures' own.
func NewProducer(r *router.Router, options ...Options) metric.Producer {
	o := given.Must("otel", "NewProducer", options)
	for _, m := range figures.All() {
		own := attributes(m, make([]string, len(m.Labels)), nil)
		for _, a := range o.Attributes {
			if own.HasValue(a.Key) {
				panic(fmt.Sprintf("otel: Options.Attributes has %q, which %s has itself; give it another name", a.Key, nameOf(m)))
			}
		}
	}
	return &producer{figures.New(r, o.Components), slices.Clone(o.Attributes), time.Now()}
}

type producer struct {
	source *figures.Source
	common []attribute.KeyValue // on all figures
	start  time.Time
}

// Produce implements metric.Producer.
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s := &sink{
		start: p.start, now: time.Now(), common: p.common,
		values: make(map[*figures.Metric][]metricdata.DataPoint[float64]), histograms: make(map[*figures.Metric][]metricdata.HistogramDataPoint[float64]),
	}
	p.source.Collect(s)
	var all []metricdata.Metrics
	for _, m := range figures.All() {
		out := metricdata.Metrics{Name: nameOf(m), Description: m.Help, Unit: m.Unit}
		switch values := s.values[m]; {
		case m.Kind == figures.Histogram && s.histograms[m] != nil:
			out.Data = metricdata.Histogram[float64]{DataPoints: s.histograms[m], Temporality: metricdata.CumulativeTemporality}
		case values == nil:
			continue
		case m.Kind == figures.Gauge:
			out.Data = metricdata.Gauge[float64]{DataPoints: values}
		default:
			out.Data = metricdata.Sum[float64]{DataPoints: values, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		}
		all = append(all, out)
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: all}}, nil
}

// nameOf returns the name of a metric: that of the semantic conventions for the duration of calls.
func nameOf(m *figures.Metric) string {
	if m == figures.MessageDuration {
		return "rpc.server.call.duration"
	}
	return "wskit." + m.Name
}

// attributeOf returns the name of a label.
func attributeOf(label string) string {
	switch label {
	case "type":
		return "rpc.method"
	case "outcome":
		return "rpc.response.status_code"
	}
	return "wskit." + label
}

// sink collects samples.
type sink struct {
	start, now time.Time
	common     []attribute.KeyValue
	values     map[*figures.Metric][]metricdata.DataPoint[float64]
	histograms map[*figures.Metric][]metricdata.HistogramDataPoint[float64]
}

func attributes(m *figures.Metric, labels []string, common []attribute.KeyValue) attribute.Set {
	all := slices.Clone(common)
	for i, label := range m.Labels {
		all = append(all, attribute.String(attributeOf(label), labels[i]))
	}
	if m == figures.MessageDuration {
		all = append(all, attribute.String("rpc.system.name", system))
	}
	return attribute.NewSet(all...)
}

func (s *sink) Value(m *figures.Metric, value float64, labels ...string) {
	s.values[m] = append(s.values[m], metricdata.DataPoint[float64]{
		Attributes: attributes(m, labels, s.common), StartTime: s.start, Time: s.now, Value: value,
	})
}

func (s *sink) Histogram(m *figures.Metric, h histogram.Snapshot, labels ...string) {
	p := metricdata.HistogramDataPoint[float64]{
		Attributes: attributes(m, labels, s.common), StartTime: s.start, Time: s.now,
		Count: uint64(h.Count()), Sum: h.Sum.Seconds(),
	}
	for _, bound := range h.Bounds() {
		p.Bounds = append(p.Bounds, bound.Seconds())
	}
	for _, n := range h.Counts {
		p.BucketCounts = append(p.BucketCounts, uint64(n))
	}
	s.histograms[m] = append(s.histograms[m], p)
}
