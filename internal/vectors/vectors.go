// Package vectors reads the published decision vectors, limit/testdata/vectors_*.json,
// for the tests of implementations that must decide alike. Their format is described next to
// them, in README.md and vectors.schema.json.
package vectors

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
)

// files is how many files there are: a test that finds fewer looks in the wrong place.
const files = 8

// File is one file of timelines.
type File struct {
	Schema    string     `json:"$schema"`
	Timelines []Timeline `json:"timelines"`
}

// Timeline is what happens to one state, step by step.
type Timeline struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies"`
	Steps    []Step   `json:"steps"`
}

// Policy is a policy, spans of time in microseconds.
type Policy struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Capacity int64    `json:"capacity,omitempty"`
	Burst    int64    `json:"burst,omitempty"`
	Refill   int64    `json:"refill,omitempty"`
	Per      int64    `json:"per,omitempty"`
	MaxWait  int64    `json:"maxWait,omitempty"`
	Limit    int64    `json:"limit,omitempty"`
	Window   int64    `json:"window,omitempty"`
	Buckets  int      `json:"buckets,omitempty"`
	Period   string   `json:"period,omitempty"`
	Location string   `json:"location,omitempty"`
	Starts   []int64  `json:"starts,omitempty"`
	Parts    []Policy `json:"parts,omitempty"`
}

// Step is a question and its published answer.
type Step struct {
	Op       string     `json:"op"`
	Now      int64      `json:"now"`
	Policy   int        `json:"policy"`
	Cost     int64      `json:"cost,omitempty"`
	Taken    *Taken     `json:"taken,omitempty"`
	Asks     []Ask      `json:"asks,omitempty"`
	Decision *Decision  `json:"decision,omitempty"`
	Forecast *Forecast  `json:"forecast,omitempty"`
	Answers  []Decision `json:"answers,omitempty"`
	Bound    *int       `json:"bound,omitempty"`
	Write    *bool      `json:"write,omitempty"`
	State    []int64    `json:"state,omitempty"`
}

// Taken is the charge that a refund gives back.
type Taken struct {
	Charged int64 `json:"charged"`
	At      int64 `json:"at"`
}

// Ask is one of several costs.
type Ask struct {
	Key    string `json:"key"`
	Policy int    `json:"policy"`
	Cost   int64  `json:"cost"`
}

// Decision is a limit.Decision, spans of time in microseconds.
type Decision struct {
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

// Forecast is a limit.Forecast, spans of time in microseconds.
type Forecast struct {
	Fits       int64 `json:"fits"`
	NextAfter  int64 `json:"nextAfter"`
	FullAfter  int64 `json:"fullAfter"`
	Impossible bool  `json:"impossible"`
}

// Read reads all files of a folder. The keys are their names.
func Read(t testing.TB, folder string) map[string]File {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, "vectors_*.json"))
	if len(names) != files {
		t.Fatalf("%d files of vectors in %s, want %d", len(names), folder, files)
	}
	all := map[string]File{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f File
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[filepath.Base(name)] = f
	}
	return all
}

// Plans compiles the policies of the timeline.
func (l *Timeline) Plans(t testing.TB) (plans []*limit.Plan) {
	t.Helper()
	for _, p := range l.Policies {
		plan, err := limit.Compile(p.Policy())
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	return plans
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// Policy is the policy that is described.
func (p Policy) Policy() limit.Policy {
	var q limit.Policy
	switch p.Kind {
	case "token_bucket":
		q = limit.TokenBucket{Capacity: p.Capacity, Refill: p.Refill, Per: micros(p.Per)}
	case "pacer":
		q = limit.Pacer{Burst: p.Burst, Refill: p.Refill, Per: micros(p.Per), MaxWait: micros(p.MaxWait)}
	case "fixed_window":
		q = limit.FixedWindow{Limit: p.Limit, Window: micros(p.Window)}
	case "calendar":
		q = p.calendar()
	case "sliding_window":
		q = limit.SlidingWindow{Limit: p.Limit, Window: micros(p.Window), Buckets: p.Buckets}
	case "sliding_log":
		q = limit.SlidingLog{Limit: p.Limit, Window: micros(p.Window)}
	case "all":
		var parts []limit.Policy
		for _, part := range p.Parts {
			parts = append(parts, part.Policy())
		}
		return limit.All(parts...)
	}
	return limit.Named(p.Name, q)
}

func (p Policy) calendar() limit.Calendar {
	location, err := time.LoadLocation(p.Location)
	if err != nil {
		panic(err)
	}
	periods := map[string]limit.Period{"day": limit.Day, "week": limit.Week, "month": limit.Month}
	return limit.Calendar{Limit: p.Limit, Period: periods[p.Period], Location: location}
}

// Decision is the charge, as [limit.Plan.Refund] takes it.
func (v *Taken) Decision() limit.Decision {
	return limit.Decision{Charged: v.Charged, At: v.At}
}

// DecisionOf describes a decision.
func DecisionOf(d limit.Decision) *Decision {
	return &Decision{
		Allowed: d.Allowed, Impossible: d.Impossible, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter.Microseconds(), Wait: d.Wait.Microseconds(), ResetAfter: d.ResetAfter.Microseconds(),
		Charged: d.Charged, At: d.At, Policy: d.Policy,
	}
}

// ForecastOf describes a forecast.
func ForecastOf(f limit.Forecast) *Forecast {
	return &Forecast{Fits: f.Fits, NextAfter: f.NextAfter.Microseconds(), FullAfter: f.FullAfter.Microseconds(), Impossible: f.Impossible}
}
