package limit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/vectors"
)

// vectorQuestions are the timelines without their answers, except that some
// questions depend on the answers before them.
func vectorQuestions(t *testing.T) map[string][]vectors.Timeline {
	bucket := func(name string, c, r, per int64) vectors.Policy {
		return vectors.Policy{Kind: "token_bucket", Name: name, Capacity: c, Refill: r, Per: per}
	}
	fixed := func(name string, n, w int64) vectors.Policy {
		return vectors.Policy{Kind: "fixed_window", Name: name, Limit: n, Window: w}
	}
	sliding := func(name string, n, w int64, buckets int) vectors.Policy {
		return vectors.Policy{Kind: "sliding_window", Name: name, Limit: n, Window: w, Buckets: buckets}
	}
	log := func(name string, n, w int64) vectors.Policy {
		return vectors.Policy{Kind: "sliding_log", Name: name, Limit: n, Window: w}
	}
	pacer := func(name string, b, r, per, wait int64) vectors.Policy {
		return vectors.Policy{Kind: "pacer", Name: name, Burst: b, Refill: r, Per: per, MaxWait: wait}
	}
	all := func(name string, parts ...vectors.Policy) vectors.Policy {
		return vectors.Policy{Kind: "all", Name: name, Parts: parts}
	}
	calendar := func(name string, n int64, period, location string, from time.Time) vectors.Timeline {
		p := vectors.Policy{Kind: "calendar", Name: name, Limit: n, Period: period, Location: location}
		now := from.UnixMicro() - 1
		compiled := compile(t, p.Policy()).Compiled()
		at := now
		for range 4 {
			at = compiled.Numbers(nil, at)[1] // the start before
		}
		for len(p.Starts) < 32 {
			p.Starts = append(p.Starts, at)
			at = compiled.Numbers(nil, at)[3] // the next start
		}
		return scriptFrom(t, now, p)
	}
	day := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	const s, most = 1_000_000, int64(1) << 51
	return map[string][]vectors.Timeline{
		"vectors_token_bucket.json": {
			script(t, bucket("10 per second", 10, 10, s)), script(t, bucket("7 per 3 s", 4, 7, 3*s)),
			script(t, bucket("100,000 per second", 200, 100_000, s)), script(t, bucket("coprime with the clock", 5, 999_983, s)),
			script(t, bucket("the largest", most/s, 1, s)), script(t, bucket("one a day", 3, 1, 86400*s)),
			script(t, bucket("before", 10, 1, s), bucket("lower", 3, 1, s), bucket("faster", 20, 7, s)),
		},
		"vectors_pacer.json": {
			script(t, pacer("one at a time", 1, 10, s, s)), script(t, pacer("7 per 3 s", 2, 7, 3*s, 1_500_001)),
		},
		"vectors_fixed_window.json": {
			script(t, fixed("10 per second", 10, s)), script(t, fixed("odd", 5, 7_000_003)), script(t, fixed("a day", 1000, 86400*s)),
			script(t, fixed("the largest", most, most)), script(t, fixed("before", 10, s), fixed("lower", 3, s), fixed("longer", 10, 3*s)),
		},
		"vectors_calendar.json": {
			calendar("UTC", 10, "day", "UTC", day(2028, 2, 29)),
			calendar("a day of 25 hours", 100, "day", "Europe/Berlin", day(2026, 10, 24)),
			calendar("a day of 23 hours", 100, "day", "America/New_York", day(2027, 3, 14)),
			calendar("a day without midnight", 7, "day", "America/Sao_Paulo", day(2018, 11, 3)),
			calendar("a date that was skipped", 7, "day", "Pacific/Apia", day(2011, 12, 30)),
			calendar("weeks", 1000, "week", "Australia/Lord_Howe", day(2026, 10, 1)),
			calendar("months", 1_000_000, "month", "Europe/Berlin", day(2026, 9, 30)),
		},
		"vectors_sliding_window.json": {
			script(t, sliding("10 per second", 10, s, 1)), script(t, sliding("in 6 parts", 100, 60*s, 6)), script(t, sliding("odd", 7, 7_000_003, 1)),
			script(t, sliding("a day by the hour", 600_000, 86400*s, 24)), script(t, sliding("before", 10, 3*s, 3), sliding("lower", 4, 3*s, 3), sliding("longer", 10, 6*s, 3)),
		},
		"vectors_sliding_log.json": {
			script(t, log("5 per second", 5, s)), script(t, log("odd", 7, 7_000_003)), script(t, log("before", 10, s), log("lower", 3, s), log("longer", 10, 4*s)),
		},
		"vectors_all.json": {
			script(t, all("two buckets", bucket("burst", 5, 5, s), bucket("rate", 20, 1, s))),
			script(t, all("every kind", log("log", 7, 2*s), bucket("bucket", 6, 7, 3*s), sliding("sliding", 12, 3*s, 3), fixed("fixed", 30, 10*s))),
			script(t, all("with a pacer", pacer("pacer", 2, 2, s, 2*s), fixed("fixed", 9, 5*s))),
		},
		"vectors_together.json": {several(t, bucket("user", 5, 1, s), fixed("tenant", 8, 10*s), all("both", log("log", 3, s), bucket("rate", 9, 2, s)))},
	}
}

// script asks everything of a policy: a burst, the exact wait, what is
// impossible, clocks that go back, refunds; and if there are more policies, the
// same while they change. Then it goes on at random.
func script(t *testing.T, policies ...vectors.Policy) vectors.Timeline {
	return scriptFrom(t, 1_795_219_200_000_007, policies...)
}

func scriptFrom(t *testing.T, now int64, policies ...vectors.Policy) vectors.Timeline {
	l := vectors.Timeline{Name: policies[0].Name, Policies: policies}
	plan := compile(t, policies[0].Policy())
	ceiling, policy := plan.Compiled().Ceiling, 0
	advance := func(by int64) { now = min(max(now+by, 0), 1<<52-1) }
	ask := func(op string, cost int64) *vectors.Decision {
		l.Steps = append(l.Steps, vectors.Step{Op: op, Now: now, Policy: policy, Cost: cost})
		answer(t, &l)
		return l.Steps[len(l.Steps)-1].Decision
	}
	refund := func(d *vectors.Decision) {
		l.Steps = append(l.Steps, vectors.Step{Op: "refund", Now: now, Policy: policy, Taken: &vectors.Taken{Charged: d.Charged, At: d.At}})
		answer(t, &l)
	}
	half := max(1, ceiling/2)
	first := ask("take", 1)
	ask("peek", half)
	ask("forecast", 1)
	ask("take", half)
	denied := ask("take", ceiling)
	ask("take", ceiling+1) // impossible
	ask("take", 1<<53-1)
	advance(denied.RetryAfter - 1)
	ask("take", ceiling)
	advance(1)
	taken := ask("take", ceiling)
	refund(taken)
	ask("peek", ceiling)
	taken = ask("take", half)
	refund(first)
	advance(taken.ResetAfter / 2)
	refund(taken)
	ask("forecast", half)
	advance(taken.ResetAfter)
	full := ask("take", ceiling)
	for _, back := range []int64{1, 1_000_000, 60_000_000} { // ridden out
		advance(-back)
		ask("take", 1)
		ask("forecast", 1)
		advance(back)
	}
	advance(-(60_000_001 + full.ResetAfter + 86_400_000_000)) // healed
	ask("peek", 1)
	ask("take", 1)
	refund(full)
	advance(full.ResetAfter + 60_000_001)
	forgotten := ask("take", half)
	l.Steps = append(l.Steps, vectors.Step{Op: "reset", Now: now, Policy: policy})
	ask("take", 1)
	refund(forgotten) // by the reset
	advance(1)
	a, b := ask("take", half), ask("take", 1)
	refund(a)
	advance(full.ResetAfter / 20)
	ask("take", half)
	refund(b)
	ask("peek", 1)

	rng := rand.New(rand.NewPCG(uint64(len(policies)), uint64(ceiling)))
	span := max(full.ResetAfter, 2)
	for range 40 {
		policy = rng.IntN(len(policies))
		switch rng.IntN(5) {
		case 0:
			advance(rng.Int64N(span))
		case 1:
			advance(-rng.Int64N(min(span, 60_000_000)))
		default:
			advance(rng.Int64N(span/8 + 1))
		}
		cost := 1 + rng.Int64N(half)
		switch op := rng.IntN(10); {
		case op < 7:
			if d := ask("take", cost); d.Allowed {
				taken = d
			}
		case op < 8:
			ask("peek", cost)
		default:
			refund(taken)
		}
	}
	return l
}

// several takes of several subjects at once.
func several(t *testing.T, policies ...vectors.Policy) vectors.Timeline {
	l := vectors.Timeline{Name: "several subjects", Policies: policies}
	now := int64(1_795_219_200_000_007)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		step := vectors.Step{Op: []string{"take_many", "take_all"}[rng.IntN(2)], Now: now}
		for i := range 1 + rng.IntN(4) {
			policy := rng.IntN(len(policies))
			step.Asks = append(step.Asks, vectors.Ask{Key: string(rune('a'+i%3)) + policies[policy].Name, Policy: policy, Cost: 1 + rng.Int64N(3)})
		}
		if rng.IntN(12) == 0 {
			step.Asks[0].Cost = 100 // impossible
		}
		l.Steps = append(l.Steps, step)
		now += rng.Int64N(900_000) - 50_000
	}
	answer(t, &l)
	return l
}
