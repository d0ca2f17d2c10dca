// Limits measures wskit's memory store beside other stores of rate limits, prints the
// table and writes it to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/limits                         # about a minute
//	go run ./cmd/limits -rounds 5 -out ""       # a first look
//
// A missed target is reported and is no failure: timings vary, machines differ.
package main

import (
	"flag"
	"fmt"
	"log"
	"regexp"
	"strings"

	"github.com/wskit/wskit/bench/page"
)

// settings are the sizes of a measurement.
type settings struct {
	rounds int
	only   *regexp.Regexp
	out    string
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.IntVar(&s.rounds, "rounds", 40, "how often every store takes its turn in every scenario")
	only := flag.String("only", "", "measure only the scenarios whose name matches this regular expression")
	flag.StringVar(&s.out, "out", "RESULTS.md", "file to write the section to; empty writes none")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		log.Fatalf("limits: -only: %v", err)
	}
	if s.rounds < 1 {
		log.Fatal("limits: -rounds must be positive")
	}
	if err := run(s); err != nil {
		log.Fatal("limits: ", err)
	}
}

func run(s settings) error {
	f := figures{}
	if err := measureMemory(f); err != nil {
		return err
	}
	if err := measureTime(f, s); err != nil {
		return err
	}
	text := f.table()
	fmt.Print(text)
	if s.out == "" {
		return nil
	}
	return page.Write(s.out, "Limits", section(text, s))
}

// section is the table with all a reader needs to judge and repeat it.
func section(table string, s settings) string {
	var b strings.Builder
	b.WriteString(page.Command("limits"))
	fmt.Fprintf(&b, "\nIn one process; %d rounds, in which the stores take turns of %d times %d decisions. A figure is the lower quartile of those times.\n\n",
		s.rounds, chunks, chunk)
	b.WriteString(table)
	fmt.Fprintf(&b, "\nMachine:\n\n%s\nLibraries:\n\n", page.Machine())
	for _, r := range rivals {
		fmt.Fprintf(&b, "- %s: %s\n", r.name, r.version())
	}
	return b.String()
}
