// Package overload decides which messages a server refuses while it cannot keep up.
//
// A [Meter] measures ten times a second how the process does; its user passes that on to a [Controller], which reads no
// clock ([Controller.Look]). While something is wrong, the controller counts what comes and what is completed, and
// adapts a limit: how many messages are admitted in a second.
//
//   - Wait: a queue stands if even the shortest wait since the last look is longer than the target
//     (as in CoDel, RFC 8289). Then the limit is what is completed, less what empties the queue
//     in a second. Otherwise the limit grows, the slower the closer the wait is to the target.
//   - Busy: the limit falls by a tenth of what is completed at each look, and then grows again.
//   - Memory: the limit is at most a share of what is offered, which falls as the memory fills up.
//
// The limit is spent by priority (as in DAGOR, the overload control of WeChat). From the highest
// level down, each level is admitted as a whole, until the rest of the limit does not suffice: of
// that level, the marginal one, each subject is admitted up to an equal share (max-min fairness).
// Lower levels are refused. docs/decisions/overload.md has the reasons.
package overload

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// Levels is the number of priorities. The highest is Levels-1.
	Levels = 7
	// Every is how often Look is to be called.
	Every = window
	// MemoryFree is the share of memory that may be in use without consequences.
	MemoryFree = 0.9

	// drain is the time in which a queue is emptied that has become too long.
	drain = time.Second
	// leastCut and mostCut bound the part by which the limit falls at a look; busyCut is that part if
	// something else is busy.
	leastCut, mostCut, busyCut = 0.02, 0.5, 0.1
	// growth is the part by which the limit grows at most, up to known of the rate that has been
	// possible lately, and slowGrowth beyond it. That rate is forgotten by a part at each look.
	growth, slowGrowth, known, forgotten = 0.1, 0.02, 0.9, 0.005
	// least is the part of that rate that is admitted, and of what is offered if work does not wait: a
	// wrong signal must not stop the service.
	least = 0.1
	// kept is the weight of earlier counts.
	kept = 0.7
	// burst is the time of which the limit may be spent at once, and mostDebt the one by which what
	// is always admitted may exceed it.
	burst, mostDebt = 20 * time.Millisecond, window
	// slack is by how much shares are larger than what is expected to spend the limit.
	slack = 1.2
	// calmLooks is how many looks in a row must be without a refusal until counting ends.
	calmLooks = 10

	leastWait, mostWait = time.Second, 30 * time.Second
)

// Controller is for one server. Look is for one goroutine at a time, and the others for any number.
type Controller struct {
	target time.Duration
	plan   atomic.Pointer[plan] // nil: everything is admitted, and nothing is counted

	offered   [Levels]atomic.Int64 // since the last look, as is completed
	completed atomic.Int64
	refused   [Levels]atomic.Int64 // since the beginning
	spent     atomic.Int64         // until when, on the clock, the limit has been spent
	subjects  [Levels]table

	// of Look
	looked        time.Duration
	rates         rates
	limit         float64 // messages in a second
	possible      float64 // the most that were completed in a second, lately
	calm          int     // looks
	refusedBefore int64
}

// plan says what is admitted until the next look.
type plan struct {
	marginal int           // levels above are admitted, those below are refused
	share    float64       // of the marginal level: messages of each subject in a window
	gap      time.Duration // between two messages, by the limit
	since    time.Duration
	refuses  bool // messages have been refused
}

// New returns a Controller that keeps the wait at about target.
func New(target time.Duration) *Controller { return &Controller{target: target} }

// Counting reports whether Admit and Done are to be called. Otherwise a message costs this alone:
// one load of a value that hardly ever changes.
func (c *Controller) Counting() bool { return c.plan.Load() != nil }

// Refusing reports whether messages are refused.
func (c *Controller) Refusing() bool {
	p := c.plan.Load()
	return p != nil && p.refuses
}

// Refused returns how many messages of a level have been refused.
func (c *Controller) Refused(level int) int64 { return c.refused[level].Load() }

// Admit reports whether a message is admitted. subject is a hash of what has a share of its own, such
// as a user. at is the time, on the clock of Look.
func (c *Controller) Admit(level int, subject uint64, at time.Duration) bool {
	p := c.plan.Load()
	if p == nil {
		return true
	}
	c.offered[level].Add(1)
	place := c.subjects[level].count(subject, at, p.share)
	switch {
	case p.marginal < 0:
		return true
	case level > p.marginal, level == p.marginal && place == firm:
		c.spend(p.gap, at, true)
		return true
	case level == p.marginal && place == within && c.spend(p.gap, at, false):
		return true
	}
	c.refused[level].Add(1)
	return false
}

// spend takes a message from the limit, which is a token bucket. It reports false if it has been
// spent, unless the message is admitted always.
func (c *Controller) spend(gap, at time.Duration, always bool) bool {
	for {
		spent := c.spent.Load()
		from := max(time.Duration(spent), at-burst)
		if from > at && !always {
			return false
		}
		if c.spent.CompareAndSwap(spent, int64(min(from+gap, at+mostDebt))) {
			return true
		}
	}
}

// Done says that a message has been handled that was admitted.
func (c *Controller) Done() { c.completed.Add(1) }

// RetryAfter is how long the sender of a refused message should wait. An overload that has lasted
// for some time is expected to last as long again. At random, half more or less, so that not
// all come back at one moment.
func (c *Controller) RetryAfter(at time.Duration) time.Duration {
	wait := leastWait
	if p := c.plan.Load(); p != nil {
		wait = min(max(at-p.since, leastWait), mostWait)
	}
	return wait/2 + rand.N(wait)
}

// Seen is what is seen at a look.
type Seen struct {
	At     time.Duration // the time
	Wait   time.Duration // the shortest time for which work waited since the last look
	Memory float64       // how much of the memory is in use: 1 is all
	Busy   bool          // something that handlers need cannot keep up
}

// Look adapts to what is seen.
func (c *Controller) Look(s Seen) {
	elapsed := s.At - c.looked
	if elapsed < Every/2 {
		return // of a clock that was late the last time; too little to measure
	}
	c.looked = s.At
	over := s.Wait > c.target || s.Busy || s.Memory > MemoryFree
	p := c.plan.Load()
	if p == nil {
		if over {
			c.begin(s.At)
		}
		return
	}
	c.measure(elapsed)
	before := c.refusedBefore
	c.refusedBefore = c.allRefused()
	if over || c.refusedBefore != before {
		c.calm = 0
	} else if c.calm++; c.calm == calmLooks {
		c.plan.Store(nil)
		return
	}
	c.adapt(s, over)
	next := c.divide(s.At)
	next.since, next.refuses = p.since, p.refuses || c.refusedBefore != before
	c.plan.Store(&next)
}

// begin begins to count. The next look is the first after which something may be refused.
func (c *Controller) begin(at time.Duration) {
	for level := range c.offered {
		c.offered[level].Store(0)
	}
	c.completed.Store(0)
	c.rates, c.limit, c.possible, c.calm, c.refusedBefore = rates{}, math.Inf(1), 0, 0, c.allRefused()
	c.plan.Store(&plan{marginal: -1, since: at})
}

func (c *Controller) allRefused() (n int64) {
	for level := range c.refused {
		n += c.refused[level].Load()
	}
	return n
}

// rates are counts, earlier ones with less weight, and the time that they are for.
type rates struct {
	seconds   float64
	offered   [Levels]float64
	completed float64
}

func (c *Controller) measure(elapsed time.Duration) {
	r := &c.rates
	r.seconds = r.seconds*kept + elapsed.Seconds()
	for level := range r.offered {
		r.offered[level] = r.offered[level]*kept + float64(c.offered[level].Swap(0))
	}
	r.completed = r.completed*kept + float64(c.completed.Swap(0))
}

// adapt changes the limit.
func (c *Controller) adapt(s Seen, over bool) {
	completed := c.rates.completed / c.rates.seconds
	c.possible = max(c.possible*(1-forgotten), completed)
	offered := 0.0
	for _, n := range c.rates.offered {
		offered += n / c.rates.seconds
	}
	switch {
	case s.Wait > c.target:
		cut := float64(s.Wait-c.target) / float64(drain)
		c.limit = completed * (1 - min(max(cut, leastCut), mostCut))
	case s.Busy:
		c.limit = min(c.limit, completed) * (1 - busyCut)
	case !over:
		by := growth
		if c.limit > c.possible*known {
			by = slowGrowth
		}
		c.limit = max(c.limit, completed) * (1 + by*(1-float64(s.Wait)/float64(c.target)))
	}
	if s.Memory > MemoryFree {
		c.limit = min(c.limit, offered*(1-s.Memory)/(1-MemoryFree))
	}
	if s.Wait <= c.target {
		c.limit = max(c.limit, offered*least)
	}
	c.limit = max(c.limit, c.possible*least, 1)
}

// divide divides the limit among the levels.
func (c *Controller) divide(at time.Duration) plan {
	left := c.limit
	for level := Levels - 1; level >= 0; level-- {
		offered := c.rates.offered[level] / c.rates.seconds
		if offered > left {
			return plan{
				marginal: level, share: slack * c.subjects[level].share(at, left*window.Seconds()),
				gap: time.Duration(float64(time.Second) / c.limit),
			}
		}
		left -= offered
	}
	return plan{marginal: -1}
}
