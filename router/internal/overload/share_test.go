package overload

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A share spends what there is, unless all get all they want.
func TestFairSharesSpendTheBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		came := make([]uint32, 1+random.IntN(20))
		all := 0.0
		for i := range came {
			came[i] = uint32(random.ExpFloat64() * 10)
			all += float64(came[i])
		}
		budget := random.Float64() * 1.5 * all
		given := append([]uint32(nil), came...)
		share, spent := fair(given, budget), 0.0
		for _, n := range came {
			spent += min(float64(n), share)
		}
		if want := min(budget, all); math.Abs(spent-want) > 1e-6 {
			t.Fatalf("%v with %v: the share %v spends %v, want %v", came, budget, share, spent, want)
		}
	}
}

// Over many windows a subject gets its share, whole or not, and one that sends less gets all.
func TestCountsByWindow(t *testing.T) {
	const windows = 1000
	for _, share := range []float64{0.3, 1, 2.5} {
		for sent := range 5 {
			var b table
			got := 0
			for w := range windows {
				for range sent {
					if b.count(7, time.Duration(w)*window+era, share) != beyond {
						got++
					}
				}
			}
			if want := min(share, float64(sent)) * windows; math.Abs(float64(got)-want) > windows/10 {
				t.Errorf("%d of %d messages in %d windows are within a share of %v, want %v", got, sent*windows, windows, share, want)
			}
		}
	}
}
