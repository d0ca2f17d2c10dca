package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const root = "../.."

var bench = results{filepath.Join(root, "bench")}

// The pictures are what the code decides today, and what the results say.
func TestPicturesAreCurrent(t *testing.T) {
	all, err := pictures(bench)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go generate ./docs/plot", name)
		}
	}
}

// The figures of the README are those of the results.
func TestReadmeIsCurrent(t *testing.T) {
	readme := page(t, "README.md")
	want, err := withCosts(readme, bench)
	if err != nil {
		t.Fatal(err)
	}
	if readme != want {
		t.Error("the figures of the README are out of date: go generate ./docs/plot")
	}
	for _, name := range []string{"cpu-per-message", "memory-per-connection", "decisions", "faults"} {
		shown := false
		for _, where := range []string{"README.md", "docs/tuning.md", "docs/several-servers.md"} {
			shown = shown || strings.Contains(page(t, where), name+".svg")
		}
		if !shown {
			t.Errorf("no page shows %s.svg", name)
		}
	}
}

// Figures in the text of pages are those of the results, rounded as the text has them.
func TestFiguresInTheTextAreCurrent(t *testing.T) {
	atRest, inUse := "RSS per idle connection, at rest (KB)", "heap + stack in use per idle connection, after GC (KB)"
	withGarbage := "RSS per idle connection, garbage included (KB)"
	for _, c := range []struct {
		page, text string
		figure     figure
		from, to   float64 // what the text may say
	}{
		{"docs/tuning.md", "An idle connection needs about 5 KB", figure{resultFile, servers, atRest, "wskit"}, 4.5, 5.5},
		{"docs/tuning.md", "under TLS in the process 15 KB", figure{resultFile, underTLS, atRest, "wskit"}, 14.5, 15.5},
		{"docs/tuning.md", "a refused message of 100 bytes costs two thirds of a handled one", figure{resultFile, refusals, "100 bytes", "refused ÷ handled"}, 0.6, 0.75},
		{"docs/tuning.md", "60 KB of numbers costs a fiftieth", figure{resultFile, refusals, "60 KB of numbers", "refused ÷ handled"}, 0.01, 0.025},
		{"docs/tuning.md", "| in use | 4 KB |", figure{resultFile, servers, inUse, "wskit"}, 3.5, 4.5},
		{"docs/tuning.md", "| in use | 4 KB | 14 KB |", figure{resultFile, underTLS, inUse, "wskit"}, 13.5, 14.5},
		{"docs/tuning.md", "| at rest | 5 KB |", figure{resultFile, servers, atRest, "wskit"}, 4.5, 5.5},
		{"docs/tuning.md", "| at rest | 5 KB | 15 KB |", figure{resultFile, underTLS, atRest, "wskit"}, 14.5, 15.5},
		{"docs/tuning.md", "| garbage included | 6 to 7 KB |", figure{resultFile, servers, withGarbage, "wskit"}, 5.5, 7.5},
		{"docs/tuning.md", "| garbage included | 6 to 7 KB | 21 KB |", figure{resultFile, underTLS, withGarbage, "wskit"}, 20, 22},
		{"router/options.go", "An idle connection needs about 5 KB", figure{resultFile, servers, atRest, "wskit"}, 4.5, 5.5},
		{"docs/scaling.md", "| an idle connection | [5 KB, under TLS 15 KB](tuning.md#many-connections);", figure{resultFile, servers, atRest, "wskit"}, 4.5, 5.5},
		{"docs/scaling.md", "| an idle connection | [5 KB, under TLS 15 KB](tuning.md#many-connections);", figure{resultFile, underTLS, atRest, "wskit"}, 14.5, 15.5},
	} {
		if !says(page(t, c.page), c.text) {
			t.Errorf("%s does not say %q", c.page, c.text)
		}
		got, err := bench.number(c.figure)
		if err != nil {
			t.Error(err)
		} else if got < c.from || got > c.to {
			t.Errorf("%s says %q, and %s has %v", c.page, c.text, c.figure.file, got)
		}
	}
	one, err := bench.number(figure{resultFile, servers, "CPU per message, 50 connections, 1 in flight (µs)", "wskit"})
	if err != nil {
		t.Fatal(err)
	}
	eight, err := bench.number(figure{resultFile, servers, "CPU per message, 50 connections, 8 in flight (µs)", "wskit"})
	if err != nil {
		t.Fatal(err)
	}
	if text := "a message costs a quarter of what it costs alone"; !says(page(t, "docs/tuning.md"), text) || math.Abs(eight/one-1.0/4) > 0.05 {
		t.Errorf("docs/tuning.md and the results differ: %v", eight/one)
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// says reports whether a page has a text, which may be on two lines.
func says(page, text string) bool {
	return strings.Contains(strings.Join(strings.Fields(page), " "), text)
}

// What docs/limits.md says of the most in any window is seen in these requests.
func TestBusiestWindow(t *testing.T) {
	want := map[string]int{"token-bucket": 20, "pacer": 11, "fixed-window": 20, "sliding-window": 12, "sliding-log": 10}
	for _, s := range subjects {
		all, err := run(s.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := busiest(all, 4*time.Second); got > want[s.name] || got < 10 {
			t.Errorf("%v let %d through in 4 s; want 10 to %d", s.policy, got, want[s.name])
		}
	}
}
