package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// An admission is what was admitted of one key at an instant and not refunded.
type admission struct{ at, cost int64 }

// over says how the admissions of a key, the newest of which was made now, exceed the
// policy: "" if they do not. It adds up what was admitted in spans of time and has
// nothing of the algorithms.
func over(p limit.Policy, admitted []admission, now int64) string {
	since := func(first int64) (sum int64) {
		for _, a := range admitted {
			if a.at >= first {
				sum += a.cost
			}
		}
		return sum
	}
	switch p := p.(type) {
	case limit.TokenBucket:
		for _, a := range admitted {
			if n := since(a.at); (n-p.Capacity)*p.Per.Microseconds() > p.Refill*(now-a.at) {
				return fmt.Sprintf("%v admitted %d in %d µs", p, n, now-a.at)
			}
		}
	case limit.FixedWindow:
		if n := since(now - now%p.Window.Microseconds()); n > p.Limit {
			return fmt.Sprintf("%v admitted %d", p, n)
		}
	case limit.SlidingWindow:
		width := p.Window.Microseconds() / int64(p.Buckets)
		if n := since(now - now%width - int64(p.Buckets-1)*width); n > p.Limit {
			return fmt.Sprintf("%v admitted %d in %d sub-windows", p, n, p.Buckets)
		}
	case limit.SlidingLog:
		if n := since(now - p.Window.Microseconds() + 1); n > p.Limit {
			return fmt.Sprintf("%v admitted %d", p, n)
		}
	default:
		return fmt.Sprintf("no oracle for %v", p)
	}
	return ""
}

// full are policies with their parts, for the oracle.
var full = [][]limit.Policy{
	{limit.TokenBucket{Capacity: 5, Refill: 1, Per: 700 * time.Millisecond}},
	{limit.TokenBucket{Capacity: 7, Refill: 1999, Per: 1000 * time.Second}}, // a fraction that needs a word of its own
	{limit.FixedWindow{Limit: 6, Window: 3 * time.Second}},
	{limit.SlidingWindow{Limit: 6, Window: 4 * time.Second, Buckets: 4}},
	{limit.SlidingLog{Limit: 5, Window: 3 * time.Second}},
	{limit.SlidingLog{Limit: 20, Window: 6 * time.Second}}, // of which shared states keep less
	{limit.TokenBucket{Capacity: 5, Refill: 2, Per: time.Second}, limit.FixedWindow{Limit: 9, Window: 5 * time.Second}},
	{limit.SlidingLog{Limit: 12, Window: 5 * time.Second}, limit.SlidingLog{Limit: 5, Window: time.Second}, limit.TokenBucket{Capacity: 9, Refill: 3, Per: time.Second}},
}

// subject is a key under one of the policies in full.
type subject struct {
	request  limit.Ask
	parts    []limit.Policy
	admitted []admission
}

func subjects(t *testing.T, perPolicy int) (all []*subject) {
	for i, parts := range full {
		plan := compile(t, limit.All(parts...))
		for n := range perPolicy {
			all = append(all, &subject{request: limit.Ask{Key: fmt.Append(nil, "subject", i, ".", n), Policy: plan}, parts: parts})
		}
	}
	return all
}

// However a key goes between state of its own and state that it shares,
// while room comes and goes, it is never admitted more than its policy says.
func TestNeverMoreWhileRoomComesAndGoes(t *testing.T) {
	var shared, evicted int64
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 37))
		clock := limittest.NewClock()
		s := memory.NewStore(memory.Options{MaxKeys: 8 + rng.IntN(50), Now: clock.Now})
		all := subjects(t, 2)
		filler := compile(t, limit.FixedWindow{Limit: 1, Window: time.Second})
		admit := func(one *subject, d limit.Decision) {
			if d.Charged == 0 {
				return
			}
			one.admitted = append(slices.DeleteFunc(one.admitted, func(a admission) bool {
				return a.at < clock.Now().UnixMicro()-20e6 // longer than any span that a policy here speaks of
			}), admission{clock.Now().UnixMicro(), d.Charged})
			for _, p := range one.parts {
				if wrong := over(p, one.admitted, clock.Now().UnixMicro()); wrong != "" {
					t.Fatalf("seed %d: %s: %s", seed, one.request.Key, wrong)
				}
			}
		}
		for range 2000 {
			var some []*subject
			var asks []limit.Ask
			for range 1 + rng.IntN(3) {
				one := all[rng.IntN(len(all))]
				one.request.Cost = 1 + rng.Int64N(rng.Int64N(4)+1)
				some, asks = append(some, one), append(asks, one.request)
			}
			one, r := some[0], asks[0]
			switch rng.IntN(8) {
			case 0, 1:
				clock.Advance(time.Duration(rng.IntN(400)) * time.Millisecond)
				if rng.IntN(4) == 0 { // the store keeps what has run out for a minute
					clock.Advance(time.Duration(55+rng.IntN(10)) * time.Second)
				}
			case 2: // others take the room, for a second at most
				for i := range rng.IntN(40) {
					s.Take(ctx, fmt.Append(nil, "filler", i), filler, 1)
				}
			case 3: // and give it back
				for i := range rng.IntN(40) {
					s.Reset(ctx, fmt.Append(nil, "filler", i), filler)
				}
			case 4:
				if err := s.TakeMany(ctx, asks); err != nil {
					t.Fatal(err)
				}
				for i, a := range asks {
					d := a.Decision
					admit(some[i], d)
				}
			case 5:
				if _, err := s.TakeAll(ctx, asks); err != nil {
					t.Fatal(err)
				}
				for i, a := range asks {
					d := a.Decision
					admit(some[i], d)
				}
			case 6: // a refund at the instant of the charge, perhaps after room has come
				d, _ := s.Take(ctx, r.Key, r.Policy, r.Cost)
				admit(one, d)
				if d.Charged > 0 {
					for i := range rng.IntN(40) {
						s.Reset(ctx, fmt.Append(nil, "filler", i), filler)
					}
					if d, _ := s.Take(ctx, r.Key, r.Policy, 1); d.Allowed {
						admit(one, d)
					}
					s.Refund(ctx, r.Key, r.Policy, d)
					i := slices.Index(one.admitted, admission{clock.Now().UnixMicro(), d.Charged})
					one.admitted = slices.Delete(one.admitted, i, i+1)
				}
			default:
				peeked, _ := s.Peek(ctx, r.Key, r.Policy, r.Cost)
				d, _ := s.Take(ctx, r.Key, r.Policy, r.Cost)
				admit(one, d)
				if peeked.Allowed != d.Allowed || peeked.RetryAfter != d.RetryAfter {
					t.Fatalf("seed %d: Peek says %+v, Take %+v", seed, peeked, d)
				}
			}
		}
		st := s.Stats()
		shared, evicted = shared+st.Overflowed, evicted+st.Evicted
	}
	if shared < 5_000 || evicted < 500 {
		t.Errorf("%d decisions on shared states and %d states that ran out: the test is too easy", shared, evicted)
	}
}

// The same with many callers at one instant, at which nothing comes back.
func TestNeverMoreAtOnceWhileRoomComesAndGoes(t *testing.T) {
	clock := limittest.NewClock()
	for range 10 {
		s := memory.NewStore(memory.Options{MaxKeys: 8, Now: clock.Now})
		all := subjects(t, 1)
		filler := compile(t, limit.FixedWindow{Limit: 1, Window: time.Second})
		for i := range 16 {
			s.Take(ctx, fmt.Append(nil, "filler", i), filler, 1)
		}
		admitted := make([]atomic.Int64, len(all))
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for range 1000 {
					i, j := rng.IntN(len(all)), rng.IntN(len(all))
					a, b := all[i].request, all[j].request
					a.Cost, b.Cost = 1, 1
					switch rng.IntN(4) {
					case 0:
						s.Take(ctx, fmt.Append(nil, "filler", rng.IntN(16)), filler, 1)
					case 1:
						s.Reset(ctx, fmt.Append(nil, "filler", rng.IntN(16)), filler)
					case 2:
						d, _ := s.Take(ctx, a.Key, a.Policy, 1)
						admitted[i].Add(d.Charged)
					default:
						asks := []limit.Ask{a, b}
						s.TakeAll(ctx, asks)
						admitted[i].Add(asks[0].Decision.Charged)
						admitted[j].Add(asks[1].Decision.Charged)
					}
				}
			})
		}
		wg.Wait()
		for i, one := range all {
			n := admitted[i].Load()
			if most := one.request.Policy.(*limit.Plan).Compiled().Ceiling; n > most {
				t.Fatalf("%s: %d of %d admitted at one instant", one.request.Key, n, most)
			}
		}
	}
}

// What was charged to a shared state is given back to it, and nothing else
// is.
func TestRefundGoesWhereItWasCharged(t *testing.T) {
	for i, parts := range full {
		clock := limittest.NewClock()
		s := memory.NewStore(memory.Options{MaxKeys: 8, Now: clock.Now})
		plan, filler := compile(t, limit.All(parts...)), compile(t, limit.FixedWindow{Limit: 1, Window: time.Second})
		used := func() int64 {
			d, _ := s.Peek(ctx, []byte("k"), plan, 1)
			return plan.Compiled().Ceiling - d.Remaining
		}
		own, _ := s.Take(ctx, []byte("k"), plan, 4)
		s.Reset(ctx, []byte("k"), plan)
		for n := range 10 {
			s.Take(ctx, fmt.Append(nil, "filler", n), filler, 1)
		}
		shared, _ := s.Take(ctx, []byte("k"), plan, 3)
		s.Take(ctx, []byte("k"), plan, 1)
		if used() != 4 || s.Stats().Overflowed < 2 {
			t.Fatalf("policy %d: %d used, want 4 of a shared state", i, used())
		}
		if s.Refund(ctx, []byte("k"), plan, own); used() != 4 {
			t.Errorf("policy %d: %d of 4 used after a refund of what was charged elsewhere", i, used())
		}
		for n := range 10 {
			s.Reset(ctx, fmt.Append(nil, "filler", n), filler)
		}
		if s.Refund(ctx, []byte("k"), plan, shared); used() != 1 {
			t.Errorf("policy %d: %d used after 4 were taken and 3 refunded", i, used())
		}
	}
}

// What is denied together leaves a shared state as it was.
func TestDeniedTogetherLeavesSharedStates(t *testing.T) {
	for i, parts := range full {
		s := memory.NewStore(memory.Options{MaxKeys: 1, Now: limittest.NewClock().Now})
		plan := compile(t, limit.All(parts...))
		s.Take(ctx, []byte("fills the store"), compile(t, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}), 1)
		k := limit.Ask{Key: []byte("k"), Policy: plan, Cost: 1}
		s.Take(ctx, k.Key, plan, 1)
		before, _ := s.Peek(ctx, []byte("k"), plan, 1)
		asks := []limit.Ask{k, k, k, k, k, k, k, {Key: k.Key, Policy: plan, Cost: plan.Compiled().Ceiling}}
		if bound, err := s.TakeAll(ctx, asks); err != nil || asks[bound].Decision.Allowed {
			t.Fatalf("policy %d: %+v, %v", i, asks, err)
		}
		if after, _ := s.Peek(ctx, []byte("k"), plan, 1); after != before {
			t.Errorf("policy %d: %+v before, %+v after", i, before, after)
		}
	}
}
