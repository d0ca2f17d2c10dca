package main

import (
	"fmt"
	"slices"

	"github.com/wskit/wskit/bench/page"
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

// median is the contender's figure; ok is false when it has none.
func (t *table) median(id rowID, name string) (value float64, ok bool) {
	values := slices.Clone(t.values[id][name])
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle], true
	}
	return (values[middle-1] + values[middle]) / 2, true
}

func (t *table) bestRival(r row) (best float64, ok bool) {
	for _, c := range t.contenders {
		value, has := t.median(r.id, c.name)
		if c.name == ours || !has {
			continue
		}
		if !ok || r.better(value, best) {
			best, ok = value, true
		}
	}
	return best, ok
}

// render is the table in Markdown, which reads well on a terminal too.
func (t *table) render() string {
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
	text := page.Table(lines)
	for _, note := range t.notes {
		text += "\n- " + note
	}
	return text
}

func (t *table) line(r row) []string {
	cells := []string{r.title}
	for _, c := range t.contenders {
		cell := "–"
		if value, ok := t.median(r.id, c.name); ok {
			cell = page.Number(value)
		}
		cells = append(cells, cell)
	}
	mine, haveMine := t.median(r.id, ours)
	best, haveBest := t.bestRival(r)
	ratio := "–"
	if haveMine && haveBest && best > 0 {
		ratio = page.Number(mine / best)
	}
	met := ""
	if r.target != nil && haveMine && (haveBest || !r.target.ofRatio) {
		value := mine
		if r.target.ofRatio {
			value = mine / best
		}
		met = "no"
		if r.met(value) {
			met = "yes"
		}
	}
	return append(cells, ratio, r.targetText(), met)
}
