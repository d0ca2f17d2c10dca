package histogram

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Each duration is in the first bucket whose bound it does not exceed.
func TestDurationsAreInTheirBucket(t *testing.T) {
	check := func(d time.Duration, s Snapshot) {
		t.Helper()
		for i, n := range s.Counts {
			fits := i == len(s.Bounds()) || d <= s.Bounds()[i]
			exceeds := i == 0 || d > s.Bounds()[i-1]
			if want := int64(0); fits && exceeds {
				if want = 1; n != want {
					t.Errorf("%v: bucket %d has %d, want 1", d, i, n)
				}
			} else if n != want {
				t.Errorf("%v: bucket %d has %d, want 0", d, i, n)
			}
		}
		if s.Count() != 1 {
			t.Errorf("%v: Count is %d", d, s.Count())
		}
	}
	all := []time.Duration{-time.Second, 0, 1, 4000, 4001, 8000, 8001, time.Millisecond, 33 * time.Second, time.Hour, 1<<63 - 1}
	for range 1000 {
		all = append(all, time.Duration(rand.Int64N(int64(time.Minute))>>rand.IntN(30)))
	}
	for _, d := range all {
		var h, moved Histogram
		h.Add(d)
		check(d, h.Snapshot())
		var l Local
		l.Add(d)
		l.Move(&moved)
		l.Move(&moved) // has nothing left
		check(d, moved.Snapshot())
		if moved.Snapshot().Sum != d {
			t.Errorf("the sum of %v is %v", d, moved.Snapshot().Sum)
		}
		if d > 1<<40 {
			continue
		}
		var long Long
		d *= 1000
		long.Add(d)
		if s := long.Snapshot(); d%250_000 == 0 {
			check(d, s)
			if s.Sum != d {
				t.Errorf("the sum of %v is %v", d, s.Sum)
			}
		}
	}
}

// What was moved is what was counted, whatever is counted again afterwards.
func TestLocalIsUsedAgain(t *testing.T) {
	var h, direct Histogram
	var l Local
	for range 200 {
		for range rand.IntN(10) {
			d := time.Duration(rand.Int64N(int64(time.Second)))
			l.Add(d)
			direct.Add(d)
		}
		l.Move(&h)
	}
	got, want := h.Snapshot(), direct.Snapshot()
	for i := range want.Counts {
		if got.Counts[i] != want.Counts[i] {
			t.Errorf("bucket %d has %d, want %d", i, got.Counts[i], want.Counts[i])
		}
	}
	if got.Sum != want.Sum {
		t.Errorf("the sum is %v, want %v", got.Sum, want.Sum)
	}
}
