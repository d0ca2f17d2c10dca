// Compare measures wskit beside its rivals on this machine, in turn and over several
// rounds, prints the table and writes it to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/compare                              # about 15 minutes
//	go run ./cmd/compare -tls -only 'echo|idle|fan'     # under TLS
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
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/wskit/wskit/bench/page"
)

// settings are the sizes of a comparison.
type settings struct {
	rounds      int
	duration    time.Duration
	idleConns   int
	manyConns   int
	subscribers int
	only        *regexp.Regexp
	tls         bool
	history     bool
	out         string
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often every server takes its turn; the median counts")
	flag.DurationVar(&s.duration, "duration", 2*time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	flag.IntVar(&s.idleConns, "idle", 5000, "idle connections for the memory figures")
	flag.IntVar(&s.manyConns, "many", 10000, "connections for the growth figure")
	flag.IntVar(&s.subscribers, "subscribers", 2000, "subscribers for the fan-out figure")
	flag.BoolVar(&s.tls, "tls", false, "measure all servers under TLS; the section of RESULTS.md is one of its own")
	flag.BoolVar(&s.history, "history", false, "measure what topics with history cost, without the rivals; the section of RESULTS.md is one of its own")
	only := flag.String("only", "", "measure only the scenarios whose name matches this regular expression")
	flag.StringVar(&s.out, "out", "RESULTS.md", "file to write the section to; empty writes none")
	flag.Parse()

	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		log.Fatalf("compare: -only: %v", err)
	}
	if s.rounds < 1 || s.duration <= 0 || s.idleConns < 1 || s.manyConns < 1 || s.subscribers < 1 {
		log.Fatal("compare: every size must be positive")
	}
	// A cancelled context kills the child of the moment, by its own process id.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, s)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contenders, err := build(ctx, dir, s.tls)
	if err != nil {
		return err
	}

	if s.history {
		contenders = slices.DeleteFunc(contenders, func(c contender) bool { return c.name != ours })
	}
	table := newTable(contenders, rowsFor(s.tls))
	if err := measureAll(ctx, s, contenders, table); err != nil {
		return err
	}
	text := table.render()
	fmt.Print("\n", text)
	title := "Servers"
	switch {
	case s.history:
		title = "History in memory"
	case s.tls:
		title = "Servers under TLS"
	}
	if s.out == "" {
		return nil
	}
	return page.Write(s.out, title, section(text, contenders, s))
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
					return errors.New("compare: interrupted")
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
