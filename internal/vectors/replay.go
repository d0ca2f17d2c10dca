package vectors

import (
	"context"
	"slices"
	"testing"

	"github.com/wskit/wskit/limit"
)

// Store is what a step can be replayed on.
type Store interface {
	limit.Store
	limit.ExtendedStore
	limit.ManyTaker
}

// Replay makes the call of a step on a store, with the plans of its timeline, under keys that begin with key, and
// compares the answers. It returns whether all are the same.
func (v *Step) Replay(t testing.TB, s Store, key string, plans []*limit.Plan) bool {
	t.Helper()
	ctx, plan := context.Background(), plans[v.Policy]
	var d limit.Decision
	var err error
	switch v.Op {
	case "take":
		d, err = s.Take(ctx, []byte(key), plan, v.Cost)
	case "peek", "forecast":
		d, err = s.Peek(ctx, []byte(key), plan, v.Cost)
	case "refund":
		err = s.Refund(ctx, []byte(key), plan, v.Taken.Decision())
	case "reset":
		err = s.Reset(ctx, []byte(key), plan)
	case "take_many", "take_all":
		return v.replaySeveral(t, s, key, plans)
	default:
		t.Errorf("operation %q", v.Op)
		return false
	}
	if err != nil {
		t.Error(err)
		return false
	}
	if got := DecisionOf(d); v.Decision != nil && *got != *v.Decision {
		t.Errorf("%s\ngot  %+v\nwant %+v", v.Op, got, v.Decision)
		return false
	}
	if got := ForecastOf(d.Forecast(v.Cost)); v.Forecast != nil && *got != *v.Forecast {
		t.Errorf("forecast\ngot  %+v\nwant %+v", got, v.Forecast)
		return false
	}
	return true
}

func (v *Step) replaySeveral(t testing.TB, s Store, key string, plans []*limit.Plan) bool {
	t.Helper()
	var asks []limit.Ask
	for _, a := range v.Asks {
		asks = append(asks, limit.Ask{Key: []byte(key + a.Key), Policy: plans[a.Policy], Cost: a.Cost})
	}
	bound := 0
	var err error
	if v.Op == "take_many" {
		err = s.TakeMany(context.Background(), asks)
	} else {
		bound, err = s.TakeAll(context.Background(), asks)
	}
	if err != nil || v.Bound != nil && bound != *v.Bound {
		t.Errorf("bound %d, %v", bound, err)
		return false
	}
	for i, want := range v.Answers {
		if got := *DecisionOf(asks[i].Decision); got != want {
			t.Errorf("answer %d\ngot  %+v\nwant %+v", i, got, want)
			return false
		}
	}
	return true
}

// Kept returns whether numbers are the state that the step leaves; zeros at the end do not count.
func (v *Step) Kept(numbers []int64) bool {
	want := v.State
	for len(want) > 0 && want[len(want)-1] == 0 {
		want = want[:len(want)-1]
	}
	return slices.Equal(numbers, want)
}
