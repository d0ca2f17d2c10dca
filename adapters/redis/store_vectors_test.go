package redis_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// The format of limit/testdata/vectors_*.json.
type (
	vectors struct {
		Timelines []struct {
			Name     string
			Policies []vectorPolicy
			Steps    []vectorStep
		}
	}
	vectorPolicy struct {
		Kind, Name                                   string
		Capacity, Burst, Refill, Per, MaxWait, Limit int64
		Window                                       int64
		Buckets                                      int
		Parts                                        []vectorPolicy
	}
	vectorStep struct {
		Op        string
		Now, Cost int64
		Policy    int
		Taken     struct{ Charged, At, ResetAfter int64 }
		Asks      []struct {
			Key    string
			Policy int
			Cost   int64
		}
		Decision *vectorDecision
		Forecast *struct {
			Fits, NextAfter, FullAfter int64
			Impossible                 bool
		}
		Answers []vectorDecision
		Bound   int
		State   []int64
	}
	vectorDecision struct {
		Allowed, Impossible                                         bool
		Limit, Remaining, RetryAfter, Wait, ResetAfter, Charged, At int64
		Policy                                                      string
	}
)

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (p vectorPolicy) policy() limit.Policy {
	var q limit.Policy
	switch p.Kind {
	case "token_bucket":
		q = limit.TokenBucket{Capacity: p.Capacity, Refill: p.Refill, Per: micros(p.Per)}
	case "pacer":
		q = limit.Pacer{Burst: p.Burst, Refill: p.Refill, Per: micros(p.Per), MaxWait: micros(p.MaxWait)}
	case "fixed_window":
		q = limit.FixedWindow{Limit: p.Limit, Window: micros(p.Window)}
	case "sliding_window":
		q = limit.SlidingWindow{Limit: p.Limit, Window: micros(p.Window), Buckets: p.Buckets}
	case "sliding_log":
		q = limit.SlidingLog{Limit: p.Limit, Window: micros(p.Window)}
	case "all":
		var parts []limit.Policy
		for _, part := range p.Parts {
			parts = append(parts, part.policy())
		}
		return limit.All(parts...)
	}
	return limit.Named(p.Name, q)
}

func (d vectorDecision) decision() limit.Decision {
	return limit.Decision{
		Allowed: d.Allowed, Impossible: d.Impossible, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: micros(d.RetryAfter), Wait: micros(d.Wait), ResetAfter: micros(d.ResetAfter),
		Charged: d.Charged, At: d.At, Policy: d.Policy,
	}
}

// The published timelines, number for number: what is answered, and what the script
// keeps.
func TestStoreReplaysTheVectors(t *testing.T) {
	server := redistest.Start(t)
	client := storeClient(t, server.Addr)
	files, _ := filepath.Glob("../../limit/testdata/vectors_*.json")
	if len(files) != 7 {
		t.Fatalf("%d files of vectors, want 7", len(files))
	}
	steps := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f vectors
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		for i, l := range f.Timelines {
			var plans []*limit.Plan
			for _, p := range l.Policies {
				plan, err := limit.Compile(p.policy())
				if err != nil {
					t.Fatal(err)
				}
				plans = append(plans, plan)
			}
			var now int64
			s := redis.NewStore(client, redis.Options{Now: func() int64 { return now }, RememberedKeys: -1})
			key := filepath.Base(name) + strconv.Itoa(i) + ":"
			for j, step := range l.Steps {
				now = step.Now
				steps++
				if !step.replay(t, s, client, key, plans) {
					t.Fatalf("%s: %s, step %d", name, l.Name, j)
				}
			}
		}
	}
	t.Logf("%d steps", steps)
}

func (v *vectorStep) replay(t *testing.T, s *redis.Store, client *goredis.Client, key string, plans []*limit.Plan) (ok bool) {
	t.Helper()
	plan := plans[v.Policy]
	var d limit.Decision
	var err error
	switch v.Op {
	case "take":
		d, err = s.Take(t.Context(), key, plan, v.Cost)
	case "peek", "forecast":
		d, err = s.Peek(t.Context(), key, plan, v.Cost)
	case "refund":
		err = s.Refund(t.Context(), key, plan, limit.Decision{Charged: v.Taken.Charged, At: v.Taken.At, ResetAfter: micros(v.Taken.ResetAfter)})
	case "reset":
		err = s.Reset(t.Context(), key, plan)
	case "take_many", "take_all":
		var requests []limit.Request
		for _, a := range v.Asks {
			requests = append(requests, limit.Request{Key: []byte(key + a.Key), Policy: plans[a.Policy], Cost: a.Cost})
		}
		answers := make([]limit.Decision, len(requests))
		bound := 0
		if v.Op == "take_many" {
			err = s.TakeMany(t.Context(), requests, answers)
		} else {
			bound, err = s.TakeAll(t.Context(), requests, answers)
		}
		if bound != v.Bound {
			t.Errorf("bound %d, want %d", bound, v.Bound)
			return false
		}
		for i, want := range v.Answers {
			if answers[i] != want.decision() {
				t.Errorf("answer %d\ngot  %+v\nwant %+v", i, answers[i], want.decision())
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
	if v.Decision != nil && d != v.Decision.decision() {
		t.Errorf("%s\ngot  %+v\nwant %+v", v.Op, d, v.Decision.decision())
		return false
	}
	if w := v.Forecast; w != nil {
		want := limit.Forecast{Fits: w.Fits, NextAfter: micros(w.NextAfter), Impossible: w.Impossible, FullAfter: micros(w.FullAfter), Policy: d.Policy}
		if got := d.Forecast(v.Cost); got != want {
			t.Errorf("forecast\ngot  %+v\nwant %+v", got, want)
			return false
		}
	}
	if v.Op != "take" && v.Op != "refund" {
		return true
	}
	kept, err := client.Get(t.Context(), key+"~"+plan.Shape()).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Error(err)
		return false
	}
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
