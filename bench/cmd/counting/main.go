// Counting measures what the router's own figures (router.Stats) cost: the CPU time of a message
// with them and without, and writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/counting                            # about four minutes
//	go run ./cmd/counting -rounds 3 -out ""          # a first look
//
// The server is cmd/echo, built twice: once as it is, and once with the build tag wskit_uncounted,
// which leaves counting out. Both run all the time, and the load alternates between them.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/turns"
)

func main() {
	rounds := command.Count("rounds", 100, "how often both servers take their turn")
	messages := command.Count("messages", 50_000, "messages of one turn")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return measure(ctx, folder, *rounds, *messages)
	})
}

func measure(ctx context.Context, folder string, rounds, messages int) (section page.Section, err error) {
	var servers [2]*process.Process
	for i, flags := range [][]string{nil, {"-tags=wskit_uncounted"}} {
		echo, err := process.Build(ctx, folder, process.Cmd+"echo", flags...)
		if err != nil {
			return section, err
		}
		if servers[i], err = process.Start(ctx, echo, "-addr", "127.0.0.1:0"); err != nil {
			return section, err
		}
		defer servers[i].Stop()
	}

	lines := [][]string{{"CPU per message, 50 connections", "counting (µs)", "without (µs)", "counting ÷ without", "quartiles", "target", "met"}}
	for _, inFlight := range []int{1, 8, 32} {
		costs, err := turns.Messages(ctx, servers[:], inFlight, rounds, messages)
		if err != nil {
			return section, err
		}
		ratio, lower, upper := costs.Ratio(0, 1)
		target, met := "", ""
		if inFlight == 32 {
			target, met = "≤ 1.03", page.Met(ratio <= 1.03)
		}
		lines = append(lines, []string{fmt.Sprintf("%d in flight", inFlight), page.Number(costs.Median(0)), page.Number(costs.Median(1)),
			fmt.Sprintf("%.3f", ratio), fmt.Sprintf("%.3f to %.3f", lower, upper), target, met})
		log.Printf("%d in flight: %.3f", inFlight, ratio)
	}
	return page.Section{
		Title: "Counting", Command: "counting", Table: lines,
		About: fmt.Sprintf("CPU of the server, user and system, with the figures of router.Stats and without; %d rounds of %d messages for each. "+
			"The ratio is the median of those of the rounds.", rounds, messages),
	}, nil
}
