package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/wskit/wskit/bench/stats"
)

// table gathers the figures of all rounds.
type table struct {
	contenders []contender
	rows       []row
	values     map[rowID]map[string][]float64 // by row, then by contender
	notes      []string
}

func newTable(contenders []contender, rows []row) *table {
	return &table{contenders: contenders, rows: rows, values: make(map[rowID]map[string][]float64)}
}

func (t *table) add(name string, f figures) {
	for id, value := range f {
		if t.values[id] == nil {
			t.values[id] = make(map[string][]float64)
		}
		t.values[id][name] = append(t.values[id][name], value)
	}
}

func (t *table) failed(scenario, name string, err error) {
	note := fmt.Sprintf("%s failed in %q: %v", name, scenario, err)
	if !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
}

// lines are those of the table.
func (t *table) lines() [][]string {
	head := []string{"figure"}
	for _, c := range t.contenders {
		head = append(head, c.name)
	}
	lines := [][]string{append(head, "ours ÷ best rival", "target", "met")}
	for _, r := range t.rows {
		if t.values[r.id] != nil {
			lines = append(lines, t.line(r))
		}
	}
	return lines
}

func (t *table) line(r row) []string {
	line := r.Compared
	for _, c := range t.contenders {
		value := math.NaN()
		if values := t.values[r.id][c.name]; len(values) > 0 {
			value = stats.Quantile(slices.Sorted(slices.Values(values)), 0.5)
		}
		line.Values = append(line.Values, value)
	}
	if t.contenders[0].name == ours {
		return line.Cells()
	}
	line.Values = slices.Insert(line.Values, 0, math.NaN())
	return slices.Delete(line.Cells(), 1, 2)
}
