package main

import (
	"fmt"
	"html"
	"math"
	"strings"
	"sync"
	"time"
)

// latencies counts durations, each within 1 % of what it was.
type latencies struct {
	mu     sync.Mutex
	counts [steps]int64
	n      int64
	most   time.Duration
}

// step is the ratio of the bounds of neighbouring counts, the first of which is of a microsecond.
const (
	step  = 1.02
	steps = 1200 // up to 5 hours
)

var logStep = math.Log(step)

func (l *latencies) add(d time.Duration) {
	i := 0
	if us := float64(d) / float64(time.Microsecond); us > 1 {
		i = min(int(math.Log(us)/logStep), steps-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[i]++
	l.n++
	l.most = max(l.most, d)
}

// quantile is the duration that a share of all are within.
func (l *latencies) quantile(q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := int64(math.Ceil(q * float64(l.n)))
	for i, n := range l.counts {
		if left -= n; left <= 0 && l.n > 0 {
			return min(l.most, time.Duration(math.Pow(step, float64(i)+0.5)*float64(time.Microsecond)))
		}
	}
	return l.most
}

func (l *latencies) String() string {
	var b strings.Builder
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		fmt.Fprintf(&b, "p%g %s  ", q*100, brief(l.quantile(q)))
	}
	return b.String() + "max " + brief(l.most)
}

// brief is a duration with three digits.
func brief(d time.Duration) string {
	unit := time.Duration(math.Pow10(max(0, int(math.Log10(max(1, float64(d))))-2)))
	return d.Round(unit).String()
}

// bar is a row of the picture of latencies.
type bar struct {
	until time.Duration
	n     int64
}

// bars sum the counts up to 1, 2 and 5 of each power of ten.
func (l *latencies) bars() (bars []bar) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := func(i int) time.Duration {
		power := math.Pow10(i / 3)
		return time.Duration(power*[]float64{1, 2, 5}[i%3]) * time.Microsecond
	}
	row := 0
	for i, n := range l.counts {
		at := time.Duration(math.Pow(step, float64(i)) * float64(time.Microsecond))
		for until(row) <= at {
			row++
		}
		if n == 0 {
			continue
		}
		if len(bars) == 0 || bars[len(bars)-1].until != until(row) {
			bars = append(bars, bar{until: until(row)})
		}
		bars[len(bars)-1].n += n
	}
	return bars
}

// chart draws the latencies with characters.
func (l *latencies) chart() string {
	var b strings.Builder
	for _, row := range l.bars() {
		width := max(1, int(60*row.n/max(1, l.n)))
		fmt.Fprintf(&b, "%8s |%-60s %d\n", row.until, strings.Repeat("#", width), row.n)
	}
	return b.String()
}

// svg draws the latencies as a picture.
func (l *latencies) svg(title string) string {
	bars := l.bars()
	const row, left, width = 22, 90, 420
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`,
		left+width+90, (len(bars)+3)*row)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="12" y="20" font-weight="bold">%s</text>`, html.EscapeString(title))
	for i, r := range bars {
		y := (i + 1) * row
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+22, r.until)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#3b73c8"/>`, left, y+8, max(1, width*r.n/max(1, l.n)), row-4)
		fmt.Fprintf(&b, `<text x="%d" y="%d">%d</text>`, left+max(1, width*r.n/max(1, l.n))+6, y+22, r.n)
	}
	fmt.Fprintf(&b, `<text x="12" y="%d">%s</text></svg>`, (len(bars)+2)*row+4, html.EscapeString(l.String()))
	return b.String()
}
