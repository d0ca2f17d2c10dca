// Package limittest checks that a [limit.Store] makes the decisions that the documentation
// of package limit defines. It also has a [Clock] for tests of an application's own limits.
//
// The test of a store passes a function that opens the store with a clock. The suite moves
// that clock:
//
//	func TestStore(t *testing.T) {
//		limittest.Run(t, func(t *testing.T) limittest.Subject {
//			clock := limittest.NewClock()
//			return limittest.Subject{
//				Store: memory.NewStore(memory.Options{Now: clock.Now}),
//				Clock: clock,
//			}
//		})
//	}
//
// Run compares the store's decisions, field by field, with those of a reference
// model. The model uses exact rationals (math/big) and shares no code with the
// algorithms of package limit. The timelines are generated, and their clock may
// jump both ways. Run then checks rules that hold for every limit. A failure names the
// broken rule and shows the timeline and, if it was generated, a seed that repeats it.
package limittest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
)

// Subject is a store under test and its clock.
type Subject struct {
	// Store is the store that is tested. It is empty, and used by this test alone.
	Store limit.Store
	// Clock is the clock that the store uses. The suite moves it, forwards and backwards.
	Clock *Clock
	// Step is set in place of Clock for a store that cannot be given a clock. It moves the clock of
	// the store's server, forwards and backwards. Then only the rules about clocks that are stepped
	// are checked.
	Step func(time.Duration)
	// Steps bounds the length of a generated timeline; 0 means 100. Lower it for
	// a store behind a network.
	Steps int
	// NoTakeAll says that TakeAll of the store cannot charge any two keys in one step and
	// answers errors.ErrUnsupported for them, as a cluster does for keys of different nodes.
	// The rules of TakeAll are then not checked.
	NoTakeAll bool
}

// Run runs the suite. It calls open for each part of the suite; open returns an empty store
// and closes it with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			s := open(t)
			if s.Store == nil || s.Clock == nil && s.Step == nil {
				t.Fatal("limittest: the Subject needs a Store, and a Clock or Step")
			}
			if s.Clock == nil && !part.steps {
				t.Skip("the clock of the store cannot be set")
			}
			if s.Steps == 0 {
				s.Steps = 100
			}
			part.run(t, s)
		})
	}
}

// A part of the suite.
type part struct {
	name  string
	run   func(*testing.T, Subject)
	steps bool // it only moves the clock by steps
}

var parts = []part{
	{name: "Timelines", run: timelines},
	{name: "PolicyChange", run: policyChange},
	{name: "EveryRateIsExact", run: everyRateIsExact},
	{name: "PollingNeverLosesTime", run: pollingNeverLosesTime},
	{name: "RetryAfterIsExact", run: retryAfterIsExact},
	{name: "ImpossibleIsNotRetryable", run: impossibleIsNotRetryable},
	{name: "ClockSwings", run: clockSwings},
	{name: "ClockSetBack", run: clockSetBack},
	{name: "InvalidIsRefused", run: invalidIsRefused},
	{name: "Extremes", run: extremes},
	{name: "DenialChangesNothing", run: denialChangesNothing},
	{name: "KeysAreApart", run: keysAreApart},
	{name: "LimitersAreApart", run: limitersAreApart},
	{name: "Concurrency", run: concurrency},
	{name: "ReserveAndSettle", run: reserveAndSettle},
	{name: "WaitsAreExact", run: everySample(waitsAreExact)},
	{name: "NoSpanAdmitsMore", run: noSpanAdmitsMore},
	{name: "TwoSizesAdmitTheLarger", run: twoSizesAdmitTheLarger},
	{name: "WindowsTolerateSwings", run: everySample(windowsTolerateSwings)},
	{name: "WindowsSetBack", run: everySample(windowsSetBack)},
	{name: "CompositesChargeAllOrNone", run: compositesChargeAllOrNone},
	{name: "PacerSpacesOut", run: pacerSpacesOut},
	{name: "PeekChangesNothing", run: everySample(peekChangesNothing)},
	{name: "ForecastIsExact", run: everySample(forecastIsExact)},
	{name: "RefundIsExact", run: everySample(refundIsExact)},
	{name: "RefundAdmitsNoMore", run: everySample(refundAdmitsNoMore)},
	{name: "RefundsAdmitNoMore", run: refundsAdmitNoMore},
	{name: "ResetForgets", run: everySample(resetForgets)},
	{name: "ManyInOrder", run: everySample(manyInOrder)},
	{name: "AllOrNone", run: everySample(allOrNone)},
	{name: "AllOrNoneAtOnce", run: allOrNoneAtOnce},
	{name: "LeasesUpToTheLimit", run: leasesUpToTheLimit},
	{name: "HoldingAgainIsOnce", run: holdingAgainIsOnce},
	{name: "LeasesRunOut", run: leasesRunOut},
	{name: "RenewalsBringBack", run: renewalsBringBack},
	{name: "LeasesAreListed", run: leasesAreListed},
	{name: "LeaseTimelines", run: leaseTimelines},
	{name: "LeasesAtOnce", run: leasesAtOnce},
	{name: "StepsAdmitNoMore", run: stepsAdmitNoMore, steps: true},
	{name: "StepsEndNoLease", run: stepsEndNoLease, steps: true},
}

// A timeline makes calls on one key and records them, for the report.
type timeline struct {
	s     Subject
	key   string
	start int64 // the first instant; of the first decision, if the clock cannot be set
	last  int64 // the instant of the last decision
	log   []step
}

// A step is one call and its answer.
type step struct {
	what      string // "" for Take
	now, cost int64
	policy    limit.Policy
	answer    limit.Decision
}

var keys atomic.Int64

// newTimeline begins a timeline on a new key, with the clock at its start.
func newTimeline(s Subject) *timeline {
	return &timeline{s: s, key: fmt.Sprintf("limittest:%d", keys.Add(1)), start: s.rewind()}
}

// rewind sets the clock to the start of all timelines, if it can be set. It returns the
// start.
func (s Subject) rewind() int64 {
	if s.Clock == nil {
		return 0
	}
	s.Clock.set(epoch)
	return epoch
}

// step moves the clock, by Clock or Step.
func (s Subject) step(d time.Duration) {
	if s.Clock == nil {
		s.Step(d)
	} else {
		s.Clock.Advance(d)
	}
}

// now is the time of the clock. If the clock cannot be read, it is the instant of the
// store's last decision.
func (l *timeline) now() int64 {
	if l.s.Clock != nil {
		return l.s.Clock.instant()
	}
	return l.last
}

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// note adds a step to the log.
func (l *timeline) note(what string, cost int64, policy limit.Policy, d limit.Decision) {
	if l.s.Clock == nil && d.At != 0 {
		l.last = d.At
		if l.start == 0 {
			l.start = d.At
		}
	}
	l.log = append(l.log, step{what, l.now(), cost, policy, d})
}

// take takes cost now.
func (l *timeline) take(t tb, policy limit.Policy, cost int64) limit.Decision {
	t.Helper()
	d, err := l.s.Store.Take(context.Background(), []byte(l.key), policy, cost)
	l.note("", cost, policy, d)
	if err != nil {
		l.broken(t, "a valid call gets a decision", "Take returned the error %v", err)
	}
	return d
}

// exhaust takes cost until it is denied, and returns the last decision that
// allowed it, if any, and the denial.
func (l *timeline) exhaust(t tb, policy limit.Policy, cost int64) (last, denial limit.Decision) {
	t.Helper()
	for range 20_000 {
		d := l.take(t, policy, cost)
		if !d.Allowed {
			return last, d
		}
		last = d
	}
	l.broken(t, "a limit limits", "20,000 times %d are admitted at one instant", cost)
	return last, last
}

// peek asks without taking, of a limit.ExtendedStore.
func (l *timeline) peek(t tb, policy limit.Policy, cost int64) limit.Decision {
	t.Helper()
	d, err := l.s.Store.(limit.ExtendedStore).Peek(context.Background(), []byte(l.key), policy, cost)
	l.note("peek ", cost, policy, d)
	if err != nil {
		l.broken(t, "a valid call gets a decision", "Peek returned the error %v", err)
	}
	return d
}

// refund gives back what a decision took, to a limit.ExtendedStore.
func (l *timeline) refund(t tb, policy limit.Policy, taken limit.Decision) {
	t.Helper()
	err := l.s.Store.(limit.ExtendedStore).Refund(context.Background(), []byte(l.key), policy, taken)
	l.note("refund of what was taken at "+since(l.start, taken.At)+" ", taken.Charged, policy, limit.Decision{})
	if err != nil {
		l.broken(t, "a valid refund is accepted", "Refund returned the error %v", err)
	}
}

// reset deletes the state of the key, in a limit.ExtendedStore.
func (l *timeline) reset(t tb, policy limit.Policy) {
	t.Helper()
	err := l.s.Store.(limit.ExtendedStore).Reset(context.Background(), []byte(l.key), policy)
	l.note("reset ", 0, policy, limit.Decision{})
	if err != nil {
		l.broken(t, "a valid reset is accepted", "Reset returned the error %v", err)
	}
}

// broken fails the test with the rule, the cause and the timeline.
func (l *timeline) broken(t tb, rule, format string, args ...any) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "rule broken: %s\n", rule)
	fmt.Fprintf(&text, format, args...)
	text.WriteString("\ntimeline (instant since its start, policy, cost, answer):\n")
	log := l.log
	if n := len(log) - 25; n > 0 {
		fmt.Fprintf(&text, "  … %d earlier steps\n", n)
		log = log[n:]
	}
	for _, s := range log {
		fmt.Fprintf(&text, "  %12s  %v  %scost %d", since(l.start, s.now), s.policy, s.what, s.cost)
		if s.answer != (limit.Decision{}) {
			fmt.Fprintf(&text, ": %s", describe(s.answer))
		}
		text.WriteByte('\n')
	}
	t.Fatalf("%s", text.String())
}

// since is an instant relative to the start, in seconds.
func since(start, now int64) string {
	us, sign := now-start, "+"
	if us < 0 {
		us, sign = -us, "-"
	}
	return fmt.Sprintf("%s%d.%06ds", sign, us/1e6, us%1e6)
}

func describe(d limit.Decision) string {
	s := "denied"
	switch {
	case d.Allowed:
		s = "allowed"
	case d.Impossible:
		s = "impossible"
	}
	if d.Wait > 0 {
		s += fmt.Sprintf(" after %v", d.Wait)
	}
	return fmt.Sprintf("%s, limit %d, remaining %d, retry %v, reset %v", s, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter)
}
