// Reconnect measures what happens when a server with 10,000 clients ends and all of them reconnect within a second. It
// compares wskit with its rivals: the time until the last client has an answer from the server, which was killed and
// started again; and the latency for the clients of another server to which all of those connect. The second is also
// measured with a server of wskit that ends by Shutdown: its close frames say when to reconnect, by default within 20
// s, as the server chooses for 10,000 connections. The command writes the table to its section of RESULTS.md. Run it
// inside bench/:
//
//	go run ./cmd/reconnect                                                 # six minutes
//	go run ./cmd/reconnect -rounds 1 -clients 1000 -quiet 1s -out ""       # a first look
//
// The clients that reconnect, and their old server if they connect to another one, have the lowest priority: in reality
// they have CPUs of their own.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/turns"
)

type settings struct {
	rounds, clients       int
	within, window, quiet time.Duration
}

func main() {
	rounds := command.Count("rounds", 5, "how often all servers take their turn; the median counts")
	clients := command.Count("clients", 10_000, "clients that reconnect")
	within := command.Span("within", time.Second, "the time within which they do if no close frame says when")
	window := command.Span("window", 0, "DrainWindow of the server that ends by Shutdown; without it the server's default, which depends on its connections")
	quiet := command.Span("quiet", 5*time.Second, "how long the clients of the other server are measured before")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return measure(ctx, folder, settings{rounds: *rounds, clients: *clients, within: *within, window: *window, quiet: *quiet})
	})
}

// figures are those of a server in a round; NaN: none.
type figures struct {
	last, p99, cpu                       float64 // restarted
	quiet, killed, quietDrained, drained float64 // p99 of the others
	killedBack, drainedBack              float64 // until all have reconnected
}

func measure(ctx context.Context, folder string, s settings) (section page.Section, err error) {
	b := bench{settings: s}
	if b.programs, err = turns.Build(ctx, folder); err != nil {
		return section, err
	}
	if b.load, err = process.Build(ctx, folder, process.Cmd+"load"); err != nil {
		return section, err
	}
	names := turns.Names()
	all := make([][]figures, len(names))
	for round := range s.rounds {
		for turn := range names {
			i := (round + turn) % len(names)
			f, err := b.round(ctx, names[i], i == 0)
			if err != nil {
				return section, fmt.Errorf("%s: %w", names[i], err)
			}
			log.Printf("round %d: %s: %+v", round+1, names[i], f)
			all[i] = append(all[i], f)
		}
	}
	over := "its default DrainWindow"
	if s.window > 0 {
		over = fmt.Sprintf("a DrainWindow of %v", s.window)
	}
	return page.Section{
		Title: "Reconnects", Command: "reconnect", Table: table(all),
		About: fmt.Sprintf("The server of %d clients ends, and they reconnect within %v, at random. Restarted: the server is killed and started again, and times count from when it listens. "+
			"Others: %d clients of another server, to which all reconnect; they send %d requests a second, by the clock. Drained: the server is ended by Shutdown with %s, "+
			"and the clients reconnect when its close frames say. The median of %d rounds.", s.clients, s.within, others, othersRate, over, s.rounds),
		Notes: "Servers and clients share the cores of the machine; the clients that reconnect, and their old server if they connect to another one, have the lowest priority.",
	}, nil
}

// table compares the servers by the medians of their rounds.
func table(servers [][]figures) [][]string {
	return [][]string{
		page.CompareHead("figure", turns.Names()[1:]),
		turns.Compare(servers, page.Compared{Title: "restarted: until the last client has an answer (s)", Target: 1}, func(f figures) float64 { return f.last }),
		turns.Compare(servers, page.Compared{Title: "restarted: p99 from a client's first attempt to its answer (ms)"}, func(f figures) float64 { return f.p99 }),
		turns.Compare(servers, page.Compared{Title: "restarted: CPU of the server for a client (µs)"}, func(f figures) float64 { return f.cpu }),
		turns.Compare(servers, page.Compared{Title: "others, quiet: latency p99 (ms)"}, func(f figures) float64 { return f.quiet }),
		turns.Compare(servers, page.Compared{Title: "others, clients of a killed server come: latency p99 (ms)"}, func(f figures) float64 { return f.killed }),
		turns.Compare(servers, page.Compared{Title: "others, clients of a killed server come: p99 ÷ quiet"}, func(f figures) float64 { return f.killed / f.quiet }),
		turns.Compare(servers, page.Compared{Title: "until all clients of a killed server are back (s)"}, func(f figures) float64 { return f.killedBack }),
		turns.Compare(servers, page.Compared{Title: "others, clients of a drained server come: latency p99 (ms)"}, func(f figures) float64 { return f.drained }),
		turns.Compare(servers, page.Compared{Title: "others, clients of a drained server come: p99 ÷ quiet", Target: 3, OfFigure: true}, func(f figures) float64 { return f.drained / f.quietDrained }),
		turns.Compare(servers, page.Compared{Title: "until all clients of a drained server are back (s)"}, func(f figures) float64 { return f.drainedBack }),
	}
}

var none = math.NaN()
