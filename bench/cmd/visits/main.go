// Visits compares what a connection costs that is opened, has one request answered and is closed: handshake,
// authentication, connection gate, OnOpen, the request, the close frames. It compares wskit with its rivals, plain and
// under TLS with sessions that are resumed, by one client after the other and by many at a time, and writes the table
// to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/visits                            # about three minutes
//	go run ./cmd/visits -rounds 3 -out ""          # a first look
//
// All servers run all the time, and the load visits them in short turns.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/rival"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/turns"
)

const (
	// most is the bound of the ratio to the best rival.
	most = 0.9
	// many is how many clients visit at a time, in every second line.
	many = 32
)

// kind is what the visits of a line have in common.
type kind struct {
	secure  bool
	clients int // at a time
}

func (k kind) String() string {
	name := "plain"
	if k.secure {
		name = "TLS, session resumed"
	}
	if k.clients > 1 {
		name += fmt.Sprintf(", %d clients at a time", k.clients)
	}
	return name
}

func main() {
	rounds := command.Count("rounds", 20, "how often all servers take their turn")
	visits := command.Count("visits", 500, "connections of one turn")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return measure(ctx, folder, *rounds, *visits)
	})
}

func measure(ctx context.Context, folder string, rounds, visits int) (page.Section, error) {
	programs, err := turns.Build(ctx, folder)
	if err != nil {
		return page.Section{}, err
	}
	head := []string{"CPU per connection (µs)", "wskit"}
	head = append(head, rival.Kinds()...)
	lines := [][]string{append(head, "ours ÷ best rival", "quartiles", "target", "met")}
	for _, secure := range []bool{false, true} {
		for _, clients := range []int{1, many} {
			line, err := compare(ctx, programs, kind{secure, clients}, rounds, visits)
			if err != nil {
				return page.Section{}, err
			}
			lines = append(lines, line)
			log.Print(line)
		}
	}
	return page.Section{
		Title: "Visits", Command: "visits", Table: lines,
		About: fmt.Sprintf("CPU of the server, user and system; %d rounds of %d connections for each. The ratio is the median of those of the rounds.", rounds, visits),
	}, nil
}

// compare returns a line of the table. The first server is wskit.
func compare(ctx context.Context, programs turns.Programs, k kind, rounds, visits int) ([]string, error) {
	servers, stop, err := programs.StartAll(ctx, "-tls="+strconv.FormatBool(k.secure))
	if err != nil {
		return nil, err
	}
	defer stop()
	costs, err := turns.Take(len(servers), rounds, func(i int) (float64, error) {
		return visit(ctx, servers[i], k, visits)
	})
	if err != nil {
		return nil, err
	}
	best := 1
	line := []string{k.String()}
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

// visit returns the CPU time of a server for a connection, in microseconds. n is shared out among the clients.
func visit(ctx context.Context, p *process.Process, k kind, n int) (float64, error) {
	return turns.CPU(p, n, func() error {
		var visiting sync.WaitGroup
		failed := make([]error, k.clients)
		for i := range failed {
			visiting.Go(func() {
				share := n*(i+1)/k.clients - n*i/k.clients
				failed[i] = load.Visit(ctx, load.Target{Addr: p.Addr, Path: "/visit", TLS: k.secure, Token: server.Token}, share)
			})
		}
		visiting.Wait()
		time.Sleep(settle)
		return errors.Join(failed...)
	})
}
