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
	"github.com/wskit/wskit/internal/vectors"
	"github.com/wskit/wskit/limit"
)

//go:generate go test -run ^TestVectors$ -update .

var update = flag.Bool("update", false, "write limit/testdata anew from the code")

// answer fills in what the code says to the questions of a timeline.
func answer(t *testing.T, l *vectors.Timeline) {
	plans := l.Plans(t)
	var state []int64
	var now, reset int64
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.UnixMicro(now) }})
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
			s.Decision = vectors.DecisionOf(d)
		case "peek":
			plan.Peek(&d, next, s.Now, s.Cost)
			s.Decision = vectors.DecisionOf(d)
			continue
		case "forecast":
			plan.Peek(&d, next, s.Now, s.Cost)
			s.Forecast = vectors.ForecastOf(d.Forecast(s.Cost))
			continue
		case "refund":
			taken := s.Taken.Decision()
			next, _, write = plan.Refund(next, s.Now, reset, &taken)
		case "reset":
			if plan.Reset(state, s.Now) > 0 {
				reset = s.Now
			}
			state = nil
			continue
		case "take_many", "take_all":
			together(t, store, plans, s)
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

func together(t *testing.T, store memory.Store, plans []*limit.Plan, s *vectors.Step) {
	var asks []limit.Ask
	for _, a := range s.Asks {
		asks = append(asks, limit.Ask{Key: []byte(a.Key), Policy: plans[a.Policy], Cost: a.Cost})
	}
	if s.Op == "take_many" {
		if err := store.TakeMany(ctx, asks); err != nil {
			t.Fatal(err)
		}
	} else {
		bound, err := store.TakeAll(ctx, asks)
		if err != nil {
			t.Fatal(err)
		}
		s.Bound = &bound
	}
	s.Answers = nil
	for _, a := range asks {
		d := a.Decision
		s.Answers = append(s.Answers, *vectors.DecisionOf(d))
	}
}

// TestVectors replays the published timelines, and with -update writes them.
func TestVectors(t *testing.T) {
	if *update {
		for name, timelines := range vectorQuestions(t) {
			f := vectors.File{Schema: "vectors.schema.json", Timelines: timelines}
			if err := os.WriteFile(filepath.Join("testdata", name), encodeVectors(t, f), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, f := range vectors.Read(t, "testdata") {
		for _, l := range f.Timelines {
			published := slices.Clone(l.Steps)
			answer(t, &l)
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
func encodeVectors(t *testing.T, f vectors.File) []byte {
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
