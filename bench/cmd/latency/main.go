// Latency compares the tail latency of wskit and its rivals under a load that they can carry: requests on 1,000
// connections at half of the rate that the server can answer, for a minute in all, with what its garbage collector does
// meanwhile. It writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/latency                                     # 15 minutes
//	go run ./cmd/latency -rounds 1 -duration 3s -out ""      # a first look
//
// All servers run all the time and take turns. Requests are sent by the clock, and a latency counts from the time at
// which the request was due. A server is measured twice: at half of its own rate, and at half of the slowest server's.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/bench/turns"
)

type settings struct {
	rounds, conns int
	duration      time.Duration
}

func main() {
	rounds := command.Count("rounds", 12, "how often all servers take their turn; the median counts")
	conns := command.Count("conns", 1000, "connections")
	duration := command.Span("duration", 5*time.Second, "how long a server is measured at a rate in a round")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return measure(ctx, folder, settings{rounds: *rounds, conns: *conns, duration: *duration})
	})
}

func measure(ctx context.Context, folder string, s settings) (section page.Section, err error) {
	programs, err := turns.Build(ctx, folder)
	if err != nil {
		return section, err
	}
	servers, stop, err := programs.StartAll(ctx)
	if err != nil {
		return section, err
	}
	defer stop()
	rounds := make([][]figures, len(servers))
	for round := range s.rounds {
		all, err := s.round(ctx, servers)
		if err != nil {
			return section, err
		}
		for i, f := range all {
			rounds[i] = append(rounds[i], f)
		}
		log.Printf("round %d of %d: %+v", round+1, s.rounds, all)
	}
	return page.Section{
		Title: "Latency", Command: "latency", Table: table(rounds),
		About: fmt.Sprintf("%d connections; requests at half of the rate at which a server answers them with one in flight on each. "+
			"The median of %d rounds, %v each. Latency counts from the time at which a request was due.", s.conns, s.rounds, s.duration),
		Notes: "Server and load share the cores of the machine. How late requests leave is the work of the load and of the scheduler.",
	}, nil
}

// figures are those of a server in a round.
type figures struct {
	capacity  float64 // requests a second
	own, same load.PaceResult
}

// round measures all servers. The capacity of the slowest is known after the first turn.
func (s settings) round(ctx context.Context, servers []*process.Process) ([]figures, error) {
	all := make([]figures, len(servers))
	slowest := math.Inf(1)
	for i, p := range servers {
		err := s.connected(ctx, p, func(swarm *load.Swarm) (err error) {
			if all[i].capacity, err = s.capacity(ctx, swarm); err == nil {
				all[i].own, err = s.pace(ctx, swarm, all[i].capacity/2)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		slowest = min(slowest, all[i].capacity)
	}
	for i, p := range servers {
		err := s.connected(ctx, p, func(swarm *load.Swarm) (err error) {
			all[i].same, err = s.pace(ctx, swarm, slowest/2)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s settings) connected(ctx context.Context, p *process.Process, do func(*load.Swarm) error) error {
	swarm, err := load.Open(ctx, load.Target{Addr: p.Addr, Path: "/ws"}, s.conns)
	if err != nil {
		return err
	}
	defer swarm.Close()
	return do(swarm)
}

// warmUp and probe are how long the load lasts before and while the capacity is measured, at most.
const warmUp, probe = 500 * time.Millisecond, 3 * time.Second

func (s settings) capacity(ctx context.Context, swarm *load.Swarm) (float64, error) {
	if _, err := swarm.Echo(ctx, load.Plan{InFlight: 1, Duration: min(warmUp, s.duration)}); err != nil {
		return 0, err
	}
	got, err := swarm.Echo(ctx, load.Plan{InFlight: 1, Duration: min(probe, s.duration)})
	return float64(got.Answered) / got.Elapsed.Seconds(), err
}

func (s settings) pace(ctx context.Context, swarm *load.Swarm, rate float64) (load.PaceResult, error) {
	if _, err := swarm.Pace(ctx, load.PacePlan{Rate: rate, Duration: min(warmUp, s.duration)}); err != nil {
		return load.PaceResult{}, err
	}
	return swarm.Pace(ctx, load.PacePlan{Rate: rate, Duration: s.duration})
}

// table compares the servers by the medians of their rounds.
func table(servers [][]figures) [][]string {
	return [][]string{
		page.CompareHead("figure", turns.Names()[1:]),
		turns.Compare(servers, page.Compared{Title: "capacity, requests a second", More: true}, func(f figures) float64 { return f.capacity }),
		turns.Compare(servers, page.Compared{Title: "at half of it: p50 (ms)"}, func(f figures) float64 { return stats.Millis(f.own.P50) }),
		turns.Compare(servers, page.Compared{Title: "at half of it: p99 (ms)"}, func(f figures) float64 { return stats.Millis(f.own.P99) }),
		turns.Compare(servers, page.Compared{Title: "at half of it: p99.9 (ms)", Target: 1}, func(f figures) float64 { return stats.Millis(f.own.P999) }),
		turns.Compare(servers, page.Compared{Title: "at half of it: longest (ms)"}, func(f figures) float64 { return stats.Millis(f.own.Max) }),
		turns.Compare(servers, page.Compared{Title: "at half of it: requests left late, p99.9 (ms)"}, func(f figures) float64 { return stats.Millis(f.own.Late) }),
		turns.Compare(servers, page.Compared{Title: "at half of the slowest's: p50 (ms)"}, func(f figures) float64 { return stats.Millis(f.same.P50) }),
		turns.Compare(servers, page.Compared{Title: "at half of the slowest's: p99 (ms)"}, func(f figures) float64 { return stats.Millis(f.same.P99) }),
		turns.Compare(servers, page.Compared{Title: "at half of the slowest's: p99.9 (ms)", Target: 1}, func(f figures) float64 { return stats.Millis(f.same.P999) }),
	}
}
