// Visits compares what a connection costs that is opened, has one request answered and is closed: handshake,
// authentication, connection gate, OnOpen, the request, the close frames. It compares wskit with its rivals, plain and
// under TLS with sessions that are resumed, and writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/visits                            # about two minutes
//	go run ./cmd/visits -rounds 3 -out ""          # a first look
//
// All servers run all the time, and the load visits them in short turns.
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
	"strconv"
	"syscall"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/rival"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/turns"
)

// most is the bound of the ratio to the best rival.
const most = 0.9

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 20, "how often all servers take their turn")
	visits := flag.Int("visits", 500, "connections of one turn")
	out := flag.String("out", "RESULTS.md", "file to write the section to; empty writes none")
	flag.Parse()
	if *rounds < 1 || *visits < 1 {
		log.Fatal("visits: -rounds and -visits must be positive")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *rounds, *visits, *out)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, rounds, visits int, out string) error {
	folder, err := os.MkdirTemp("", "visits")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, name := range []string{"echo", "rival"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(folder, name), "./cmd/"+name)
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("visits: go build (run this inside bench/): %w\n%s", err, text)
		}
	}
	head := []string{"CPU per connection (µs)", "wskit"}
	head = append(head, rival.Kinds()...)
	lines := [][]string{append(head, "ours ÷ best rival", "quartiles", "target", "met")}
	for _, secure := range []bool{false, true} {
		line, err := compare(ctx, folder, secure, rounds, visits)
		if err != nil {
			return err
		}
		lines = append(lines, line)
		log.Print(line)
	}
	table := page.Table(lines)
	fmt.Print("\n", table)
	if out == "" {
		return nil
	}
	return page.Write(out, "Visits", fmt.Sprintf("%s\n"+
		"CPU of the server, user and system; %d rounds of %d connections for each. The ratio is the median of those of the rounds.\n\n%s\n%s",
		page.Command("visits"), rounds, visits, table, page.Machine()))
}

// compare returns a line of the table. The first server is wskit.
func compare(ctx context.Context, folder string, secure bool, rounds, visits int) ([]string, error) {
	var servers []*process.Process
	for i, kind := range append([]string{"wskit"}, rival.Kinds()...) {
		program, args := "rival", []string{"-addr", "127.0.0.1:0", "-tls=" + strconv.FormatBool(secure), "-kind", kind}
		if i == 0 {
			program, args = "echo", args[:3]
		}
		p, err := process.Start(ctx, filepath.Join(folder, program), args...)
		if err != nil {
			return nil, err
		}
		defer p.Stop()
		servers = append(servers, p)
	}
	costs, err := turns.Take(len(servers), rounds, func(i int) (float64, error) {
		return visit(ctx, servers[i], secure, visits)
	})
	if err != nil {
		return nil, err
	}
	best := 1
	name := "plain"
	if secure {
		name = "TLS, session resumed"
	}
	line := []string{name}
	for i := range servers {
		line = append(line, page.Number(costs.Median(i)))
		if i > 1 && costs.Median(i) < costs.Median(best) {
			best = i
		}
	}
	ratio, lower, upper := costs.Ratio(0, best)
	return append(line, page.Number(ratio), page.Number(lower)+" to "+page.Number(upper), fmt.Sprintf("≤ %g ×", most), page.Met(ratio <= most)), nil
}

// settle is how long servers have for what they do after the last connection is closed.
const settle = 20 * time.Millisecond

// visit returns the CPU time of a server for a connection, in microseconds.
func visit(ctx context.Context, p *process.Process, secure bool, n int) (float64, error) {
	before, err := p.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := load.Visit(ctx, load.Target{Addr: p.Addr, Path: "/visit", TLS: secure, Token: server.Token}, n); err != nil {
		return 0, err
	}
	time.Sleep(settle)
	after, err := p.CPUTime()
	return float64(after-before) / float64(n) / float64(time.Microsecond), err
}
