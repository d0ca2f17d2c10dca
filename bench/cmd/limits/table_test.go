package main

import (
	"strings"
	"testing"
)

func TestTableJudgesTargets(t *testing.T) {
	f := figures{}
	for _, name := range []string{"serial-1", "allocations", "serial-10k"} {
		f.add(name, ours, 30)
		f.add(name, "go-limiter", 50)
		f.add(name, "throttled", 40)
	}
	f.add("serial-1M", ours, 46)
	f.add("bytes", ours, 45)
	f.add("bytes", "go-limiter", 64)
	f.add("bytes", "throttled", 40)
	lines := map[string]string{}
	f.derive()
	for _, r := range rows {
		lines[r.name] = strings.Join(f.line(r), "|")
	}
	for name, want := range map[string]string{
		"serial-1":    "|30.0|50.0|40.0|0.60|0.75|≤ 0.6 ×, ≤ 0.5 ×|yes, no",
		"serial-10k":  "|0.60|0.75||",
		"growth":      "|1.53|–|–|–|–|≤ 1.5|no",
		"bytes":       "|0.70|1.12|≤ 1 ×, ≤ 1 ×|yes, no",
		"allocations": "|0|no",
	} {
		if !strings.HasSuffix(lines[name], want) {
			t.Errorf("%s: %q, want …%q", name, lines[name], want)
		}
	}
}

func TestQuartile(t *testing.T) {
	if q := quartile([]float64{9, 1, 100, 3, 5, 7, 8, 2}); q != 3 {
		t.Errorf("%v", q)
	}
}

func TestKeysAreShuffledAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	keys := shuffled(1000)
	inOrder := 0
	for i, k := range keys {
		seen[k] = true
		if i > 0 && keys[i-1] < k {
			inOrder++
		}
	}
	if len(seen) != 1000 || inOrder > 700 {
		t.Errorf("%d keys, %d of 999 larger than the one before", len(seen), inOrder)
	}
}
