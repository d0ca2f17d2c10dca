package pending

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Each question gets its own answer, once, whatever a client answers in whatever order and however often.
func TestEachQuestionGetsItsAnswer(t *testing.T) {
	t.Parallel()
	const askers, each, limit = 8, 200, 5
	table := New[string]()
	asked := make(chan string, askers*each)
	var all, clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for id := range asked {
				for _, id := range []string{id, id, Prefix, "1", ""} {
					if ch := table.Take(id); ch != nil {
						ch <- "to " + id
					}
				}
			}
		})
	}
	var seen sync.Map
	for range askers {
		all.Go(func() {
			for range each {
				id, answered, outcome := table.Add(askers)
				if outcome != Open {
					t.Error(outcome)
					return
				}
				if _, before := seen.LoadOrStore(id, true); before {
					t.Errorf("%s is asked twice", id)
				}
				asked <- id
				if got := <-answered; got != "to "+id {
					t.Errorf("%s is answered %q", id, got)
				}
			}
		})
	}
	all.Wait()
	close(asked)
	clients.Wait()
}

// No more are open than may be. One that is given up makes room for another, and its answer goes nowhere.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 5
	table := New[int]()
	var open []string
	for range 1000 {
		id, _, outcome := table.Add(limit)
		switch {
		case len(open) < limit && outcome != Open, len(open) == limit && outcome != TooMany:
			t.Fatalf("%v with %d open", outcome, len(open))
		case outcome == Open:
			open = append(open, id)
		}
		if i := rand.IntN(2 * limit); i < len(open) {
			if table.Take(open[i]) == nil {
				t.Fatal("a question that is open is not found")
			}
			if table.Take(open[i]) != nil {
				t.Fatal("a question is taken off twice")
			}
			open = append(open[:i], open[i+1:]...)
		}
	}
}

// When the connection ends, all that wait know, and nothing is asked any more.
func TestTheEndIsKnown(t *testing.T) {
	t.Parallel()
	table := New[int]()
	_, answered, outcome := table.Add(1)
	if outcome != Open {
		t.Fatal(outcome)
	}
	table.End()
	table.End()
	select {
	case <-table.Ended():
	case <-answered:
		t.Error("it is answered")
	}
	if _, _, outcome := table.Add(2); outcome != Ended {
		t.Error(outcome)
	}
}
