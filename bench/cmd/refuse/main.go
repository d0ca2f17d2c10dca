// Refuse measures what a frame costs the server that a limit refuses, beside one that is
// handled, for frames of every size and kind, and writes the table to its section of
// RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/refuse                          # about a minute
//	go run ./cmd/refuse -duration 300ms -out ""  # a first look
//
// Server and clients are processes of their own. A missed target is reported and is no
// failure: timings vary, machines differ.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

func main() {
	rounds := command.Count("rounds", 3, "how often every kind takes its turn; the median counts")
	duration := command.Span("duration", time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	refuse := flag.Bool("refuse", false, "whether the server of -serve refuses nearly all")
	command.Child("serve", func(context.Context) error {
		return server.Run("127.0.0.1:0", false, server.Routes{Echo: newRouter(*refuse)})
	})
	command.Main(func(ctx context.Context, _ string) (page.Section, error) { return run(ctx, *rounds, *duration) })
}

type text struct {
	Text string `json:"text" validate:"required"`
}

func newRouter(refuse bool) *router.Router {
	policy := limit.TokenBucket{Capacity: 1e9, Refill: 1e9, Per: time.Second}
	if refuse {
		policy = limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	}
	r := router.New(router.Options{Compression: true})
	r.Use(ratelimit.New(limit.New(memory.NewStore(), policy), ratelimit.PerUserOrIPPerType))
	router.RPC(r, "text", func(_ *router.Context, q text) (text, error) {
		q.Text = q.Text[:min(len(q.Text), 100)] // reading is measured, not writing
		return q, nil
	})
	router.RPC(r, "numbers", func(*router.Context, []int) (struct{}, error) { return struct{}{}, nil })
	return r
}

// figures are those of one kind in a round, for a frame: µs of the server's CPU, and allocations.
type figures struct{ cpu, allocs float64 }

func cpu(f figures) float64    { return f.cpu }
func allocs(f figures) float64 { return f.allocs }

func run(ctx context.Context, rounds int, duration time.Duration) (section page.Section, err error) {
	all := kinds()
	results := make([][2][]figures, len(all)) // handled, refused
	for range rounds {
		for i, k := range all {
			for refused := range 2 {
				f, err := measure(ctx, k, refused == 1, duration)
				if err != nil {
					return section, fmt.Errorf("%s: %w", k.name, err)
				}
				results[i][refused] = append(results[i][refused], f)
			}
			log.Printf("%s: handled %.2f µs, refused %.2f µs", k.name, stats.Median(results[i][0], cpu), stats.Median(results[i][1], cpu))
		}
	}
	lines := [][]string{{"frame", "bytes on the wire", "handled (µs)", "refused (µs)", "refused ÷ handled", "allocations, refused", "target", "met"}}
	for i, k := range all {
		handled, refused, allocs := stats.Median(results[i][0], cpu), stats.Median(results[i][1], cpu), stats.Median(results[i][1], allocs)
		lines = append(lines, []string{k.name, fmt.Sprint(len(k.frame)), page.Number(handled), page.Number(refused),
			page.Number(refused / handled), page.Number(allocs), "≤ 0.5, 0", page.Met(refused <= 0.5*handled && allocs < 0.1)})
	}
	return page.Section{
		Title: "Refused frames", Command: "refuse", Table: lines,
		About: fmt.Sprintf("CPU of the server, user and system, for a frame; the median of %d rounds, %v each, %d connections.", rounds, duration, connections),
	}, nil
}
