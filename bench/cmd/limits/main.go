// Limits measures wskit's memory store beside other stores of rate limits, prints the
// table and writes it to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/limits                         # one to two minutes
//	go run ./cmd/limits -rounds 5 -out ""       # a first look
//
// A missed target is reported and is no failure: timings vary, machines differ.
package main

import (
	"context"
	"flag"
	"fmt"
	"regexp"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
)

// settings are the sizes of a measurement.
type settings struct {
	rounds int
	only   *regexp.Regexp
}

func main() {
	rounds := command.Count("rounds", 40, "how often every store takes its turn in every scenario")
	only := regexp.MustCompile("")
	flag.TextVar(only, "only", only, "measure only the scenarios whose name matches this regular expression")
	command.Main(func(context.Context, string) (page.Section, error) { return run(settings{*rounds, only}) })
}

func run(s settings) (section page.Section, err error) {
	f := figures{}
	if err := measureMemory(f); err != nil {
		return section, err
	}
	if err := measureTime(f, s); err != nil {
		return section, err
	}
	section = page.Section{
		Title: "Limits", Command: "limits", Table: f.table(),
		About: fmt.Sprintf("In one process; %d rounds, in which the stores take turns of %d times %d decisions. A figure is the lower quartile of those times.",
			s.rounds, chunks, chunk),
	}
	for _, r := range rivals {
		section.Libraries = append(section.Libraries, page.Library(r.name, r.module))
	}
	return section, nil
}
