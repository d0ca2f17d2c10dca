package cfdo

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/limit"
)

// Whatever is answered is read as a whole or not at all, and what is learned from
// it never makes the arithmetic fail.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"answers":[[1,0,10,9,0,0,1000,1795219200000000,0,1795219200001000,0]]}`,
		`{"answers":[[0,0,5,0,99,0,1000,1795219200000000,1,1,2,3,1,4,5]]}`,
		`{"answers":["overloaded"]}`, `{"answers":["apart"]}`, `{"answers":[[0,[],[]]]}`, `{"answers":[[]]}`, `{`, `[]`,
		`{"answers":[[0,[0,0,1,0,0,0,0,1,0],[0,1,1,0,0,0,0,1,0]]]}`,
	} {
		f.Add([]byte(seed))
	}
	policies := []limit.Policy{
		limit.TokenBucket{Capacity: 10, Refill: 7, Per: 3 * time.Second},
		limit.SlidingWindow{Limit: 10, Window: 3 * time.Second, Buckets: 3},
		limit.All(limit.SlidingLog{Limit: 5, Window: time.Second}, limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Second}),
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		answers, err := parseAnswers(text, 1)
		if err != nil {
			return
		}
		for _, p := range policies {
			plan, err := limit.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range []operation{opTake, opPeek, opReset, opAll} {
				readOne(t, op, plan, answers)
			}
		}
	})
}

func readOne(t *testing.T, op operation, plan *limit.Plan, answers []json.RawMessage) {
	m := denialcache.New(denialcache.Options{Keys: 16})
	var c call
	c.begin(op)
	for range 1 + int(op/opAll) {
		c.asks = append(c.asks, ask{plan: plan, cost: 1})
	}
	rest, err := c.read(answers)
	if len(rest) != 0 {
		t.Fatalf("%d answers are left", len(rest))
	}
	if err != nil {
		return
	}
	for _, a := range c.asks {
		var d limit.Decision
		q, _ := m.Get(&d, []byte("k"), plan, 1)
		if a.whole {
			q.Put(&a.answer, a.words)
		}
		m.Get(&d, []byte("k"), plan, 1)
		if d := a.answer; op != opReset && (d.Limit < 0 || d.Remaining < 0 || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Policy == "") {
			t.Fatalf("%s is read as %+v", answers, d)
		}
	}
}
