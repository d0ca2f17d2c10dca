package prometheus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/redistest"
)

// query is one of the dashboard or of the alerts.
type query struct{ where, expr string }

// dashboard returns the queries of the Grafana board, with the values of its variables.
func dashboard(t *testing.T) (all []query) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("grafana/wskit.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "10s")
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			all = append(all, query{"panel " + p.Title, values.Replace(q.Expr)})
		}
	}
	return all
}

var (
	comparison = regexp.MustCompile(` > [0-9.]+$`)
	window     = regexp.MustCompile(`\[[0-9]+m\]`)
)

// alerts returns the expressions of the alerts: 1 or 0 in place of an alert or nothing, and over a
// shorter time.
func alerts(t *testing.T) (all []query) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile("alerts.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			at := comparison.FindStringIndex(r.Expr)
			if at == nil {
				t.Errorf("the alert %s is not one comparison with a number", r.Alert)
				continue
			}
			all = append(all, query{"alert " + r.Alert, window.ReplaceAllString(r.Expr[:at[0]]+strings.Replace(r.Expr[at[0]:], ">", "> bool", 1), "[10s]")})
		}
	}
	return all
}

// startPrometheus runs a Prometheus that scrapes a server, and returns its URL.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	dir := t.TempDir()
	alerts, err := filepath.Abs("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n- job_name: chat\n  static_configs: [{targets: [%s]}]\n", alerts, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := process.FreeAddr(t)
	var out strings.Builder
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make prometheus installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", out.String())
		}
	})
	redistest.Eventually(t, "Prometheus is ready", func() bool {
		res, err := http.Get("http://" + addr + "/-/ready")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return "http://" + addr
}

// ask returns how many series a query has.
func ask(prometheus, expr string) (int, error) {
	res, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s", answer.Error)
	}
	return len(answer.Data.Result), nil
}

// Every query of the dashboard and of the alerts returns something from a Prometheus that scrapes a chat
// under load.
func TestQueriesOfTheDashboardAndTheAlerts(t *testing.T) {
	c := startChat(t)
	ctx, stop := context.WithCancel(context.Background())
	clients := c.load(ctx, t)
	defer func() { stop(); clients.Wait() }()
	prometheus := startPrometheus(t, strings.TrimPrefix(c.http.URL, "http://"))

	queries := append(dashboard(t), alerts(t)...)
	if len(queries) < 50 {
		t.Errorf("%d queries are found", len(queries))
	}
	empty := queries
	// All at once, since a scrape may lack what has not happened yet. The end is only a guard against hanging.
	poll.Within(5*time.Minute, func() bool {
		var left []query
		for _, q := range empty {
			n, err := ask(prometheus, q.expr)
			if err != nil {
				t.Fatalf("%s: %s\n%v", q.where, q.expr, err)
			}
			if n == 0 {
				left = append(left, q)
			}
		}
		empty = left
		return len(empty) == 0
	})
	for _, q := range empty {
		t.Errorf("%s returns nothing: %s", q.where, q.expr)
	}
	if n, err := ask(prometheus, "wskit_no_such_metric"); n != 0 || err != nil {
		t.Errorf("a metric that does not exist has %d series, %v", n, err)
	}
	checkSamples(t, c)
}

// checkSamples checks that every metric has samples.
func checkSamples(t *testing.T, c *chat) {
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, f := range families {
		have[f.GetName()] = true
	}
	for name := range described(c.registry) {
		if !have[name] {
			t.Errorf("%s has no sample", name)
		}
	}
}

// promtool accepts the rules.
func TestRules(t *testing.T) {
	if out, err := exec.Command("promtool", "check", "rules", "alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("%v; make prometheus installs it\n%s", err, out)
	}
}
