package limittest

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
)

// Every target compares the integers with the rational model on a timeline read
// from the input, 8 bytes a step: four bits of scale, four of operation, one
// byte of cost and six of clock, which may go back.

func FuzzTokenBucket(f *testing.F) {
	seed(f, int64(10), int64(1), int64(1_000_000))
	seed(f, int64(3), int64(7), int64(3_000_000))
	seed(f, int64(1), int64(999_983), int64(1_000_000))
	f.Fuzz(func(t *testing.T, capacity, refill, per int64, steps []byte) {
		replay(t, limit.TokenBucket{Capacity: capacity, Refill: refill, Per: span(t, per)}, steps)
	})
}

func FuzzPacer(f *testing.F) {
	seed(f, int64(1), int64(7), int64(3_000_000), int64(2_000_001))
	f.Fuzz(func(t *testing.T, burst, refill, per, wait int64, steps []byte) {
		replay(t, limit.Pacer{Burst: burst, Refill: refill, Per: span(t, per), MaxWait: span(t, wait)}, steps)
	})
}

func FuzzFixedWindow(f *testing.F) {
	seed(f, int64(10), int64(7_000_003))
	seed(f, int64(1)<<51, int64(1)<<51)
	f.Fuzz(func(t *testing.T, n, window int64, steps []byte) {
		replay(t, limit.FixedWindow{Limit: n, Window: span(t, window)}, steps)
	})
}

func FuzzSlidingWindow(f *testing.F) {
	seed(f, int64(10), int64(7_000_003), int64(0))
	seed(f, int64(97), int64(60_000_000), int64(6))
	f.Fuzz(func(t *testing.T, n, window, buckets int64, steps []byte) {
		if buckets > 100 {
			t.Skip()
		}
		replay(t, limit.SlidingWindow{Limit: n, Window: span(t, window), Buckets: int(buckets)}, steps)
	})
}

func FuzzSlidingLog(f *testing.F) {
	seed(f, int64(10), int64(7_000_003))
	f.Fuzz(func(t *testing.T, n, window int64, steps []byte) {
		replay(t, limit.SlidingLog{Limit: n, Window: span(t, window)}, steps)
	})
}

func FuzzAll(f *testing.F) {
	seed(f, int64(10), int64(7_000_003), byte(0b11111))
	seed(f, int64(5), int64(1_000_000), byte(0b01101))
	f.Fuzz(func(t *testing.T, n, window int64, which byte, steps []byte) {
		w := span(t, window)
		var parts []limit.Policy
		for i, p := range []limit.Policy{
			limit.SlidingLog{Limit: n, Window: w},
			limit.TokenBucket{Capacity: n, Refill: 7, Per: w},
			limit.SlidingWindow{Limit: 3 * (n & 0xffff), Window: 3 * w, Buckets: 3},
			limit.SlidingLog{Limit: 2 * (n & 0xffff), Window: 5 * w},
			limit.FixedWindow{Limit: 5, Window: w},
		} {
			if which>>i&1 == 1 {
				parts = append(parts, p)
			}
		}
		replay(t, limit.All(parts...), steps)
	})
}

// seed adds timelines to the numbers of a policy: a burst, one with the clock
// going back, and one with refunds.
func seed(f *testing.F, numbers ...any) {
	for _, steps := range [][]byte{
		[]byte("\x00\x01\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x07\x01\x40\x42\x0f\x00\x00\x00\x00\xff\x00\x00\x00\x00\x00\x00"),
		[]byte("\x00\xff\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\x00\x01\x00\x00\x00\xff\xff\xff\x00\x01\x00\x10\x00\x00\x00\x00"),
		[]byte("\x00\x03\x00\x00\x00\x00\x00\x00\xe0\x00\x00\x00\x05\x00\x00\x00\x00\x01\x00\x00\x10\x00\x00\x00\xe0\x01\x00\x00\x00\x00\x00\x00\xc0\x02\x00\x00\x00\x00\x00\x00"),
	} {
		f.Add(append(slices.Clone(numbers), steps)...)
	}
}

func span(t *testing.T, us int64) time.Duration {
	if us < 0 || us > math.MaxInt64/10_000 {
		t.Skip()
	}
	return time.Duration(us) * time.Microsecond
}

// replay runs a timeline through the plan and the model.
func replay(t *testing.T, policy limit.Policy, steps []byte) {
	plan, err := limit.Compile(policy)
	if err != nil {
		t.Skip()
	}
	model := newModel(policy)
	var state []int64
	var reset int64
	var last limit.Decision // the latest decision with a charge
	now := int64(1) << 50
	for range 200 {
		if len(steps) < 8 {
			return
		}
		word := int64(binary.LittleEndian.Uint64(steps))
		steps = steps[8:]
		scale, op, cost := word&15, word>>4&15, max(word>>8&0xff, 1)
		if cost == 0xff {
			cost = plan.Compiled().Ceiling
		}
		now = min(max(now+word>>16>>(2*scale), 0), 1<<52-1)
		before := slices.Clone(state)
		var d, want limit.Decision
		switch {
		case op >= 14: // refund
			next, _, write := plan.Refund(slices.Clone(state), now, reset, &last)
			model.Refund(now, last)
			if write {
				state = next
			}
			last = limit.Decision{}
			fallthrough // and peek
		case op >= 11:
			if op == 11 {
				if plan.Reset(state, now) > 0 {
					reset = now
				}
				state = nil
				model.Reset(now, policy)
			}
			plan.Peek(&d, state, now, cost)
			want = model.Peek(now, cost)
		default:
			next, write := plan.Take(&d, slices.Clone(state), now, cost)
			want = model.Take(now, cost)
			if write {
				state = next
			}
			if d.Allowed {
				last = d
			}
		}
		if d != want {
			t.Fatalf("%v at %d, operation %d, cost %d, state %v, then %v\ngot  %+v\nwant %+v", policy, now, op, cost, before, state, d, want)
		}
		for _, n := range state {
			if n < 0 || n >= 1<<53 {
				t.Fatalf("%v at %d: the state %v left the exact range", policy, now, state)
			}
		}
	}
}
