// Runs measures what package run costs beside publishing each token: many answers are written at the same time, each
// watched by its own client. It writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/runs                                  # about three minutes
//	go run ./cmd/runs -part 10 -rounds 1 -out ""       # a first look
//
// Server and clients are processes of their own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/stats"
)

// loads are what is measured: answers that come so slowly that each token is sent alone, and usual ones.
var loads = []load{{10_000, 2}, {2_000, 20}}

// load is how many answers are written at the same time, and how many tokens of each in a second.
type load struct{ runs, perSecond int }

func main() {
	rounds := command.Count("rounds", 3, "how often each way takes its turn; the median counts")
	duration := command.Span("duration", 5*time.Second, "how long one measurement lasts")
	part := command.Count("part", 1, "measures with so many times fewer answers")
	plain := flag.Bool("plain", false, "whether the server of -serve publishes each token")
	perSecond := flag.Int("tokens", 2, "how many tokens of an answer the server of -serve writes in a second")
	command.Child("serve", func(context.Context) error { return serve(*plain, *perSecond) })
	command.Main(func(ctx context.Context, _ string) (page.Section, error) {
		lines := [][]string{{
			"answers × tokens per s", "way", "CPU for a token (µs)", "ratio", "frames (per s)", "token to client, p50 (ms)",
			"p99 (ms)", "stop, p99 (ms)",
		}}
		for _, l := range loads {
			l.runs /= *part
			more, err := compare(ctx, l, *rounds, *duration)
			if err != nil {
				return page.Section{}, err
			}
			lines = append(lines, more...)
		}
		return page.Section{
			Title: "Runs", Command: "runs", Table: lines,
			About: fmt.Sprintf(
				"CPU of the server, user and system, for a token that reaches its client. Each token is published to a topic with "+
					"history, or given to Writer.Text of package run, which joins tokens to five outputs a second. A stop is measured from the "+
					"request to its answer, one after the other; the median of %d rounds, %v each. Clients and server share the cores.",
				*rounds, *duration,
			),
		}, nil
	})
}

// compare measures both ways in turns.
func compare(ctx context.Context, l load, rounds int, duration time.Duration) (lines [][]string, err error) {
	ways := []string{"publish", "run"}
	results := make([][]figures, len(ways))
	for range rounds {
		for i := range ways {
			f, err := l.measure(ctx, i == 0, duration)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ways[i], err)
			}
			log.Printf("%+v %s: %+v", l, ways[i], f)
			results[i] = append(results[i], f)
		}
	}
	base := 0.0
	for i, way := range ways {
		of := func(f func(figures) float64) float64 { return stats.Median(results[i], f) }
		cpu, stop := of(func(f figures) float64 { return f.cpu }), "–"
		if i == 0 {
			base = cpu
		} else {
			stop = page.Number(of(func(f figures) float64 { return f.stop }))
		}
		lines = append(lines, []string{
			fmt.Sprintf("%d × %d", l.runs, l.perSecond), way, page.Number(cpu), fmt.Sprintf("%.2f", cpu/base),
			page.Number(of(func(f figures) float64 { return f.frames })),
			page.Number(of(func(f figures) float64 { return f.p50 })),
			page.Number(of(func(f figures) float64 { return f.p99 })), stop,
		})
	}
	return lines, nil
}
