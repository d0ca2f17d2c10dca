package redis_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/vectors"
	"github.com/wskit/wskit/limit"
)

// The published timelines, number for number: what is answered, and what the script
// keeps.
func TestStoreReplaysTheVectors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := storeClient(t, server.Addr)
	steps := 0
	for name, f := range vectors.Read(t, "../../limit/testdata") {
		for i, l := range f.Timelines {
			plans := l.Plans(t)
			var now int64
			s := redis.NewStore(client, redis.StoreOptions{Now: func() int64 { return now }, RememberedKeys: -1})
			key := name + strconv.Itoa(i) + ":"
			for j, step := range l.Steps {
				now = step.Now
				steps++
				if !replay(t, &step, s, client, key, plans) {
					t.Fatalf("%s: %s, step %d", name, l.Name, j)
				}
			}
		}
	}
	t.Logf("%d steps", steps)
}

func replay(t *testing.T, v *vectors.Step, s *redis.Store, client *goredis.Client, key string, plans []*limit.Plan) (ok bool) {
	t.Helper()
	plan := plans[v.Policy]
	var d limit.Decision
	var err error
	switch v.Op {
	case "take":
		d, err = s.Take(t.Context(), []byte(key), plan, v.Cost)
	case "peek", "forecast":
		d, err = s.Peek(t.Context(), []byte(key), plan, v.Cost)
	case "refund":
		err = s.Refund(t.Context(), []byte(key), plan, v.Taken.Decision())
	case "reset":
		err = s.Reset(t.Context(), []byte(key), plan)
	case "take_many", "take_all":
		var asks []limit.Ask
		for _, a := range v.Asks {
			asks = append(asks, limit.Ask{Key: []byte(key + a.Key), Policy: plans[a.Policy], Cost: a.Cost})
		}
		bound := 0
		if v.Op == "take_many" {
			err = s.TakeMany(t.Context(), asks)
		} else {
			bound, err = s.TakeAll(t.Context(), asks)
		}
		if v.Bound != nil && bound != *v.Bound {
			t.Errorf("bound %d, want %d", bound, *v.Bound)
			return false
		}
		for i, want := range v.Answers {
			if got := *vectors.DecisionOf(asks[i].Decision); got != want {
				t.Errorf("answer %d\ngot  %+v\nwant %+v", i, got, want)
				return false
			}
		}
	default:
		t.Errorf("operation %q", v.Op)
		return false
	}
	if err != nil {
		t.Error(err)
		return false
	}
	if got := vectors.DecisionOf(d); v.Decision != nil && *got != *v.Decision {
		t.Errorf("%s\ngot  %+v\nwant %+v", v.Op, got, v.Decision)
		return false
	}
	if got := vectors.ForecastOf(d.Forecast(v.Cost)); v.Forecast != nil && *got != *v.Forecast {
		t.Errorf("forecast\ngot  %+v\nwant %+v", got, v.Forecast)
		return false
	}
	if v.Op != "take" && v.Op != "refund" {
		return true
	}
	kept, err := client.Get(t.Context(), key+"~"+plan.Shape()).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Error(err)
		return false
	}
	kept, _, _ = strings.Cut(kept, "!") // of a reset
	var state []int64
	for word := range strings.FieldsSeq(kept) {
		n, _ := strconv.ParseInt(word, 10, 64)
		state = append(state, n)
	}
	want := v.State
	for len(want) > 0 && want[len(want)-1] == 0 {
		want = want[:len(want)-1]
	}
	if len(state)+len(want) > 0 && !reflect.DeepEqual(state, want) {
		t.Errorf("after %s the state is %v, want %v", v.Op, state, want)
		return false
	}
	return true
}
