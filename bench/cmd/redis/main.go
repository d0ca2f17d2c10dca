// Redis measures the Redis store beside github.com/go-redis/redis_rate, and the broker beside a bare
// loop of PUBLISH and SUBSCRIBE with go-redis and beside the broker of github.com/centrifugal/centrifuge, on
// one redis-server that it starts itself, in turn and over several rounds, and prints the ratios. Run it
// inside bench/:
//
//	go run ./cmd/redis                       # about eight minutes
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

	"github.com/wskit/wskit/bench/stats"
)

type settings struct {
	rounds   int
	duration time.Duration
	keys     int
	only     string
	out      string
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often both take their turn; the median counts")
	flag.DurationVar(&s.duration, "duration", 2*time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	flag.IntVar(&s.keys, "keys", 10_000, "keys that the callers spread over")
	flag.StringVar(&s.only, "only", "", "measure only what has this in its name, and write no table")
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
	server, err := start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	var rows, notes []string
	for _, c := range scenarios {
		if !strings.Contains(c.name, s.only) {
			continue
		}
		figures, seen := map[string][]float64{}, map[string]string{}
		turn := s
		turn.duration /= time.Duration(c.turns)
		for range s.rounds * c.turns {
			for _, contender := range []string{ours, c.rival} {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				figure, note, err := c.measure(ctx, server, contender, turn)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, contender, err)
				}
				figures[contender] = append(figures[contender], figure)
				seen[contender] = note
			}
		}
		row := c.row(median(figures[ours]), median(figures[c.rival]))
		rows = append(rows, row)
		log.Print(strings.ReplaceAll(row, "\t", " "))
		for _, contender := range []string{ours, c.rival} {
			if seen[contender] != "" {
				notes = append(notes, fmt.Sprintf("- %s, the last round: %s made %s", c.name, contender, seen[contender]))
			}
		}
	}
	text := page(rows, notes, s)
	fmt.Print("\n", text)
	if s.out == "" || s.only != "" {
		return nil
	}
	return os.WriteFile(s.out, []byte(text), 0o644)
}

const ours = "wskit"

// row is a line of the table.
func (c scenario) row(a, b float64) string {
	met, sign := "no", "≤"
	if c.atLeast {
		sign = "≥"
	}
	if c.target == 0 { // there is none
		return fmt.Sprintf("| %s\t| %s\t| %s %s\t| %.2f\t| \t| \t|", c.name, number(a), c.rival, number(b), a/b)
	}
	if ratio := a / b; c.atLeast && ratio >= c.target || !c.atLeast && ratio <= c.target {
		met = "yes"
	}
	return fmt.Sprintf("| %s\t| %s\t| %s %s\t| %.2f\t| %s %g ×\t| %s\t|", c.name, number(a), c.rival, number(b), a/b, sign, c.target, met)
}

func page(rows, notes []string, s settings) string {
	var b strings.Builder
	b.WriteString("# Redis: results\n\nWritten by the command below; do not edit. Every figure is the median of its rounds")
	fmt.Fprintf(&b, ", that of single publishes of %d times as many and shorter ones.\n\n```\n", singleTurns)
	fmt.Fprintf(&b, "go run ./cmd/redis -duration %v -rounds %d -keys %d\n```\n\n", s.duration, s.rounds, s.keys)
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| figure\t| wskit\t| rival\t| ratio\t| target\t| met\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, r := range rows {
		fmt.Fprintln(w, r)
	}
	w.Flush()
	b.WriteString("\n" + strings.Join(notes, "\n"))
	b.WriteString(`

One redis-server, the clients and the load share this machine's cores, so read the ratios.
redis_rate is github.com/go-redis/redis_rate/v10, on a client with the same options.
go-redis is PUBLISH and SUBSCRIBE by github.com/redis/go-redis/v9 alone, without history: each caller
publishes one message after the other, and one subscriber gets all.
socket is the same loop with PUBLISH written to a socket and the answer read from it, and nothing else: the most that one caller
can have that waits for each answer. Subscribing is as with go-redis.
centrifuge is the Redis broker of github.com/centrifugal/centrifuge alone, for which the same callers publish, without
history or with 1,000 messages of it.
`)
	return b.String()
}

func median(values []float64) float64 {
	return stats.Quantile(slices.Sorted(slices.Values(values)), 0.5)
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
