package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// policy is the text of a plan's policy.
type policy string

func (p policy) String() string { return string(p) }

func tokenBucket(t *testing.T, capacity, refill int64, per time.Duration) *Plan {
	t.Helper()
	plan, err := TokenBucket(policy(fmt.Sprintf("token_bucket(%d,%d/%v)", capacity, refill, per)), capacity, refill, per)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func fixedWindow(t *testing.T, limit int64, window time.Duration) *Plan {
	t.Helper()
	plan, err := FixedWindow(policy(fmt.Sprintf("fixed_window(%d/%v)", limit, window)), limit, window)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// fill uses all capacity of s.
func fill(s *Engine, plan *Plan) {
	var d Answer
	for i := 0; s.space.Used() < s.options.MaxKeys; i++ {
		s.Take(&d, s.Hash(fmt.Append(nil, "fill", i)), plan, 1)
	}
}

// The memory of shared states is bounded for all scopes together, the first scopes leave
// some for later ones, and all of it is freed in the end.
func TestSharedStatesAreBoundedAndFreed(t *testing.T) {
	const keys = 100_000
	now := int64(1e15)
	s := New(Options{MaxKeys: keys, Shards: 64, Now: func() int64 { return now }})
	fill(s, fixedWindow(t, 1, 2*time.Second))
	var d Answer
	var plans []*Plan
	for i := range 20 {
		plan := tokenBucket(t, int64(2+i), 1, time.Second).Within("limiter")
		plans = append(plans, plan)
		s.Take(&d, s.Hash([]byte("k")), plan, 1)
		if all := s.shared.of(plan); all == nil || all.n < leastShared {
			t.Fatalf("scope %d has no %d shared states", i, leastShared)
		}
		if i > 0 && s.shared.of(plan).n > s.shared.of(plans[i-1]).n {
			t.Errorf("scope %d has more shared states than the one before", i)
		}
	}
	if n := s.shared.of(plans[0]).n; n != keys*sharedBytes/2/8 {
		t.Errorf("the first scope has %d shared states, want those of half of the memory", n)
	}
	if n := s.shared.of(plans[7]).n; n < 1000 {
		t.Errorf("the eighth scope has %d shared states", n)
	}
	if most := 20 * leastShared * 8; s.shared.budget < -most {
		t.Errorf("%d bytes too many are taken, where the least of every scope takes %d", -s.shared.budget, most)
	}

	now += 100e6
	for i := 0; i < 10_000 && s.shared.of(plans[0]) != nil; i++ { // some still find the table full, and share a state
		now += 10_000
		s.Take(&d, s.Hash(fmt.Append(nil, "later", i)), plans[0], 1)
	}
	if s.shared.of(plans[0]) != nil {
		t.Error("shared states are kept after nothing in them counts")
	}
	now += 100e6
	fill(s, fixedWindow(t, 1, 2*time.Second))
	for i := 0; s.shared.of(plans[1]) == nil; i++ {
		s.Take(&d, s.Hash(fmt.Append(nil, "k", i)), plans[1], 1)
	}
	if n := s.shared.of(plans[1]).n; n < keys*sharedBytes/4/8 {
		t.Errorf("%d shared states, want those of a quarter of the memory: others have not freed theirs", n)
	}
}

// Policies of one name and different numbers do not share states.
func TestPoliciesOfOneNameShareNoStates(t *testing.T) {
	now := int64(1e15)
	s := New(Options{MaxKeys: 1, Now: func() int64 { return now }})
	fill(s, fixedWindow(t, 1, 24*time.Hour))
	slow := tokenBucket(t, 1, 1, 1000*time.Hour).Named("burst")
	quick := tokenBucket(t, 1, 1, time.Second).Named("burst")
	var d Answer
	for i := range 5000 {
		s.Take(&d, s.Hash(fmt.Append(nil, i)), slow, 1)
		s.Take(&d, s.Hash(fmt.Append(nil, i)), quick, 1)
	}
	now += 3600e6
	if s.Take(&d, s.Hash([]byte("another")), slow, 1); d.Allowed {
		t.Error("a policy of the same name has changed the shared states")
	}
}

// Shared states may be made and dropped at any time, and no key is ever
// admitted more than its policy allows.
func TestNeverMoreWhileSharedStatesAreMadeAndDropped(t *testing.T) {
	const window, most = 4e6, 3
	var clock, made atomic.Int64
	clock.Store(1e15)
	s := New(Options{MaxKeys: 4, Shards: 4, Now: clock.Load})
	filler := fixedWindow(t, 1, time.Second)
	plan := fixedWindow(t, most, window*time.Microsecond)
	type admission struct {
		key    int
		window int64
	}
	admitted := make([][]admission, 4)
	var wg sync.WaitGroup
	for g := range admitted {
		wg.Go(func() {
			var last *cells
			answers := make([]Answer, 2)
			for i := range 5000 {
				a, b := i%5, (i+g+1)%5
				clock.Add(10e3)
				var d Answer
				s.Take(&d, s.Hash(fmt.Append(nil, "fill", i%16)), filler, 1)
				if s.Take(&d, s.Hash(fmt.Append(nil, a)), plan, 1); d.Charged > 0 {
					admitted[g] = append(admitted[g], admission{a, d.At / window})
				}
				TakeAll([]Ask{{s, s.Hash(fmt.Append(nil, a)), plan, 1, &answers[0]}, {s, s.Hash([]byte(fmt.Sprint(b))), plan, 1, &answers[1]}})
				if answers[0].Charged > 0 {
					admitted[g] = append(admitted[g], admission{a, answers[0].At / window}, admission{b, answers[1].At / window})
				}
				if all := s.shared.of(plan); all != nil && all != last {
					last = all
					made.Add(1)
				}
				if i%10 == 9 {
					clock.Add(20e6)
					s.shared.relieve(plan, clock.Load())
				}
			}
		})
	}
	wg.Wait()
	count := map[admission]int{}
	for _, a := range slices.Concat(admitted...) {
		if count[a]++; count[a] > most {
			t.Fatalf("key %d was admitted more than %d in a window", a.key, most)
		}
	}
	if made.Load() < 20 {
		t.Errorf("shared states were made %d times: the test is too easy", made.Load())
	}
}
