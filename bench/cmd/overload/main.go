// Overload measures how a server does that gets more messages than it can handle: with
// router.Options.Overload, beside the same server without it. It writes the table to its section of
// RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/overload                               # five minutes
//	go run ./cmd/overload -rounds 1 -lasts 3s -out ""   # a quick run
//
// In each round the servers take turns. What a server can carry is measured first: each client has one
// request open, and the server is never idle. Then the clients send at that rate, and at multiples of it, at random
// times, whatever the server does. A request is completed if its answer comes within the time that a client
// waits.
//
// Server and clients are processes of their own. The server has one CPU, which other programs may use,
// too. So what it completes is also divided by the CPU time that it had.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

type settings struct {
	rounds, clients          int
	lasts, warm, work, waits time.Duration
}

func main() {
	rounds := command.Count("rounds", 3, "how often it is measured; the median counts")
	lasts := command.Span("lasts", 8*time.Second, "how long one measurement lasts")
	warm := command.Span("warm", 2*time.Second, "how long the same load lasts before it")
	work := command.Span("work", time.Millisecond, "CPU time of the handler for a request")
	clients := command.Count("clients", 60, "clients; a tenth of them pay")
	waits := command.Span("waits", time.Second, "how long a client waits for an answer")
	shed := flag.Bool("shed", false, "whether the server of -serve sheds load")
	steps := flag.Int("steps", 0, "the work of the server of -serve")
	command.Child("serve", func(context.Context) error { return serveWork(*shed, *steps) })
	command.Main(func(ctx context.Context, _ string) (page.Section, error) {
		return run(ctx, settings{rounds: *rounds, clients: *clients, lasts: *lasts, warm: *warm, work: *work, waits: *waits})
	})
}

// loads are multiples of what the server can carry.
var loads = []float64{1, 3, 6}

// figures are of one server at one load.
type figures struct {
	offered, completed float64 // requests in a second
	perCPU             float64 // completed in a second of the server's CPU time
	byClass, refused   [classes]float64
	p50, p99           float64 // of completed requests, in ms
	wait               float64 // the server's own figure, in ms
}

func run(ctx context.Context, s settings) (section page.Section, err error) {
	steps := stepsOf(s.work)
	var all [2][][]figures // by server, load and round
	for i := range all {
		all[i] = make([][]figures, len(loads))
	}
	for round := range s.rounds {
		for l, load := range loads {
			for i := range all {
				f, err := s.measure(ctx, load, os.Args[0], "-serve", "-shed="+strconv.FormatBool(i == 1), "-steps", strconv.Itoa(steps))
				if err != nil {
					return section, err
				}
				all[i][l] = append(all[i][l], f)
				log.Printf("round %d, shedding %v, %g ×: %+v", round+1, i == 1, load, f)
			}
		}
	}
	return page.Section{
		Title: "Overload", Command: "overload", Table: table(all),
		About: fmt.Sprintf("A request needs %v of the server's one CPU. %d clients, each with a connection: a tenth pay. A tenth of all requests are theirs (priority 2), "+
			"half are of others (priority 0), and four tenths are reports (priority -2). Completed within %v; the median of %d rounds, %v each.",
			s.work, s.clients, s.waits, s.rounds, s.lasts),
	}, nil
}

// measure measures a server at a load.
func (s settings) measure(ctx context.Context, load float64, program string, args ...string) (f figures, err error) {
	p, err := process.Start(ctx, program, args...)
	if err != nil {
		return f, err
	}
	defer p.Stop()
	c, err := connect(p.Addr, s)
	if err != nil {
		return f, err
	}
	defer c.close()
	c.closed(ctx, s.warm/4)
	capacity := c.closed(ctx, s.warm)
	c.open(ctx, load*capacity, s.warm)
	used, err := p.CPUDuring(func() error {
		f = c.open(ctx, load*capacity, s.lasts)
		return nil
	})
	f.perCPU = f.completed * s.lasts.Seconds() / max(1e-9, used.Seconds())
	return f, errors.Join(err, ctx.Err())
}

func table(all [2][][]figures) [][]string {
	lines := [][]string{{
		"offered load, server", "offered/s", "completed/s", "÷ at 1 ×", "completed per CPU second", "÷ at 1 ×",
		"of paying (%)", "of others (%)", "of reports (%)", "p50 (ms)", "p99 (ms)", "target", "met",
	}}
	for l, load := range loads {
		for i, name := range []string{"without", "shedding"} {
			of := func(pick func(figures) float64) float64 { return stats.Median(all[i][l], pick) }
			ratio := func(pick func(figures) float64) float64 { // of the same round
				var rs []figures
				for round, f := range all[i][l] {
					rs = append(rs, figures{completed: pick(f) / max(1e-9, pick(all[i][0][round]))})
				}
				return stats.Median(rs, func(f figures) float64 { return f.completed })
			}
			completed := func(f figures) float64 { return f.completed }
			perCPU := func(f figures) float64 { return f.perCPU }
			target, met := "", ""
			if i == 1 && load == 3 {
				target, met = "≥ 0.85", page.Met(ratio(perCPU) >= 0.85)
			}
			lines = append(lines, []string{
				fmt.Sprintf("%g ×, %s", load, name),
				page.Number(of(func(f figures) float64 { return f.offered })), page.Number(of(completed)), page.Number(ratio(completed)),
				page.Number(of(perCPU)), page.Number(ratio(perCPU)),
				page.Number(100 * of(func(f figures) float64 { return f.byClass[paying] })),
				page.Number(100 * of(func(f figures) float64 { return f.byClass[other] })),
				page.Number(100 * of(func(f figures) float64 { return f.byClass[report] })),
				page.Number(of(func(f figures) float64 { return f.p50 })), page.Number(of(func(f figures) float64 { return f.p99 })),
				target, met,
			})
		}
	}
	return lines
}
