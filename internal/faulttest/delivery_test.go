package faulttest

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/internal/runcheck"
)

var (
	deliveryFaults = flag.Int("delivery.faults", 0, "how many faults TestDelivery inflicts, each kind as often; 0: a few of them")
	deliverySeed   = flag.Uint64("delivery.seed", 0, "the seed of TestDelivery; 0: a random one")
	deliveryOnly   = flag.String("delivery.only", "", "TestDelivery inflicts only faults with this in their names, and asks for no figures")
	deliveryReport = flag.String("delivery.report", "", "`file` to which TestDelivery writes what it did and saw")
)

// Of topics with history no client misses a message, gets one twice or in another order without a
// reset, while servers, Redis, networks and clients fail. When they work again, every client gets to
// the end of each log. By default a few faults are inflicted, drawn at random: the tests of deliverytest have its check
// find everything that can go wrong.
func TestDelivery(t *testing.T) {
	t.Parallel()
	short := *deliveryFaults == 0 && *deliveryOnly == ""
	seed := *deliverySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	began := time.Now()
	var mu sync.Mutex
	var total deliverytest.Report
	var figures DeliveryFigures
	var text string
	runs := runcheck.NewReport()
	run := func(t *testing.T, kind DeliveryRedis, seed uint64) {
		kinds := slices.DeleteFunc(slices.Clone(DeliveryNemeses), func(n DeliveryNemesis) bool {
			return n.On&kind == 0 || !strings.Contains(n.Name, *deliveryOnly)
		})
		if len(kinds) == 0 {
			return
		}
		d := StartDelivery(t, kind, seed, runs)
		order := d.rand.Perm(len(kinds))
		if short {
			order = order[:fewFaults]
			d.Inflict(DeliveryNemeses[0]) // a server is killed
		}
		for _, i := range order {
			d.Inflict(kinds[i])
			d.short()
		}
		report := d.Finish()
		t.Logf("%v", report)
		mu.Lock()
		defer mu.Unlock()
		figures.add(d.DeliveryFigures)
		addReport(&total, report)
	}
	for ok := true; ok && figures.faults() < max(1, *deliveryFaults) && len(total.Violations) == 0; seed += uint64(len(DeliveryRedises)) {
		ok = t.Run(fmt.Sprint(seed), func(t *testing.T) {
			for i, kind := range DeliveryRedises {
				t.Run(kind.String(), func(t *testing.T) {
					t.Parallel()
					run(t, kind, seed+uint64(i))
				})
			}
		})
		total.Violations = append(total.Violations, runs.Violations...)
		runs.Violations = nil
		text = deliverySummary(total, runs, figures, elapsed(began))
		if *deliveryReport != "" { // each time, so that a run may be ended
			if err := os.WriteFile(*deliveryReport, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log("\n" + text)
	for i, v := range total.Violations {
		if i == 20 {
			t.Errorf("and %d more", len(total.Violations)-i)
			break
		}
		t.Errorf("violated: %s", v)
	}
	if *deliveryOnly != "" {
		return
	}
	// A run in which nothing happens would violate nothing.
	for what, n := range map[string]int{
		"messages acknowledged": total.Published[deliverytest.Acked], "messages received": total.Received, "topics resumed": total.Resumed, "runs done": runs.Ends["done"],
	} {
		if n == 0 {
			t.Errorf("%s: 0", what)
		}
	}
	for what, n := range map[string]int{
		"messages replayed": figures.Replayed, "subscriptions closed for full buffers": figures.Overruns, "resets because a log was lost": total.Resets["epoch"],
	} {
		if n == 0 && !short {
			t.Errorf("%s: 0", what)
		}
	}
}

func addReport(to *deliverytest.Report, r deliverytest.Report) {
	if to.Published == nil {
		to.Published, to.Resets = make(map[deliverytest.Outcome]int), make(map[string]int)
	}
	for k, n := range r.Published {
		to.Published[k] += n
	}
	for k, n := range r.Resets {
		to.Resets[k] += n
	}
	to.Received += r.Received
	to.Resumed += r.Resumed
	to.Lost += r.Lost
	to.Violations = append(to.Violations, r.Violations...)
}

func (f *DeliveryFigures) faults() (n int) {
	for _, times := range f.Faults {
		n += times
	}
	return n
}

// deliverySummary is the report of all runs.
func deliverySummary(r deliverytest.Report, runs *runcheck.Report, f DeliveryFigures, took time.Duration) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	table := func(head string, rows map[string]int) {
		line("\n| %s | times |\n|---|---|", head)
		for _, k := range slices.Sorted(maps.Keys(rows)) {
			line("| %s | %d |", k, rows[k])
		}
	}
	line("# Topics with history under faults\n")
	line("Written by `make delivery`; do not edit. internal/faulttest says what is done, and internal/deliverytest what is checked.\n")
	line("Systems of %d servers, each kind on one Redis that keeps all on disk, one that forgets, a pair with Sentinel, and a cluster, with %d clients that read, %d that write and %d that begin runs, for %.0f s: %d faults, **%d violations**.\n", deliveryServers, deliveryReaders, deliveryWriters, deliveryUsers, took.Seconds(), f.faults(), len(r.Violations))
	line("| | |\n|---|---|")
	line("| messages acknowledged to their writers | %d |", r.Published[deliverytest.Acked])
	line("| messages whose outcome stayed unknown | %d |", r.Published[deliverytest.Unknown])
	line("| requests to publish that were sent again | %d |", f.Repeated)
	line("| messages received | %d |", r.Received)
	line("| of these, replayed by resumes without a loss | %d |", f.Replayed)
	line("| acknowledged messages that Redis has lost, where a client saw it | %d |", r.Lost)
	line("| subscriptions that Redis closed for full buffers | %d |", f.Overruns)
	line("| connections of readers | %d |", f.Connections)
	line("| runs that were watched to their end | %d |", runs.Rounds)
	line("| of these, while Redis may have lost a part | %d |", runs.Losses)
	table("fault", f.Faults)
	table("outcome of a resume, for each topic", f.Outcomes)
	table("reason of a reset, with those of resumes", r.Resets)
	table("end of a run", runs.Ends)
	table("seen of runs", runs.Seen)
	if len(r.Violations) > 0 {
		line("\nViolations:\n\n- %s", strings.Join(r.Violations, "\n- "))
	}
	return b.String()
}
