package faulttest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	long   = flag.Duration("faults.for", 0, "how long TestFaults goes on inflicting all kinds of faults; 0: a few of them")
	report = flag.String("faults.report", "", "`file` to which TestFaults writes what it did and saw")
)

// Every guarantee holds while servers, Redis and the network fail. By default a few faults are inflicted, drawn at
// random: TestCheckFindsViolations has the check find everything that can go wrong. With -faults.for it is as thorough
// as that is long.
func TestFaults(t *testing.T) {
	t.Parallel()
	const servers, clients = 3, 16
	s := Start(t, servers, clients)
	inflict := func(n Nemesis) {
		t.Logf("%s", n.Name)
		s.Inflict(n)
		pause(300*time.Millisecond + rand.N(700*time.Millisecond))
	}
	began := time.Now()
	for round := 0; round == 0 || elapsed(began) < *long; round++ {
		order := rand.Perm(len(Nemeses))
		if *long == 0 {
			order = order[:fewFaults]
		}
		for _, i := range order {
			inflict(Nemeses[i])
		}
		inflict(Ghosts)
	}
	h := s.Finish()
	violations := h.Check(servers)
	for i, v := range violations {
		if i == 20 {
			t.Errorf("and %d more", len(violations)-i)
			break
		}
		t.Errorf("violated: %s", v)
	}
	text := summary(h, servers, clients, violations)
	t.Log("\n" + text)
	if *report != "" {
		if err := os.WriteFile(*report, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A run without traffic would violate no guarantee.
	for _, typ := range append([]string{"join", "say"}, workTypes...) {
		if h.acknowledged(typ) == 0 {
			t.Errorf("no request of the type %s was ever acknowledged", typ)
		}
	}
	if len(h.Received) == 0 {
		t.Error("no message of a topic was delivered")
	}
}

// fewFaults is how many faults are inflicted in short runs, of each system, besides the kill of a server.
const fewFaults = 2

func (h *History) acknowledged(typ string) (n int) {
	for _, q := range h.Requests {
		if q.Type == typ && q.OK {
			n++
		}
	}
	return n
}

// summary is the report of a run.
func summary(h *History, servers, clients int, violations []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Servers under faults\n")
	line("Written by `make faults`; do not edit. internal/faulttest says what is done and checked.\n")
	line("%d servers and %d clients on one Redis for %.0f s: %d connections, %d requests, %d messages of topics delivered, %d faults, **%d violations**.\n",
		servers, clients, h.To.Sub(h.From).Seconds(), len(h.Conns), len(h.Requests), len(h.Received), len(h.Faults), len(violations))
	line("| fault | times |\n|---|---|")
	for _, n := range append(Nemeses[:len(Nemeses):len(Nemeses)], Ghosts) {
		times := 0
		for _, f := range h.Faults {
			if f.Name == n.Name {
				times++
			}
		}
		line("| %s | %d |", n.Name, times)
	}
	line("\n| request | sent | acknowledged | refused | not answered: the connection ended |\n|---|---|---|---|---|")
	for _, typ := range append([]string{"join", "say", "members"}, workTypes...) {
		sent, lost := 0, 0
		for _, q := range h.Requests {
			if q.Type == typ {
				sent++
				if q.Answers == 0 {
					lost++
				}
			}
		}
		ok := h.acknowledged(typ)
		line("| %s | %d | %d | %d | %d |", typ, sent, ok, sent-ok-lost, lost)
	}
	if len(violations) > 0 {
		line("\nViolations:\n\n- %s", strings.Join(violations, "\n- "))
	}
	return b.String()
}
