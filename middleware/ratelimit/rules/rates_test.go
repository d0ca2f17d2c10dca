package rules

import (
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// Every rate has its own limiter, the same one while it is kept, and no number of rates makes
// more than are allowed.
func TestLimitersAreBounded(t *testing.T) {
	l := limiters{base: limit.New(memory.NewStore(), bucket{speed{1, day}, 1}.policy())}
	for i := range int64(17_000) {
		rate := bucket{speed{i/200 + 1, time.Minute}, i%200 + 1}
		made, err := l.of(rate)
		if err != nil {
			t.Fatal(err)
		}
		d, err := made.Peek(t.Context(), limit.KeyOf("ann"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := d.Policy, (limit.TokenBucket{Capacity: rate.burst, Refill: rate.tokens, Per: 60e9}).String(); got != want {
			t.Fatalf("the limiter of %+v has the policy %s, want %s", rate, got, want)
		}
		if again, _ := l.of(rate); again != made {
			t.Fatalf("%+v has two limiters", rate)
		}
	}
	n := 0
	for i := range l.parts {
		n += len(*l.parts[i].Load())
	}
	if most := len(l.parts) * maxPerPart; n > most {
		t.Errorf("%d limiters are kept, want at most %d", n, most)
	}
}
