// Contention measures how long wskit waits for its own locks: it runs cmd/echo with GOMAXPROCS far above the number of
// cores, so that goroutines are interrupted while they hold locks, and writes the table to its section of RESULTS.md.
// Run it inside bench/:
//
//	go run ./cmd/contention                       # a minute
//	go run ./cmd/contention -duration 1s -out ""  # a first look
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/stats"
)

func main() {
	procs := command.Count("procs", 32, "GOMAXPROCS of the server")
	duration := command.Span("duration", 5*time.Second, "how long one measurement lasts")
	conns := command.Count("conns", 1000, "connections")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return run(ctx, folder, *procs, *conns, *duration)
	})
}

// scenario loads a server and returns how many messages or connections that were.
type scenario struct {
	name string
	load func(ctx context.Context, addr string, conns int, d time.Duration) (int, error)
}

var scenarios = []scenario{
	{"message, 1 in flight", echo(1)},
	{"message, 8 in flight", echo(8)},
	{"message, 32 in flight", echo(32)},
	{"delivery to a topic", fan},
	{"connection, 16 at once", visits},
}

func run(ctx context.Context, folder string, procs, conns int, d time.Duration) (section page.Section, err error) {
	echo, err := process.Build(ctx, folder, process.Cmd+"echo")
	if err != nil {
		return section, err
	}
	// The server is started with this environment.
	if err := os.Setenv("GOMAXPROCS", strconv.Itoa(procs)); err != nil {
		return section, err
	}
	lines := [][]string{{"for each", "CPU (µs)", "waiting for locks (µs)", "of this for wskit's", "the most of these for"}}
	for _, s := range scenarios {
		line, err := measure(ctx, s, echo, conns, d)
		if err != nil {
			return section, fmt.Errorf("%s: %w", s.name, err)
		}
		lines = append(lines, line)
		log.Print(line)
	}
	return page.Section{
		Title: "Locks", Command: "contention", Table: lines,
		About: fmt.Sprintf("The server has GOMAXPROCS %d; %d connections, %v each. Waiting is that of all goroutines together, for locks of the runtime, the library and wskit.",
			procs, conns, d),
	}, nil
}

func measure(ctx context.Context, s scenario, binary string, conns int, d time.Duration) ([]string, error) {
	p, err := process.Start(ctx, binary, "-addr", "127.0.0.1:0", "-locks")
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	n := 0
	used, err := p.CPUDuring(func() (err error) {
		n, err = s.load(ctx, p.Addr, conns, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	locks, err := locksOf(ctx, p.Addr)
	if err != nil {
		return nil, err
	}
	each := func(t time.Duration) string { return page.Number(stats.Micros(t) / float64(n)) }
	all, own, most, where := 0.0, 0.0, 0.0, "–"
	for function, t := range locks.By {
		all += t
		name, ok := strings.CutPrefix(function, server.Wskit)
		if !ok {
			continue
		}
		own += t
		if t > most {
			most, where = t, name
		}
	}
	share := 0.0
	if all > 0 {
		share = own / all
	}
	return []string{s.name, each(used), each(locks.Waited), fmt.Sprintf("%.0f %%", 100*share), where}, nil
}

func locksOf(ctx context.Context, addr string) (locks server.Locks, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/debug/locks", nil)
	if err != nil {
		return locks, err
	}
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return locks, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return locks, fmt.Errorf("/debug/locks answers %s", res.Status)
	}
	return locks, json.NewDecoder(res.Body).Decode(&locks)
}

func echo(inFlight int) func(context.Context, string, int, time.Duration) (int, error) {
	return func(ctx context.Context, addr string, conns int, d time.Duration) (int, error) {
		swarm, err := load.Open(ctx, load.Target{Addr: addr, Path: "/ws"}, conns)
		if err != nil {
			return 0, err
		}
		defer swarm.Close()
		result, err := swarm.Echo(ctx, load.Plan{InFlight: inFlight, Duration: d})
		return result.Answered, err
	}
}

func fan(ctx context.Context, addr string, conns int, d time.Duration) (int, error) {
	swarm, err := load.Open(ctx, load.Target{Addr: addr, Path: "/fan"}, conns+1)
	if err != nil {
		return 0, err
	}
	defer swarm.Close()
	result, err := swarm.Fan(ctx, load.FanPlan{InFlight: 8, Duration: d})
	return result.Delivered, err
}

// visits opens and closes connections, 16 at a time.
func visits(ctx context.Context, addr string, _ int, d time.Duration) (int, error) {
	const clients, batch = 16, 20
	var wg sync.WaitGroup
	counts, errs := make([]int, clients), make([]error, clients)
	until := time.Now().Add(d)
	for i := range clients {
		wg.Go(func() {
			for time.Now().Before(until) && errs[i] == nil {
				errs[i] = load.Visit(ctx, load.Target{Addr: addr, Path: "/visit", Token: server.Token}, batch)
				counts[i] += batch
			}
		})
	}
	wg.Wait()
	n := 0
	for i := range clients {
		if errs[i] != nil {
			return 0, errs[i]
		}
		n += counts[i]
	}
	return n, nil
}
