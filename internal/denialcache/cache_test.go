package denialcache_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/limit"
)

// store is a shared store with one key. Its clock is ahead of the local one.
type store struct {
	clock int64
	state []int64
}

// skew is how far the store's clock is ahead.
const skew = 1_795_219_200_000_007

func (s *store) take(plan *limit.Plan, cost int64) (d limit.Decision, state []int64) {
	s.state, _ = plan.Take(&d, s.state, s.clock, cost)
	return d, s.state
}

func (s *store) peek(plan *limit.Plan, cost int64) (d limit.Decision) {
	plan.Peek(&d, s.state, s.clock, cost)
	return d
}

func compile(t testing.TB, p limit.Policy) *limit.Plan {
	t.Helper()
	plan, err := limit.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// policies are pairs of the same shape: the second is the first with a raised limit.
var policies = map[string][2]limit.Policy{
	"TokenBucket": {
		limit.TokenBucket{Capacity: 10, Refill: 7, Per: 3 * time.Second}, limit.TokenBucket{Capacity: 20, Refill: 7, Per: 3 * time.Second},
	},
	"Pacer": {
		limit.Pacer{Burst: 2, Refill: 5, Per: time.Second, MaxWait: time.Second}, limit.Pacer{Burst: 9, Refill: 5, Per: time.Second, MaxWait: time.Second},
	},
	"FixedWindow":   {limit.FixedWindow{Limit: 10, Window: 2 * time.Second}, limit.FixedWindow{Limit: 30, Window: 2 * time.Second}},
	"SlidingWindow": {limit.SlidingWindow{Limit: 10, Window: 2 * time.Second, Buckets: 4}, limit.SlidingWindow{Limit: 30, Window: 2 * time.Second, Buckets: 4}},
	"SlidingLog":    {limit.SlidingLog{Limit: 10, Window: 2 * time.Second}, limit.SlidingLog{Limit: 30, Window: 2 * time.Second}},
	"All": {
		limit.All(limit.Named("burst", limit.TokenBucket{Capacity: 5, Refill: 3, Per: time.Second}), limit.Named("log", limit.SlidingLog{Limit: 12, Window: 10 * time.Second})),
		limit.All(limit.Named("burst", limit.TokenBucket{Capacity: 9, Refill: 3, Per: time.Second}), limit.Named("log", limit.SlidingLog{Limit: 30, Window: 10 * time.Second})),
	},
}

// If the store answers at once and has no other clients, the cache gives the answer of the
// store in every field, for every cost and both policies.
func TestCacheGivesTheAnswerOfTheStore(t *testing.T) {
	for name, pair := range policies {
		t.Run(name, func(t *testing.T) {
			plans := []*limit.Plan{compile(t, pair[0]), compile(t, pair[1])}
			hits := int64(0)
			rapid.Check(t, func(t *rapid.T) {
				now := int64(0)
				m := denialcache.New(denialcache.Options{Now: func() int64 { return now }, MaxAge: time.Hour})
				s := &store{}
				for range 60 {
					now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3000), rapid.Int64Range(0, 700_000)).Draw(t, "advance")
					s.clock = skew + now
					plan := plans[rapid.IntRange(0, 9).Draw(t, "plan")/8]
					cost := rapid.OneOf(rapid.Int64Range(1, 12), rapid.Just(int64(math.MaxInt64))).Draw(t, "cost")
					var d limit.Decision
					q, denied := m.Get(&d, []byte("k"), plan, cost)
					if denied {
						if want := s.peek(plan, cost); d != want {
							t.Fatalf("%v, cost %d: the cache answers\n%+v\nthe store answers\n%+v", plan, cost, d, want)
						}
						continue
					}
					d, state := s.take(plan, cost)
					q.Put(&d, state)
					var again limit.Decision
					if _, denied := m.Get(&again, []byte("k"), plan, cost); !d.Allowed && !denied {
						t.Fatalf("%v, cost %d: a denial is not cached: %+v", plan, cost, d)
					}
				}
				hits += m.Stats().Hits
			})
			if hits == 0 {
				t.Error("nothing was ever cached")
			}
		})
	}
}

// With a slow store that has other clients too, the cache denies nothing that the store
// would allow, and no wait is shorter than the true one.
func TestCacheNeverDeniesTooLong(t *testing.T) {
	for name, pair := range policies {
		t.Run(name, func(t *testing.T) {
			plan := compile(t, pair[0])
			rapid.Check(t, func(t *rapid.T) {
				now := int64(0)
				m := denialcache.New(denialcache.Options{Now: func() int64 { return now }, MaxAge: time.Hour})
				s := &store{}
				advance := func(most int64) {
					now += rapid.Int64Range(0, most).Draw(t, "advance")
					s.clock = skew + now
				}
				for range 60 {
					advance(400_000)
					cost := rapid.Int64Range(1, 12).Draw(t, "cost")
					if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
						s.take(plan, cost)
						continue
					}
					var d limit.Decision
					q, denied := m.Get(&d, []byte("k"), plan, cost)
					if denied {
						if true := s.peek(plan, cost); true.Allowed || d.Remaining < 0 {
							t.Fatalf("cost %d: the cache answers\n%+v\nthe store answers\n%+v", cost, d, true)
						}
						continue
					}
					advance(1000) // there
					d, state := s.take(plan, cost)
					state = append([]int64(nil), state...)
					advance(1000) // and back
					q.Put(&d, state)
				}
			})
		})
	}
}

// The end of a denial is computed from the instant at which the miss was sent. RetryAfter
// is computed from the instant of the answer, and so is long enough.
func TestRoundTripTimeIsRoundedToTheSafeSide(t *testing.T) {
	now := int64(0)
	m := denialcache.New(denialcache.Options{Now: func() int64 { return now }})
	plan := compile(t, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second})
	s := &store{clock: skew + 500}
	s.take(plan, 1)
	var d limit.Decision
	q, _ := m.Get(&d, []byte("k"), plan, 1)
	now = 1000 // the round trip: 500 µs each way
	d, state := s.take(plan, 1)
	if d.RetryAfter != time.Second {
		t.Fatalf("%+v", d)
	}
	q.Put(&d, state)

	now = 400_000
	if _, denied := m.Get(&d, []byte("k"), plan, 1); !denied || d.RetryAfter != time.Second-399*time.Millisecond || d.At != skew+500+399_000 {
		t.Errorf("%v, %+v", denied, d)
	}
	now = 999_999
	if _, denied := m.Get(&d, []byte("k"), plan, 1); !denied || d.RetryAfter != 1001*time.Microsecond {
		t.Errorf("%v, %+v: 1 µs before a second has passed since the call", denied, d)
	}
	now = 1_000_000
	if _, denied := m.Get(&d, []byte("k"), plan, 1); denied {
		t.Errorf("%+v: a second has passed since the call", d)
	}
}

// still is a clock that stands still: a denial lasts as long as its test.
func still() int64 { return 0 }

func deny(t *testing.T, m *denialcache.Cache, key string, plan *limit.Plan) denialcache.Miss {
	t.Helper()
	s := &store{clock: skew}
	s.take(plan, plan.Compiled().Ceiling)
	var d limit.Decision
	q, denied := m.Get(&d, []byte(key), plan, 1)
	if denied {
		t.Fatalf("%s is denied by an empty cache: %+v", key, d)
	}
	d, state := s.take(plan, 1)
	q.Put(&d, state)
	return q
}

func TestInvalidateDiscardsAnswersUnderWay(t *testing.T) {
	m := denialcache.New(denialcache.Options{Now: still})
	plan := compile(t, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour})
	q := deny(t, m, "k", plan)
	var d limit.Decision
	if _, denied := m.Get(&d, []byte("k"), plan, 1); !denied {
		t.Fatal("not cached")
	}
	if _, denied := m.Get(&d, []byte("k"), plan, 1); !denied {
		t.Error("the key in a buffer is a different key")
	}
	m.Invalidate([]byte("k"), plan)
	if _, denied := m.Get(&d, []byte("k"), plan, 1); denied {
		t.Error("cached after Invalidate")
	}
	s := &store{clock: skew}
	s.take(plan, 3)
	d, state := s.take(plan, 1)
	q.Put(&d, state) // called before Invalidate, answered after it
	if _, denied := m.Get(&d, []byte("k"), plan, 1); denied {
		t.Error("an answer from before Invalidate is cached after it")
	}
	deny(t, m, "k", plan)
	if _, denied := m.Get(&d, []byte("k"), plan, 1); !denied {
		t.Error("nothing is cached any more")
	}
}

func TestOldDenialsExpire(t *testing.T) {
	now := int64(5)
	m := denialcache.New(denialcache.Options{Now: func() int64 { return now }, MaxAge: time.Second})
	plan := compile(t, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour})
	deny(t, m, "k", plan)
	var d limit.Decision
	for _, c := range []struct {
		at     int64
		denied bool
	}{{4, false}, {5, true}, {1_000_004, true}, {1_000_005, false}} {
		now = c.at
		if _, denied := m.Get(&d, []byte("k"), plan, 1); denied != c.denied {
			t.Errorf("at %d µs: denied %v", now, denied)
		}
	}
}

// Each key has its own state, and so has each shape of one key.
func TestKeysAndShapesAreSeparate(t *testing.T) {
	m := denialcache.New(denialcache.Options{Now: still})
	plan := compile(t, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour})
	deny(t, m, "k", plan)
	var d limit.Decision
	if _, denied := m.Get(&d, []byte("l"), plan, 1); denied {
		t.Error("another key is denied")
	}
	if _, denied := m.Get(&d, []byte("k"), compile(t, limit.FixedWindow{Limit: 3, Window: time.Hour}), 1); denied {
		t.Error("another shape is denied")
	}
}

// A flood of keys takes bounded memory; a full cache stores no new keys.
func TestMemoryIsBounded(t *testing.T) {
	m := denialcache.New(denialcache.Options{Keys: 100, Now: still})
	plan := compile(t, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour})
	var d limit.Decision
	for i := range 5000 {
		deny(t, m, fmt.Sprint(i), plan)
	}
	if n := m.Stats().Keys; n < 100 || n > 200 {
		t.Errorf("%d keys are cached", n)
	}
	if _, denied := m.Get(&d, []byte("0"), plan, 1); !denied {
		t.Error("the flood evicted what was cached before")
	}

	// Long states count for more.
	m = denialcache.New(denialcache.Options{Keys: 100, Now: still})
	plan = compile(t, limit.SlidingWindow{Limit: 10, Window: time.Hour, Buckets: 600})
	for i := range 5000 {
		deny(t, m, fmt.Sprint(i), plan)
	}
	if n := m.Stats().Keys; n > 4 {
		t.Errorf("%d keys of 602 words are cached", n)
	}
}

func TestHitsAllocateNothing(t *testing.T) {
	for name, pair := range policies {
		m := denialcache.New(denialcache.Options{Now: still})
		plan := compile(t, pair[0])
		deny(t, m, "k", plan)
		key := []byte("k")
		var d limit.Decision
		for _, cost := range []int64{1, math.MaxInt64} {
			if n := testing.AllocsPerRun(1000, func() {
				if _, denied := m.Get(&d, key, plan, cost); !denied {
					t.Fatal("not cached")
				}
			}); n != 0 {
				t.Errorf("%s, cost %d: %v allocations", name, cost, n)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	m := denialcache.New(denialcache.Options{Keys: 50})
	plan := compile(t, limit.All(limit.SlidingLog{Limit: 5, Window: time.Minute}, limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Second}))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := &store{clock: skew}
			for j := range 2000 {
				key := fmt.Sprint("k", (i+j)%100)
				var d limit.Decision
				q, denied := m.Get(&d, []byte(key), plan, 1+int64(j%7))
				if denied != (d != limit.Decision{}) || denied && d.Allowed {
					t.Errorf("%v, %+v", denied, d)
				}
				d, state := s.take(plan, 1)
				q.Put(&d, state)
				if j%50 == 0 {
					m.Invalidate([]byte(key), plan)
				}
			}
		})
	}
	wg.Wait()
}

func TestPutOnTheZeroMissDoesNothing(t *testing.T) {
	var q denialcache.Miss
	q.Put(&limit.Decision{}, nil)
}

func TestInvalidOptionsPanic(t *testing.T) {
	for _, o := range []denialcache.Options{{Keys: -1}, {MaxAge: -1}} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "denialcache: Options") {
					t.Errorf("%+v: panic %q", o, text)
				}
			}()
			denialcache.New(o)
		}()
	}
}

func BenchmarkHit(b *testing.B) {
	m := denialcache.New(denialcache.Options{})
	plan := compile(b, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour})
	s := &store{clock: skew}
	s.take(plan, 1)
	key := []byte("wskit:chat:u:acme:ann:chat.send")
	var d limit.Decision
	q, _ := m.Get(&d, key, plan, 1)
	d, state := s.take(plan, 1)
	q.Put(&d, state)
	b.ReportAllocs()
	for b.Loop() {
		m.Get(&d, key, plan, 1)
	}
}
