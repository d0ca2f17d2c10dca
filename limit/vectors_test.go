package limit_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

//go:generate go test -run ^TestVectors$ -update .

var update = flag.Bool("update", false, "write limit/testdata anew from the code")

// The types below are the format of testdata/*.json: see testdata/README.md and
// testdata/vectors.schema.json.
type (
	vectorFile struct {
		Schema    string           `json:"$schema"`
		Timelines []vectorTimeline `json:"timelines"`
	}
	vectorTimeline struct {
		Name     string         `json:"name"`
		Policies []vectorPolicy `json:"policies"`
		Steps    []vectorStep   `json:"steps"`
	}
	vectorPolicy struct {
		Kind     string         `json:"kind"`
		Name     string         `json:"name"`
		Capacity int64          `json:"capacity,omitempty"`
		Burst    int64          `json:"burst,omitempty"`
		Refill   int64          `json:"refill,omitempty"`
		Per      int64          `json:"per,omitempty"`
		MaxWait  int64          `json:"maxWait,omitempty"`
		Limit    int64          `json:"limit,omitempty"`
		Window   int64          `json:"window,omitempty"`
		Buckets  int            `json:"buckets,omitempty"`
		Parts    []vectorPolicy `json:"parts,omitempty"`
	}
	vectorStep struct {
		Op       string           `json:"op"`
		Now      int64            `json:"now"`
		Policy   int              `json:"policy"`
		Cost     int64            `json:"cost,omitempty"`
		Taken    *vectorTaken     `json:"taken,omitempty"`
		Asks     []vectorAsk      `json:"asks,omitempty"`
		Decision *vectorDecision  `json:"decision,omitempty"`
		Forecast *vectorForecast  `json:"forecast,omitempty"`
		Answers  []vectorDecision `json:"answers,omitempty"`
		Bound    *int             `json:"bound,omitempty"`
		Write    *bool            `json:"write,omitempty"`
		State    []int64          `json:"state,omitempty"`
	}
	vectorTaken struct {
		Charged    int64 `json:"charged"`
		At         int64 `json:"at"`
		ResetAfter int64 `json:"resetAfter"`
	}
	vectorAsk struct {
		Key    string `json:"key"`
		Policy int    `json:"policy"`
		Cost   int64  `json:"cost"`
	}
	vectorDecision struct {
		Allowed    bool   `json:"allowed"`
		Impossible bool   `json:"impossible"`
		Limit      int64  `json:"limit"`
		Remaining  int64  `json:"remaining"`
		RetryAfter int64  `json:"retryAfter"`
		Wait       int64  `json:"wait"`
		ResetAfter int64  `json:"resetAfter"`
		Charged    int64  `json:"charged"`
		At         int64  `json:"at"`
		Policy     string `json:"policy"`
	}
	vectorForecast struct {
		Fits       int64 `json:"fits"`
		NextAfter  int64 `json:"nextAfter"`
		FullAfter  int64 `json:"fullAfter"`
		Impossible bool  `json:"impossible"`
	}
)

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (p vectorPolicy) policy() limit.Policy {
	var q limit.Policy
	switch p.Kind {
	case "token_bucket":
		q = limit.TokenBucket{Capacity: p.Capacity, Refill: p.Refill, Per: us(p.Per)}
	case "pacer":
		q = limit.Pacer{Burst: p.Burst, Refill: p.Refill, Per: us(p.Per), MaxWait: us(p.MaxWait)}
	case "fixed_window":
		q = limit.FixedWindow{Limit: p.Limit, Window: us(p.Window)}
	case "sliding_window":
		q = limit.SlidingWindow{Limit: p.Limit, Window: us(p.Window), Buckets: p.Buckets}
	case "sliding_log":
		q = limit.SlidingLog{Limit: p.Limit, Window: us(p.Window)}
	case "all":
		var parts []limit.Policy
		for _, part := range p.Parts {
			parts = append(parts, part.policy())
		}
		return limit.All(parts...)
	}
	return limit.Named(p.Name, q)
}

func toVector(d limit.Decision) *vectorDecision {
	return &vectorDecision{
		Allowed: d.Allowed, Impossible: d.Impossible, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter.Microseconds(), Wait: d.Wait.Microseconds(), ResetAfter: d.ResetAfter.Microseconds(),
		Charged: d.Charged, At: d.At, Policy: d.Policy,
	}
}

// answer fills in what the code says to the questions of a timeline.
func (l *vectorTimeline) answer(t *testing.T) {
	var plans []*limit.Plan
	for _, p := range l.Policies {
		plans = append(plans, compile(t, p.policy()))
	}
	var state []int64
	var now int64
	store := memory.NewStore(memory.Options{Now: func() int64 { return now }})
	for i := range l.Steps {
		s := &l.Steps[i]
		now = s.Now
		plan := plans[s.Policy]
		var d limit.Decision
		var write bool
		next := slices.Clone(state)
		switch s.Op {
		case "take":
			next, write = plan.Take(&d, next, s.Now, s.Cost)
			s.Decision = toVector(d)
		case "peek":
			plan.Peek(&d, next, s.Now, s.Cost)
			s.Decision = toVector(d)
			continue
		case "forecast":
			f := plan.Forecast(next, s.Now, s.Cost)
			s.Forecast = &vectorForecast{Fits: f.Fits, NextAfter: f.NextAfter.Microseconds(), FullAfter: f.FullAfter.Microseconds(), Impossible: f.Impossible}
			continue
		case "refund":
			next, _, write = plan.Refund(next, s.Now, &limit.Decision{Charged: s.Taken.Charged, At: s.Taken.At, ResetAfter: us(s.Taken.ResetAfter)})
		case "reset":
			state = nil
			continue
		case "take_many", "take_all":
			l.together(t, store, plans, s)
			continue
		default:
			t.Fatalf("operation %q", s.Op)
		}
		if write {
			state = slices.Clone(next)
		}
		s.Write, s.State = &write, slices.Clone(state)
	}
}

func (l *vectorTimeline) together(t *testing.T, store *memory.Store, plans []*limit.Plan, s *vectorStep) {
	var requests []limit.Request
	for _, a := range s.Asks {
		requests = append(requests, limit.Request{Key: []byte(a.Key), Policy: plans[a.Policy], Cost: a.Cost})
	}
	answers := make([]limit.Decision, len(requests))
	if s.Op == "take_many" {
		if err := store.TakeMany(ctx, requests, answers); err != nil {
			t.Fatal(err)
		}
	} else {
		bound, err := store.TakeAll(ctx, requests, answers)
		if err != nil {
			t.Fatal(err)
		}
		s.Bound = &bound
	}
	s.Answers = nil
	for _, d := range answers {
		s.Answers = append(s.Answers, *toVector(d))
	}
}

// TestVectors replays the published timelines, and with -update writes them.
func TestVectors(t *testing.T) {
	if *update {
		for name, timelines := range vectorQuestions(t) {
			f := vectorFile{Schema: "vectors.schema.json", Timelines: timelines}
			if err := os.WriteFile(filepath.Join("testdata", name), encodeVectors(t, f), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, _ := filepath.Glob("testdata/vectors_*.json")
	if len(files) != 7 {
		t.Fatalf("%d files of vectors, want 7", len(files))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f vectorFile
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, l := range f.Timelines {
			published := slices.Clone(l.Steps)
			l.answer(t)
			for i := range published {
				want, _ := json.Marshal(published[i])
				got, _ := json.Marshal(l.Steps[i])
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %s, step %d\ngot       %s\npublished %s", name, l.Name, i, got, want)
					break
				}
			}
		}
	}
}

// encodeVectors writes one step on each line.
func encodeVectors(t *testing.T, f vectorFile) []byte {
	line := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var b bytes.Buffer
	b.WriteString("{\"$schema\":\"" + f.Schema + "\",\n\"timelines\":[\n")
	for i, l := range f.Timelines {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString("{\"name\":" + string(line(l.Name)) + ",\n \"policies\":" + string(line(l.Policies)) + ",\n \"steps\":[\n")
		for j, s := range l.Steps {
			if j > 0 {
				b.WriteString(",\n")
			}
			b.WriteString("  ")
			b.Write(line(s))
		}
		b.WriteString("\n ]}")
	}
	b.WriteString("\n]}\n")
	return b.Bytes()
}
