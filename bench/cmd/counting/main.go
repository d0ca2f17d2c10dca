// Counting measures what the router's own figures (router.Stats) cost: the CPU time of a message
// with them and without, and writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/counting                            # about two minutes
//	go run ./cmd/counting -rounds 3 -out ""          # a first look
//
// The server is cmd/echo, built twice: once as it is, and once with the build tag wskit_uncounted,
// which leaves counting out. Both run all the time, and the load alternates between them.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/turns"
)

const connections = 50

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 100, "how often both servers take their turn")
	messages := flag.Int("messages", 50_000, "messages of one turn")
	out := flag.String("out", "RESULTS.md", "file to write the section to; empty writes none")
	flag.Parse()
	if *rounds < 1 || *messages < 1 {
		log.Fatal("counting: -rounds and -messages must be positive")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *rounds, *messages, *out)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, rounds, messages int, out string) error {
	folder, err := os.MkdirTemp("", "counting")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	var servers [2]*process.Process
	for i, tags := range []string{"", "wskit_uncounted"} {
		binary := filepath.Join(folder, fmt.Sprint("echo", i))
		build := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", binary, "./cmd/echo")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("counting: go build: %w\n%s", err, text)
		}
		if servers[i], err = process.Start(ctx, binary, "-addr", "127.0.0.1:0"); err != nil {
			return err
		}
		defer servers[i].Stop()
	}

	lines := [][]string{{"CPU per message, 50 connections", "counting (µs)", "without (µs)", "counting ÷ without", "quartiles", "target", "met"}}
	for _, inFlight := range []int{1, 8, 32} {
		costs, err := turns.Take(len(servers), rounds, func(i int) (float64, error) {
			return turns.Message(ctx, servers[i], connections, inFlight, messages)
		})
		if err != nil {
			return err
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
	table := page.Table(lines)
	fmt.Print("\n", table)
	if out == "" {
		return nil
	}
	return page.Write(out, "Counting", fmt.Sprintf("%s\n"+
		"CPU of the server, user and system, with the figures of router.Stats and without; %d rounds of %d messages for each. The ratio is the median of those of the rounds.\n\n%s\n%s",
		page.Command("counting"), rounds, messages, table, page.Machine()))
}
