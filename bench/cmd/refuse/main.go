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
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

func main() {
	log.SetFlags(0)
	serve := flag.Bool("serve", false, "be the server; the command starts itself with it")
	refuse := flag.Bool("refuse", false, "as the server, refuse nearly all")
	rounds := flag.Int("rounds", 3, "how often every kind takes its turn; the median counts")
	duration := flag.Duration("duration", time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	out := flag.String("out", "RESULTS.md", "file to write the section to; empty writes none")
	flag.Parse()
	if *serve {
		log.Fatal(server.Run("127.0.0.1:0", false, server.Routes{Echo: newRouter(*refuse)}))
	}
	if *rounds < 1 || *duration <= 0 {
		log.Fatal("refuse: -rounds and -duration must be positive")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *rounds, *duration, *out)
	stop()
	if err != nil {
		log.Fatal(err)
	}
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
	r.UseIngress(ratelimit.New(limit.New(memory.NewStore(memory.Options{}), policy), ratelimit.Options{}))
	router.RPC(r, "text", func(_ *router.Context, q text) (text, error) {
		q.Text = q.Text[:min(len(q.Text), 100)] // reading is measured, not writing
		return q, nil
	})
	router.RPC(r, "numbers", func(*router.Context, []int) (struct{}, error) { return struct{}{}, nil })
	return r
}

// figures are of one kind: handled and refused.
type figures struct{ cpu, allocs [2][]float64 }

func run(ctx context.Context, rounds int, duration time.Duration, out string) error {
	all := kinds()
	results := make([]figures, len(all))
	for range rounds {
		for i, k := range all {
			for refused := range 2 {
				cpu, allocs, err := measure(ctx, k, refused == 1, duration)
				if err != nil {
					return fmt.Errorf("refuse: %s: %w", k.name, err)
				}
				results[i].cpu[refused] = append(results[i].cpu[refused], cpu)
				results[i].allocs[refused] = append(results[i].allocs[refused], allocs)
			}
			log.Printf("%s: handled %.2f µs, refused %.2f µs", k.name, median(results[i].cpu[0]), median(results[i].cpu[1]))
		}
	}
	lines := [][]string{{"frame", "bytes on the wire", "handled (µs)", "refused (µs)", "refused ÷ handled", "allocations, refused", "target", "met"}}
	for i, k := range all {
		handled, refused, allocs := median(results[i].cpu[0]), median(results[i].cpu[1]), median(results[i].allocs[1])
		met := "no"
		if refused <= 0.5*handled && allocs < 0.1 {
			met = "yes"
		}
		lines = append(lines, []string{k.name, fmt.Sprint(len(k.frame)), page.Number(handled), page.Number(refused),
			page.Number(refused / handled), page.Number(allocs), "≤ 0.5, 0", met})
	}
	table := page.Table(lines)
	fmt.Print("\n", table)
	if out == "" {
		return nil
	}
	return page.Write(out, "Refused frames", fmt.Sprintf("```\n%s\n```\n\n"+
		"CPU of the server, user and system, for a frame; the median of %d rounds, %v each, %d connections.\n\n%s\n%s",
		page.Command("refuse"), rounds, duration, connections, table, page.Machine()))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
