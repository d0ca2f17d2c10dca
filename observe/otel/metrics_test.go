package otel_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/observe/otel"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

func readerOf(t *testing.T, p metric.Producer) metric.Reader {
	reader := metric.NewManualReader(metric.WithProducer(p))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return reader
}

// collect returns all metrics by name.
func collect(t *testing.T, reader metric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// A reader of the SDK gets what the router has counted, with the attributes of the conventions.
func TestMetrics(t *testing.T) {
	r := router.New()
	router.RPC(r, "echo", func(_ *router.Context, m said) (said, error) { return m, nil })
	limiter := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 1, Refill: 1, Per: 3600e9}, limit.Options{Name: "user"})
	for range 3 {
		_, _ = limiter.Take(t.Context(), limit.KeyOf("ann"), 1)
	}
	reader := readerOf(t, otel.NewProducer(r, otel.Options{Components: map[string]any{"user": limiter}}))
	c := routertest.New(t, r).Dial()
	for range 5 {
		routertest.ExpectReply[said](c.Request("echo", said{"x"}))
	}
	c.Send("made up", nil)
	c.ExpectError("UNIMPLEMENTED")

	all := collect(t, reader)
	if got := all["wskit.server.active_connections"].Data.(metricdata.Gauge[float64]).DataPoints[0].Value; got != 1 {
		t.Errorf("%v connections", got)
	}
	counts := make(map[string]uint64)
	for _, p := range all["rpc.server.call.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		method, _ := p.Attributes.Value("rpc.method")
		counts[method.AsString()] = p.Count
		sum := uint64(0)
		for _, n := range p.BucketCounts {
			sum += n
		}
		if sum != p.Count || len(p.BucketCounts) != len(p.Bounds)+1 || !slices.IsSorted(p.Bounds) {
			t.Errorf("%v: %d in %d buckets with %d bounds", method, sum, len(p.BucketCounts), len(p.Bounds))
		}
	}
	if counts["echo"] != 5 || counts["_OTHER"] != 0 {
		t.Errorf("calls: %v", counts)
	}
	sums := make(map[attribute.Distinct]float64)
	for _, name := range []string{"wskit.server.messages", "wskit.limiter.decisions"} {
		sum := all[name].Data.(metricdata.Sum[float64])
		if !sum.IsMonotonic || sum.Temporality != metricdata.CumulativeTemporality {
			t.Errorf("%s is not a cumulative counter", name)
		}
		for _, p := range sum.DataPoints {
			sums[p.Attributes.Equivalent()] = p.Value
		}
	}
	for want, attrs := range map[float64][]attribute.KeyValue{
		5: {attribute.String("rpc.method", "echo"), attribute.String("rpc.response.status_code", "OK")},
		1: {attribute.String("rpc.method", "_OTHER"), attribute.String("rpc.response.status_code", "UNIMPLEMENTED")},
		2: {attribute.String("wskit.limiter", "user"), attribute.String("wskit.result", "denied")},
	} {
		set := attribute.NewSet(attrs...)
		if got := sums[set.Equivalent()]; got != want {
			t.Errorf("%v: %v, want %v", attrs, got, want)
		}
	}
}

// observe/metrics.md has the names of all metrics.
func TestNamesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `wskit_[^|]*\\| `([^`]+)`").FindAllSubmatch(page, -1) {
		documented[string(m[1])] = true
	}
	r := router.New()
	for name := range collect(t, readerOf(t, otel.NewProducer(r))) {
		if !documented[name] {
			t.Errorf("observe/metrics.md does not have %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !strings.HasPrefix(name, "wskit.") && name != "rpc.server.call.duration" {
			t.Errorf("observe/metrics.md has %s, which is no metric", name)
		}
	}
}

// What has no figures is refused when the program starts.
func TestComponentsWithoutFigures(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, `"broker" is *memory.presence`) {
			t.Errorf("panicked with %q", v)
		}
	}()
	otel.NewProducer(router.New(), otel.Options{Components: map[string]any{"broker": memory.NewPresence()}})
}

// Two routers of one process have series of their own, if they have different attributes.
func TestTwoRoutersOfOneProcess(t *testing.T) {
	var producers []metric.ManualReaderOption
	for _, name := range []string{"chat", "desk"} {
		r := router.New()
		router.RPC(r, "echo", func(_ *router.Context, m said) (said, error) { return m, nil })
		routertest.ExpectReply[said](routertest.New(t, r).Dial().Request("echo", said{"x"}))
		o := otel.Options{Attributes: []attribute.KeyValue{attribute.String("server.name", name)}}
		producers = append(producers, metric.WithProducer(otel.NewProducer(r, o)))
	}
	reader := metric.NewManualReader(producers...)
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer provider.Shutdown(t.Context())
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	add := func(name string, attributes attribute.Set) {
		seen[name+" "+attributes.Encoded(attribute.DefaultEncoder())]++
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes)
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes)
				}
			}
		}
	}
	for series, n := range seen {
		if n > 1 {
			t.Errorf("%d series are %s", n, series)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d series", len(seen))
	}
}

// An attribute that a figure has itself would hide one of the two.
func TestAttributesOfTheFigures(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, `"rpc.method"`) {
			t.Errorf("panicked with %q", v)
		}
	}()
	otel.NewProducer(router.New(), otel.Options{Attributes: []attribute.KeyValue{attribute.String("rpc.method", "x")}})
}
