// Bun compares wskit with raw uWebSockets on Bun: the CPU time of a message, with the same work done by hand in
// JavaScript (bench/bun/echo.js). It writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/bun                            # about two minutes
//	go run ./cmd/bun -rounds 3 -out ""          # a first look
//
// It installs Bun with npm in bench/bun, unless that has been done. Both servers run all the time, and the load
// alternates between them.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/turns"
)

// targets are the bounds of the ratio, by the number of messages in flight.
var targets = []struct {
	inFlight int
	ratio    float64
}{{1, 1.3}, {8, 1.7}, {32, 1.9}}

func main() {
	rounds := command.Count("rounds", 40, "how often both servers take their turn")
	messages := command.Count("messages", 50_000, "messages of one turn")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return measure(ctx, folder, *rounds, *messages)
	})
}

func measure(ctx context.Context, folder string, rounds, messages int) (section page.Section, err error) {
	echo, err := process.Build(ctx, folder, process.Cmd+"echo")
	if err != nil {
		return section, err
	}
	bun, version, err := install(ctx)
	if err != nil {
		return section, err
	}
	ours, err := process.Start(ctx, echo, "-addr", "127.0.0.1:0")
	if err != nil {
		return section, err
	}
	defer ours.Stop()
	theirs, err := process.Start(ctx, bun, "bun/echo.js")
	if err != nil {
		return section, err
	}
	defer theirs.Stop()

	lines := [][]string{{"CPU per message, 50 connections", "wskit (µs)", "Bun (µs)", "wskit ÷ Bun", "quartiles", "target", "met"}}
	servers := []*process.Process{ours, theirs}
	for _, target := range targets {
		costs, err := turns.Messages(ctx, servers, target.inFlight, rounds, messages)
		if err != nil {
			return section, err
		}
		ratio, lower, upper := costs.Ratio(0, 1)
		lines = append(lines, []string{fmt.Sprintf("%d in flight", target.inFlight), page.Number(costs.Median(0)), page.Number(costs.Median(1)),
			page.Number(ratio), page.Number(lower) + " to " + page.Number(upper), fmt.Sprintf("≤ %g", target.ratio), page.Met(ratio <= target.ratio)})
		log.Printf("%d in flight: %.2f", target.inFlight, ratio)
	}
	return page.Section{
		Title: "uWebSockets on Bun", Command: "bun", Table: lines,
		About: fmt.Sprintf("CPU of the server, user and system; %d rounds of %d messages for each. The ratio is the median of those of the rounds. Bun %s.",
			rounds, messages, version),
	}, nil
}

// install puts Bun into bench/bun/node_modules, unless the version of the lock file is there, and returns the
// program.
func install(ctx context.Context) (program, version string, err error) {
	const folder = "bun"
	program = filepath.Join(folder, "node_modules", ".bin", "bun")
	locked, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return "", "", fmt.Errorf("bun: run this inside bench/: %w", err)
	}
	installed, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	if err != nil || installed.ModTime().Before(locked.ModTime()) {
		npm := exec.CommandContext(ctx, "npm", "ci", "--loglevel=error", "--no-audit", "--no-fund")
		npm.Dir = folder
		if err := process.Quietly(npm); err != nil {
			return "", "", err
		}
	}
	text, err := exec.CommandContext(ctx, program, "--version").Output()
	return program, strings.TrimSpace(string(text)), err
}
