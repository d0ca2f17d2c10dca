package main

import (
	"strings"
	"testing"
)

func TestTableTakesMediansAndJudgesTargets(t *testing.T) {
	table := newTable([]contender{{name: ours}, {name: "a"}, {name: "b"}}, rows)
	for _, v := range []float64{9, 3, 4} { // median 4
		table.add(ours, figures{cpu8: v, fanOut: v, rssIdle: v})
	}
	table.add("a", figures{cpu8: 10, fanOut: 2, rssIdle: 1})
	table.add("b", figures{cpu8: 12, fanOut: 3})

	lines := map[rowID]string{}
	for _, r := range rows {
		lines[r.id] = strings.Join(table.line(r), "|")
	}
	for id, want := range map[rowID]string{
		cpu8:    "|4.00|10.0|12.0|0.40|≤ 0.45 ×|yes", // the best rival is the smallest
		fanOut:  "|4.00|2.00|3.00|1.33|≥ 1.5 ×|no",   // and here the largest
		rssIdle: "|4.00|1.00|–|4.00|≤ 8.5|yes",       // a bound on the figure, not the ratio
	} {
		if !strings.HasSuffix(lines[id], want) {
			t.Errorf("%s: %q, want …%q", id, lines[id], want)
		}
	}
}

func TestTargetsStayOpenWithoutUs(t *testing.T) {
	table := newTable([]contender{{name: "a"}}, rows)
	table.add("a", figures{cpu1: 10})
	if line := table.line(rows[0]); line[len(line)-1] != "" || line[2] != "–" {
		t.Errorf("a target is judged without a figure of ours: %q", line)
	}
}
