// Package command is what the commands share that measure and write a section of RESULTS.md: flags, the end by a
// signal, and a folder for the programs that they build.
package command

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/wskit/wskit/bench/page"
)

var out = flag.String("out", "RESULTS.md", "file to write the section to; empty writes none")

// child is what this process does instead of measuring; nil: it measures.
var child func(ctx context.Context) error

// Child defines a flag with which the command starts its own program again: that process calls do, and measures
// nothing.
func Child(name string, do func(ctx context.Context) error) {
	flag.BoolFunc(name, "for the processes that the command starts", func(string) error { child = do; return nil })
}

// TestMain is that of a command whose tests start their own program again, as the command does: with the flag of a
// Child it is the command.
func TestMain(m interface{ Run() int }, child string, main func()) {
	if slices.Contains(os.Args, "-"+child) {
		main()
		return
	}
	os.Exit(m.Run())
}

// Main parses the flags, measures, prints the section and writes it. SIGINT and SIGTERM cancel ctx. The folder is empty
// and removed afterwards.
func Main(measure func(ctx context.Context, folder string) (page.Section, error)) {
	log.SetFlags(0)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := child
	if do == nil {
		do = func(ctx context.Context) error { return show(ctx, measure) }
	}
	err := do(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func show(ctx context.Context, measure func(context.Context, string) (page.Section, error)) error {
	folder, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	section, err := measure(ctx, folder)
	if err != nil {
		return err
	}
	return section.Show(*out)
}

// Count defines a flag for a number of things, at least 1.
func Count(name string, value int, usage string) *int {
	flag.Var((*count)(&value), name, usage)
	return &value
}

// Span defines a flag for a time, longer than 0.
func Span(name string, value time.Duration, usage string) *time.Duration {
	flag.Var((*span)(&value), name, usage)
	return &value
}

var errPositive = errors.New("must be positive")

type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = errPositive
	}
	*c = count(n)
	return err
}

type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errPositive
	}
	*s = span(d)
	return err
}
