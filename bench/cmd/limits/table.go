package main

import (
	"fmt"

	"github.com/wskit/wskit/bench/page"
)

// figures are the results, by row and by store.
type figures map[string]map[string]float64

func (f figures) add(row, rival string, value float64) {
	if f[row] == nil {
		f[row] = map[string]float64{}
	}
	f[row][rival] = value
}

// A row shows a figure and what is hoped for: that ours is at most so much, or so much
// of a rival's. 0 means that nothing is.
type row struct {
	name, title string
	most        float64
	ofRivals    [2]float64 // in the order of rivals
}

var hoped = [2]float64{0.6, 0.5}

var rows = []row{
	{name: "serial-1", title: "ns, 1 hot key, serial", ofRivals: hoped},
	{name: "serial-10k", title: "ns, 10,000 keys, serial"},
	{name: "serial-100k", title: "ns, 100,000 keys, serial", ofRivals: hoped},
	{name: "serial-1M", title: "ns, 1,000,000 keys, serial", ofRivals: hoped},
	{name: "parallel-1", title: "ns, 1 hot key, all cores", ofRivals: hoped},
	{name: "parallel-10k", title: "ns, 10,000 keys, all cores"},
	{name: "parallel-100k", title: "ns, 100,000 keys, all cores", ofRivals: hoped},
	{name: "parallel-1M", title: "ns, 1,000,000 keys, all cores", ofRivals: hoped},
	{name: "growth", title: "1,000,000 ÷ 10,000 keys, serial", most: 1.5},
	{name: "parts", title: "All of three ÷ one, 10,000 keys, serial", most: 2},
	{name: "allocations", title: "allocations", most: none},
	{name: "bytes", title: "bytes per key, 1,000,000 keys", ofRivals: [2]float64{1, 1}},
}

// none is a target of 0, which stands for that there is no target.
const none = 1e-9

// derive computes the rows that are quotients of others.
func (f figures) derive() {
	for _, r := range rivals {
		large, haveLarge := f["serial-1M"][r.name]
		small, haveSmall := f["serial-10k"][r.name]
		if haveLarge && haveSmall {
			f.add("growth", r.name, large/small)
		}
	}
	if all := f["all-1"]; all != nil {
		f.add("parts", ours, all[three.name]/all[ours])
	}
}

// table compares the stores.
func (f figures) table() [][]string {
	f.derive()
	head := []string{"per decision"}
	for _, r := range rivals {
		head = append(head, r.name)
	}
	for _, r := range rivals[1:] {
		head = append(head, "ours ÷ "+r.name)
	}
	lines := [][]string{append(head, "target", "met")}
	for _, r := range rows {
		if f[r.name] != nil {
			lines = append(lines, f.line(r))
		}
	}
	return lines
}

func (f figures) line(r row) []string {
	cells := []string{r.title}
	for _, rival := range rivals {
		cell := "–"
		if v, ok := f[r.name][rival.name]; ok {
			cell = page.Number(v)
		}
		cells = append(cells, cell)
	}
	mine := f[r.name][ours]
	target, met := "", ""
	hope := func(text string, ok bool) {
		if target != "" {
			target, met = target+", ", met+", "
		}
		target, met = target+text, met+page.Met(ok)
	}
	for i, rival := range rivals[1:] {
		cell := "–"
		if v := f[r.name][rival.name]; v > 0 {
			cell = page.Number(mine / v)
			if most := r.ofRivals[i]; most > 0 {
				hope(fmt.Sprintf("≤ %g ×", most), mine/v <= most)
			}
		}
		cells = append(cells, cell)
	}
	switch {
	case r.most == none:
		hope("0", mine == 0)
	case r.most > 0:
		hope(fmt.Sprintf("≤ %g", r.most), mine <= r.most)
	}
	return append(cells, target, met)
}
