// Redis measures the Redis store beside github.com/go-redis/redis_rate on one
// redis-server that it starts itself, in turn and over several rounds, and prints
// the ratios. Run it inside bench/:
//
//	go run ./cmd/redis                       # about two minutes
//	go run ./cmd/redis -rounds 1 -duration 300ms -out ""
//
// A missed target is reported and is no failure: timings vary, machines differ.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type settings struct {
	rounds   int
	duration time.Duration
	keys     int
	out      string
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often both take their turn; the median counts")
	flag.DurationVar(&s.duration, "duration", 2*time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	flag.IntVar(&s.keys, "keys", 10_000, "keys that the callers spread over")
	flag.StringVar(&s.out, "out", "RESULTS-redis.md", "file to write the table to; empty writes none")
	flag.Parse()
	if s.rounds < 1 || s.duration <= 0 || s.keys < 1 {
		log.Fatal("redis: every size must be positive")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings) error {
	server, err := start()
	if err != nil {
		return err
	}
	defer server.stop()
	var rows []string
	for _, c := range scenarios {
		var ours, rivals []float64
		var note string
		for range s.rounds {
			for _, contender := range []string{"wskit", "redis_rate"} {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				figure, seen, err := c.measure(ctx, server, contender, s)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, contender, err)
				}
				if contender == "wskit" {
					ours, note = append(ours, figure), note+seen
				} else {
					rivals, note = append(rivals, figure), note+seen
				}
			}
		}
		a, b := median(ours), median(rivals)
		met := "no"
		if ratio := a / b; c.atLeast && ratio >= c.target || !c.atLeast && ratio <= c.target {
			met = "yes"
		}
		sign := "≤"
		if c.atLeast {
			sign = "≥"
		}
		rows = append(rows, fmt.Sprintf("| %s\t| %s\t| %s\t| %.2f\t| %s %g ×\t| %s\t|", c.name, number(a), number(b), a/b, sign, c.target, met))
		log.Printf("%s: %s against %s, %.2f ×%s", c.name, number(a), number(b), a/b, lastNote(note))
		if text := lastNote(note); text != "" {
			rows[len(rows)-1] += "\n" // notes follow below the table
			notes = append(notes, "- "+c.name+":"+text)
		}
	}
	text := page(rows, s)
	fmt.Print("\n", text)
	if s.out == "" {
		return nil
	}
	return os.WriteFile(s.out, []byte(text), 0o644)
}

var notes []string

func lastNote(note string) string { return strings.TrimRight(note, ";") }

func page(rows []string, s settings) string {
	var b strings.Builder
	b.WriteString("# Redis: results\n\nWritten by the command below; do not edit. Every figure is the median of its rounds.\n\n```\n")
	fmt.Fprintf(&b, "go run ./cmd/redis -duration %v -rounds %d -keys %d\n```\n\n", s.duration, s.rounds, s.keys)
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| figure\t| wskit\t| redis_rate\t| ratio\t| target\t| met\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, r := range rows {
		fmt.Fprintln(w, strings.TrimRight(r, "\n"))
	}
	w.Flush()
	b.WriteString("\n")
	for _, n := range notes {
		b.WriteString(n + "\n")
	}
	b.WriteString("\nOne redis-server, both clients and the load share this machine's cores. redis_rate: github.com/go-redis/redis_rate/v10.\n")
	return b.String()
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func number(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.2fM", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.0fk", x/1e3)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}
