// Compare measures wskit beside its rivals on this machine, in turn and over several
// rounds, prints the table and writes it to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/compare                              # about 15 minutes
//	go run ./cmd/compare -tls -idle 15000 -only 'echo|idle|fan' # under TLS
//	go run ./cmd/compare -compress -only 'echo|idle'    # with permessage-deflate, messages of 1 KiB
//	go run ./cmd/compare -history                       # what topics with history cost, a minute
//	go run ./cmd/compare -rounds 1 -duration 500ms -out ""   # a first look
//
// A missed target is reported and is no failure: timings vary, machines differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
)

// settings are the sizes of a comparison.
type settings struct {
	rounds                            int
	duration                          time.Duration
	idleConns, manyConns, subscribers int
	only                              *regexp.Regexp
	tls, compress, history            bool
}

func main() {
	rounds := command.Count("rounds", 5, "how often every server takes its turn; the median counts")
	duration := command.Span("duration", 2*time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	idle := command.Count("idle", 5000, "idle connections for the memory figures")
	many := command.Count("many", 10000, "connections for the growth figure")
	subscribers := command.Count("subscribers", 2000, "subscribers for the fan-out figure")
	s := settings{only: regexp.MustCompile("")}
	flag.BoolVar(&s.tls, "tls", false, "measure all servers under TLS; the section of RESULTS.md is one of its own")
	flag.BoolVar(&s.compress, "compress", false, "measure all servers with permessage-deflate and requests and replies of 1 KiB; the section of RESULTS.md is one of its own")
	flag.BoolVar(&s.history, "history", false, "measure what topics with history cost, without the rivals; the section of RESULTS.md is one of its own")
	flag.TextVar(s.only, "only", s.only, "measure only the scenarios whose name matches this regular expression")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		s.rounds, s.duration, s.idleConns, s.manyConns, s.subscribers = *rounds, *duration, *idle, *many, *subscribers
		return measure(ctx, folder, s)
	})
}

func measure(ctx context.Context, folder string, s settings) (section page.Section, err error) {
	if s.tls && s.compress {
		return section, errors.New("-tls and -compress have a section each; one at a time")
	}
	contenders, err := build(ctx, folder, s)
	if err != nil {
		return section, err
	}
	if s.history {
		contenders = slices.DeleteFunc(contenders, func(c contender) bool { return c.name != ours })
	}
	table := newTable(contenders, rowsFor(s))
	if err := measureAll(ctx, s, contenders, table); err != nil {
		return section, err
	}
	section = page.Section{
		Title: "Servers", Command: "compare", Table: table.lines(),
		About: fmt.Sprintf("The median of %d rounds, %v each. Idle: %d connections. Many: %d connections. Fan-out: %d subscribers.",
			s.rounds, s.duration, s.idleConns, s.manyConns, s.subscribers),
		Notes: strings.Join(append(table.notes, "Server and load share the cores of the machine."), "\n\n"),
	}
	switch {
	case s.history:
		section.Title = "History in memory"
	case s.compress:
		section.Title = "Servers that compress"
		section.About += " Requests and replies are JSON of a little more than 1 KiB, each compressed by itself."
	case s.tls:
		section.Title = "Servers under TLS"
	}
	for _, c := range contenders {
		section.Libraries = append(section.Libraries, c.library)
	}
	return section, nil
}

// measureAll finishes one scenario before the next, and within it lets the servers
// take turns, so that a machine that slows down slows all of them.
func measureAll(ctx context.Context, s settings, contenders []contender, table *table) error {
	for _, sc := range scenarios {
		if sc.history != s.history || !s.only.MatchString(sc.name) {
			continue
		}
		for round := range s.rounds {
			for _, c := range contenders {
				if sc.skip != nil && sc.skip(c) {
					continue
				}
				figures, err := sc.measure(ctx, c, s)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					log.Printf("%s, round %d: %s: %v", sc.name, round+1, c.name, err)
					table.failed(sc.name, c.name, err)
					continue
				}
				table.add(c.name, figures)
				log.Printf("%s, round %d: %s: %s", sc.name, round+1, c.name, figures)
			}
		}
	}
	return nil
}
