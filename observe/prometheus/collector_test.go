package prometheus_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/wskit/wskit/observe/prometheus"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: ("[^"]*"),? .*variableLabels: \{([^}]*)\}\}$`)

// described returns the labels and the text of each metric that a collector has.
func described(c client.Collector) map[string]string {
	ch := make(chan *client.Desc)
	go func() {
		c.Describe(ch)
		close(ch)
	}()
	all := make(map[string]string)
	for d := range ch {
		if m := description.FindStringSubmatch(d.String()); m != nil {
			all[m[1]] = m[3] + ": " + m[2]
		}
	}
	return all
}

// observe/metrics.md has each metric with its labels and its text, and none that does not exist.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(wskit_[a-z_]+)` \\| `[^`]+` \\| ([^|]*) \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(m[2]), "`", ""), ", ", ",")
		documented[m[1]] = labels + `: "` + m[3] + `."`
	}
	exported := described(prometheus.NewCollector(router.New()))
	if len(exported) < 60 {
		t.Errorf("the collector describes %d metrics", len(exported))
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if row, ok := documented[name]; !ok || row != exported[name] {
			t.Errorf("observe/metrics.md has %q for %s, want %q", row, name, exported[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if _, ok := exported[name]; !ok {
			t.Errorf("observe/metrics.md has %s, which does not exist", name)
		}
	}
}

// docs/observability.md says what to do about each alert.
func TestAlertsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range alerts(t) {
		if name := strings.TrimPrefix(q.where, "alert "); !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/observability.md does not have the alert %s", name)
		}
	}
}

// The number of series does not grow with what clients send.
func TestAFloodOfTypesAddsNoSeries(t *testing.T) {
	r := router.New()
	router.On(r, "known", func(*router.Context, struct{}) error { return nil })
	registry := client.NewPedanticRegistry()
	registry.MustRegister(prometheus.NewCollector(r, prometheus.Options{ConstLabels: map[string]string{"server": "a"}}))
	series := func() (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	c := routertest.New(t, r).Dial()
	flood := func(n int) {
		for i := range n {
			c.Send(fmt.Sprintf("made up %d %d", n, i), nil)
			c.ExpectError("UNIMPLEMENTED")
		}
	}
	flood(10)
	before := series()
	flood(3000)
	if after := series(); after != before {
		t.Errorf("%d series before 3000 types that are made up, %d after", before, after)
	}
}

// Names and help follow the conventions of Prometheus.
func TestNamesFollowTheConventions(t *testing.T) {
	c := startChat(t)
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
