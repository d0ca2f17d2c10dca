package limittest_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// plain is the simplest store that is right: a map, a lock and a plan. Its hooks
// make it wrong.
type plain struct {
	mu    sync.Mutex
	state map[string][]int64
	clock *limittest.Clock
	fault fault
}

// A fault is one of the defects that stores have been seen to have.
type fault struct {
	name string
	// part is the part of the suite that must catch it.
	part string
	// rule is what the suite must say about it.
	rule string

	key      func(string) string
	now      func(int64) int64
	cost     func(int64) int64
	state    func(before, after []int64, d *limit.Decision, now int64) []int64
	decision func(*limit.Decision)
	unlocked bool

	load     func(before []int64, policy limit.Policy, now int64) []int64
	separate bool // the parts of a composite are keys of their own
	peek     func(s *plain, key string, policy limit.Policy, cost int64)
	refund   func(taken *limit.Decision, now int64)
	noReset  bool
	reversed bool // many are taken from the last to the first
	noUndo   bool // what was charged before one of several is denied stays charged
}

func (s *plain) Take(_ context.Context, key string, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Compile(policy)
	if err != nil {
		return d, err
	}
	if s.fault.cost != nil {
		cost = s.fault.cost(cost)
	}
	if err := limit.CheckCost(cost); err != nil {
		return d, err
	}
	now := s.clock.Now()
	if s.fault.now != nil {
		now = s.fault.now(now)
	}
	if s.fault.key != nil {
		key = s.fault.key(key)
	}
	if parts := plan.Parts(); s.fault.separate && len(parts) > 1 {
		for i, part := range parts {
			if d, err = s.Take(context.Background(), fmt.Sprint(key, "#", i), part, cost); err != nil || !d.Allowed {
				break
			}
		}
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state[key]
	if s.fault.load != nil {
		before = s.fault.load(before, plan.Policy(), now)
	}
	if s.fault.unlocked {
		s.mu.Unlock()
		time.Sleep(time.Microsecond)
		s.mu.Lock()
	}
	after, write := plan.Take(&d, append([]int64(nil), before...), now, cost)
	if !write {
		after = before
	}
	if s.fault.state != nil {
		after = s.fault.state(before, after, &d, now)
	}
	s.state[key] = after
	if s.fault.decision != nil {
		s.fault.decision(&d)
	}
	return d, nil
}

func (s *plain) Peek(_ context.Context, key string, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Compile(policy)
	if err != nil {
		return d, err
	}
	if s.fault.peek != nil {
		s.fault.peek(s, key, policy, cost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	plan.Peek(&d, s.state[key], s.clock.Now(), cost)
	return d, nil
}

func (s *plain) Refund(_ context.Context, key string, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.fault.refund != nil {
		s.fault.refund(&taken, now)
	}
	if state, _, write := plan.Refund(append([]int64(nil), s.state[key]...), now, &taken); write {
		s.state[key] = state
	}
	return nil
}

func (s *plain) Reset(_ context.Context, key string, _ limit.Policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fault.noReset {
		delete(s.state, key)
	}
	return nil
}

func (s *plain) TakeMany(ctx context.Context, requests []limit.Request, answers []limit.Decision) (err error) {
	for _, r := range requests {
		if err := limit.CheckCost(r.Cost); err != nil {
			return err
		}
	}
	for i := range requests {
		if s.fault.reversed {
			i = len(requests) - 1 - i
		}
		r := requests[i]
		if answers[i], err = s.Take(ctx, string(r.Key), r.Policy, r.Cost); err != nil {
			return err
		}
	}
	return nil
}

func (s *plain) TakeAll(_ context.Context, requests []limit.Request, answers []limit.Decision) (bound int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.clock.Now(), maps.Clone(s.state)
	for i, r := range requests {
		plan, err := limit.Compile(r.Policy)
		if err != nil {
			return 0, err
		}
		state, write := plan.Take(&answers[i], slices.Clone(s.state[string(r.Key)]), now, r.Cost)
		if write {
			s.state[string(r.Key)] = state
		}
		if answers[i].Allowed {
			if answers[i].Remaining < answers[bound].Remaining {
				bound = i
			}
			continue
		}
		if !s.fault.noUndo {
			s.state = before
		}
		bound = i
		for j, r := range requests {
			plan, _ := limit.Compile(r.Policy)
			if j != i {
				plan.Peek(&answers[j], s.state[string(r.Key)], now, r.Cost)
			}
			if d := &answers[j]; d.Impossible && !answers[bound].Impossible || d.Impossible == answers[bound].Impossible && d.RetryAfter > answers[bound].RetryAfter {
				bound = j
			}
			answers[j].Allowed, answers[j].Wait = false, 0
		}
		break
	}
	return bound, nil
}

func open(f fault) func(*testing.T) limittest.Subject {
	return func(*testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{Store: &plain{state: map[string][]int64{}, clock: clock, fault: f}, Clock: clock}
	}
}

func TestRightStorePasses(t *testing.T) { limittest.Run(t, open(fault{})) }

var faults = []fault{
	{
		name: "RefillRoundedDown", part: "EveryRateIsExact", rule: "ideal count over any horizon",
		// The parts of a microsecond that are owed are rounded up each time.
		state: func(_, after []int64, d *limit.Decision, _ int64) []int64 {
			if len(after) == 2 && after[1] > 0 && strings.HasPrefix(d.Policy, "token_bucket") {
				return []int64{after[0] + 1, 0}
			}
			return after
		},
	},
	{
		name: "MillisecondClock", part: "RetryAfterIsExact", rule: "RetryAfter is the shortest wait",
		decision: func(d *limit.Decision) {
			d.RetryAfter = (d.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
		},
	},
	{
		name: "RetryTooShort", part: "RetryAfterIsExact", rule: "waiting RetryAfter with no other traffic succeeds",
		decision: func(d *limit.Decision) {
			if d.RetryAfter > time.Microsecond {
				d.RetryAfter -= time.Microsecond
			}
		},
	},
	{
		name: "RetryTooLong", part: "RetryAfterIsExact", rule: "RetryAfter is the shortest wait",
		decision: func(d *limit.Decision) {
			if d.RetryAfter > 0 {
				d.RetryAfter += time.Microsecond
			}
		},
	},
	{
		name: "ImpossibleIsRetryable", part: "ImpossibleIsNotRetryable", rule: "a cost above the ceiling is impossible",
		decision: func(d *limit.Decision) {
			if d.Impossible {
				d.Impossible, d.RetryAfter = false, time.Second
			}
		},
	},
	{
		name: "TimeCreditedTwice", part: "ClockSwings", rule: "a clock that swings never credits the same time twice",
		// What is owed is cut off at the bucket's size whenever the clock is behind,
		// and stored, as if the time that was set back passed again.
		state: func(before, after []int64, d *limit.Decision, now int64) []int64 {
			if !d.Allowed && len(before) == 2 && before[0]-now > 12_000_000 {
				return []int64{now + 5_000_000, 0}
			}
			return after
		},
	},
	{
		name: "FrozenUntilTheClockCatchesUp", part: "ClockSetBack", rule: "locks nobody out",
		state: func(before, after []int64, d *limit.Decision, _ int64) []int64 {
			if !d.Allowed && len(before) == 2 {
				return before // a heal is not written
			}
			return after
		},
		now: latest(),
	},
	{
		name: "NegativeCostMints", part: "InvalidIsRefused", rule: "a cost below 1 is an error",
		cost: func(c int64) int64 { return max(c, 1) },
	},
	{
		name: "DenialCharges", part: "DenialChangesNothing", rule: "a denial changes nothing",
		state: func(before, after []int64, d *limit.Decision, _ int64) []int64 {
			if !d.Allowed && len(after) == 2 {
				return []int64{after[0] + 1000, after[1]}
			}
			return after
		},
	},
	{
		name: "FloatingPoint", part: "Extremes", rule: "no number leaves the exact range",
		decision: func(d *limit.Decision) {
			d.Remaining = int64(float64(float32(d.Remaining)))
		},
	},
	{
		name: "KeysCutAtSeparator", part: "KeysAreApart", rule: "different keys have different limits",
		key: func(k string) string { return strings.ReplaceAll(k, "::", ":") },
	},
	{
		name: "KeysFolded", part: "KeysAreApart", rule: "different keys have different limits",
		key: strings.ToLower,
	},
	{
		name: "NamesIgnored", part: "LimitersAreApart", rule: "limiters share state exactly when they share a name",
		key: func(k string) string { return strings.NewReplacer("one-", "", "two-", "").Replace(k) },
	},
	{
		name: "AnotherWindowIsFresh", part: "WindowsRideOutSwings", rule: "a clock that swings never credits the same time twice",
		load: func(before []int64, policy limit.Policy, now int64) []int64 {
			if w, ok := policy.(limit.FixedWindow); ok && len(before) == 2 && before[0] > now-now%w.Window.Microseconds() {
				return nil
			}
			return before
		},
	},
	{
		name: "DeniedUntilTheWindowEnds", part: "WaitsAreExact", rule: "RetryAfter is the shortest wait",
		decision: func(d *limit.Decision) {
			if d.RetryAfter > 0 && strings.HasPrefix(d.Policy, "sliding_window") {
				d.RetryAfter = d.ResetAfter
			}
		},
	},
	{
		name: "LogSavedWhenItsLengthChanged", part: "NoSpanAdmitsMore", rule: "no window admits more than its limit",
		state: func(before, after []int64, d *limit.Decision, _ int64) []int64 {
			if strings.HasPrefix(d.Policy, "sliding_log") && len(before) == len(after) && len(before) > 0 {
				return before
			}
			return after
		},
	},
	{
		name: "ResetFromTheOldest", part: "WaitsAreExact", rule: "after ResetAfter everything is there again",
		decision: func(d *limit.Decision) { d.ResetAfter /= 2 },
	},
	{name: "PartsChargedOneByOne", part: "CompositesChargeAllOrNone", rule: "a denied part of a composite charges none of the others", separate: true},
	{
		name: "PeekCharges", part: "PeekChangesNothing", rule: "a peek changes nothing",
		peek: func(s *plain, key string, policy limit.Policy, cost int64) {
			s.Take(context.Background(), key, policy, cost)
		},
	},
	{
		name: "RefundOfWhatCameBack", part: "RefundNeverMints", rule: "a refund gives back nothing that has come back by itself",
		refund: func(d *limit.Decision, now int64) { d.At = now },
	},
	{
		name: "RefundOfHalf", part: "RefundIsExact", rule: "a refund gives back exactly what was taken",
		refund: func(d *limit.Decision, _ int64) { d.Charged /= 2 },
	},
	{name: "ResetDoesNothing", part: "ResetForgets", rule: "a reset forgets everything", noReset: true},
	{name: "ManyBackwards", part: "ManyInOrder", rule: "several requests are answered in order", reversed: true},
	{name: "NotUndone", part: "AllOrNone", rule: "a request that is denied charges none of the others", noUndo: true},
	{
		name: "CheckThenSet", part: "Concurrency", rule: "N callers on one key", unlocked: true,
	},
}

// latest is a clock that never goes back, however far it was set back.
func latest() func(int64) int64 {
	var mu sync.Mutex
	high := int64(math.MinInt64)
	return func(now int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		high = max(high, now)
		return high
	}
}

// TestSuiteCatches runs the suite in a process of its own on stores that are
// wrong in one way each: it must fail, and name the rule.
func TestSuiteCatches(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestFaultyStore$/^"+f.part+"$", "-rapid.nofailfile", "-rapid.shrinktime=10ms", "-rapid.checks=30")
			cmd.Env = append(os.Environ(), "LIMITTEST_FAULT="+f.name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the suite passed a store with the fault")
			}
			if !strings.Contains(string(out), "rule broken: ") || !strings.Contains(string(out), f.rule) {
				t.Fatalf("the suite failed without naming the rule %q:\n%s", f.rule, out)
			}
		})
	}
}

func TestFaultyStore(t *testing.T) {
	name := os.Getenv("LIMITTEST_FAULT")
	if name == "" {
		t.Skip("run by TestSuiteCatches")
	}
	for _, f := range faults {
		if f.name == name {
			limittest.Run(t, open(f))
			return
		}
	}
	t.Fatalf("no fault is called %q", name)
}
