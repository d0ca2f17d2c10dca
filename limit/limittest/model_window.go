package limittest

import (
	"math/big"
	"slices"

	"github.com/wskit/wskit/limit"
)

// fixedModel counts in the newest window.
type fixedModel struct {
	policy  limit.Policy
	most    int64
	windows windows
	start   int64 // at the last charge
	count   int64
}

func (m *fixedModel) become(policy limit.Policy) {
	m.policy, m.windows = policy, windowsOf(policy)
	switch p := policy.(type) {
	case limit.FixedWindow:
		m.most = p.Limit
	case limit.Calendar:
		m.most = p.Limit
	}
}

func (m *fixedModel) capacity() *big.Rat { return rat(m.most) }

func (m *fixedModel) read(now int64) (r reading) {
	window, count := m.windows.number(now), int64(0)
	if kept := m.windows.number(m.start); kept >= window {
		switch {
		case kept == window:
			count = m.count
		case m.windows.start(kept)-now > tolerance:
			count, r.corrected = m.most, true
		default:
			window, count = kept, m.count
		}
	}
	start, end := m.windows.start(window), m.windows.start(window+1)
	r.kept, r.ahead = fixedModel{start: start, count: count}, start
	r.used = func(at int64) *big.Rat {
		if at >= end {
			return new(big.Rat)
		}
		return rat(count)
	}
	return r
}

func (m *fixedModel) keep(r reading, _, cost int64) {
	k := r.kept.(fixedModel)
	m.start, m.count = k.start, k.count+cost
}

func (m *fixedModel) refund(now, cost, at int64) {
	r := m.read(now)
	if k := r.kept.(fixedModel); k.count > 0 && m.windows.number(k.start) == m.windows.number(at) {
		m.keep(r, now, -min(cost, k.count))
	}
}

// slidingModel stores the admissions by sub-window.
type slidingModel struct {
	policy limit.SlidingWindow
	newest int64         // the start of the newest sub-window
	counts map[int]int64 // by how many sub-windows before newest
}

func (m *slidingModel) become(policy limit.Policy) { m.policy = policy.(limit.SlidingWindow) }
func (m *slidingModel) capacity() *big.Rat         { return rat(m.policy.Limit) }

func (m *slidingModel) buckets() int { return max(m.policy.Buckets, 1) }

func (m *slidingModel) width() int64 {
	return m.policy.Window.Microseconds() / int64(m.buckets())
}

// seen returns the counts relative to a sub-window at or after the newest: none above the
// limit, none older than the window.
func (m *slidingModel) seen(ago int64) map[int]int64 {
	counts := map[int]int64{}
	for i, c := range m.counts {
		if n := int64(i) + ago; n <= int64(m.buckets()) && c > 0 {
			counts[int(n)] = min(c, m.policy.Limit)
		}
	}
	return counts
}

func (m *slidingModel) read(now int64) (r reading) {
	w := m.width()
	current, newest := now/w, m.newest/w
	var counts map[int]int64
	switch {
	case newest <= current:
		counts = m.seen(current - newest)
	case newest*w-now > tolerance:
		counts, r.corrected = map[int]int64{0: m.policy.Limit}, true
	default:
		current, counts = newest, m.seen(0)
	}
	if counts == nil {
		counts = map[int]int64{}
	}
	r.kept, r.ahead = slidingModel{newest: current * w, counts: counts}, current*w
	r.used = func(at int64) *big.Rat {
		at = max(at, current*w)
		ago, into := at/w-current, at%w
		used := new(big.Rat)
		for i, c := range counts {
			switch age := int64(i) + ago; {
			case age < int64(m.buckets()):
				used = add(used, rat(c))
			case age == int64(m.buckets()):
				used = add(used, mul(rat(c), big.NewRat(w-into, w)))
			}
		}
		return used
	}
	return r
}

func (m *slidingModel) keep(r reading, _, cost int64) {
	k := r.kept.(slidingModel)
	m.newest, m.counts = k.newest, k.counts
	m.counts[0] += cost
}

func (m *slidingModel) refund(now, cost, at int64) {
	r := m.read(now)
	k := r.kept.(slidingModel)
	ago := int(k.newest/m.width() - at/m.width())
	if c := k.counts[ago]; ago >= 0 && c > 0 {
		k.counts[ago] -= min(cost, c)
		m.keep(r, now, 0)
	}
}

// logModel stores every admission, and the instant of the latest.
type logModel struct {
	policy limit.SlidingLog
	log    []admission
	newest int64
}

type admission struct{ at, cost int64 }

func (m *logModel) become(policy limit.Policy) { m.policy = policy.(limit.SlidingLog) }
func (m *logModel) capacity() *big.Rat         { return rat(m.policy.Limit) }

func (m *logModel) read(now int64) (r reading) {
	log, newest := m.log, m.newest
	if newest-now > tolerance {
		log, newest, r.corrected = []admission{{now, m.policy.Limit}}, now, true
	}
	r.kept, r.ahead = logModel{log: log, newest: newest}, newest
	r.used = func(at int64) *big.Rat {
		used := new(big.Rat)
		for _, a := range log {
			if at-a.at < m.policy.Window.Microseconds() {
				used = add(used, rat(a.cost))
			}
		}
		return used
	}
	return r
}

// keep removes admissions that are too old when it adds one: if the clock is set back later,
// they do not count again.
func (m *logModel) keep(r reading, now, cost int64) {
	k := r.kept.(logModel)
	m.newest = k.newest
	m.log = slices.DeleteFunc(slices.Clone(k.log), func(a admission) bool {
		return now-a.at >= m.policy.Window.Microseconds()
	})
	if cost > 0 {
		m.newest = max(m.newest, now)
		m.log = append(m.log, admission{m.newest, cost})
	}
}

// refund gives back from the admissions of that instant, taken together.
func (m *logModel) refund(now, cost, at int64) {
	if now-at >= m.policy.Window.Microseconds() {
		return
	}
	m.log = slices.Clone(m.log)
	for i := range m.log {
		if m.log[i].at == at {
			back := min(cost, m.log[i].cost)
			m.log[i].cost -= back
			cost -= back
		}
	}
}
