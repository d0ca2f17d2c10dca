// Commit measures events that are published in transactions of PostgreSQL: adapters/postgres, beside the PostgreSQL
// broker of Centrifugo, which is installed as a program, on the same server. It writes the table to its section of
// RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/commit                                    # about four minutes, and once some for Centrifugo
//	go run ./cmd/commit -rounds 1 -open 5s -for 2s -out "" # a first look
//
// Each transaction writes a row and calls the SQL function by which it publishes, over a connection of this process. A
// connection to the server, in this process as well, is subscribed to all topics: an event has arrived when it has it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/router"
)

const (
	topics  = 64
	callers = 16  // at once
	paced   = 200 // transactions a second, for latencies
	dsn     = "WSKIT_BENCH_POSTGRES"
)

// topic is the name of a topic.
func topic(n int) string { return fmt.Sprint("orders:", n) }

func main() {
	rounds := command.Count("rounds", 5, "how often each server takes its turn; the median counts")
	lasts := command.Span("for", 5*time.Second, "how long each figure is measured in a turn")
	open := command.Span("open", time.Minute, "how long a transaction stays open that has published")
	command.Child("serve", serve)
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return run(ctx, folder, *rounds, *lasts, *open)
	})
}

// serve is the server of wskit.
func serve(ctx context.Context) error {
	backend, err := postgres.Open(ctx, os.Getenv(dsn), postgres.Options{MaxConns: 16})
	if err != nil {
		return err
	}
	r := router.New(router.Options{Backend: backend})
	r.History("orders:*")
	event := router.Declare[json.RawMessage](r, "order.paid")
	mux := http.NewServeMux()
	mux.Handle("/", r)
	mux.HandleFunc("/publish", func(w http.ResponseWriter, req *http.Request) { // as a handler publishes
		payload, err := io.ReadAll(req.Body)
		if err == nil {
			err = event.Publish(req.Context(), req.URL.Query().Get("topic"), payload)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
	return server.Serve(&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second})
}

// rows are the rounds of one server.
type rows struct {
	published, functions, commits []float64 // a second
	latencies                     []latency
	open                          latency
}

func run(ctx context.Context, folder string, rounds int, lasts, open time.Duration) (section page.Section, err error) {
	url, stop, err := process.StartPostgres(ctx)
	if err != nil {
		return section, err
	}
	defer stop()
	sides, end, err := start(ctx, folder, url)
	defer end()
	if err != nil {
		return section, err
	}
	results := make([]rows, len(sides))
	for round := range rounds + 1 { // the first one warms up
		for k := range sides {
			i := (k + round) % len(sides)
			s, r := sides[i], &results[i]
			var rates [3]float64
			for n, do := range []func(context.Context, int) error{s.post, s.call, s.transactNow} {
				if rates[n], err = s.rate(ctx, lasts, do); err != nil {
					return section, fmt.Errorf("%s: %w", s.name, err)
				}
			}
			l, err := s.paced(ctx, lasts)
			if err != nil {
				return section, fmt.Errorf("%s: %w", s.name, err)
			}
			if log.Printf("%s: %.0f a second; %v", s.name, rates, l); round > 0 {
				r.published, r.functions = append(r.published, rates[0]), append(r.functions, rates[1])
				r.commits, r.latencies = append(r.commits, rates[2]), append(r.latencies, l)
			}
		}
	}
	for i, s := range sides {
		if results[i].open, err = s.besideOpen(ctx, open); err != nil {
			return section, fmt.Errorf("%s: %w", s.name, err)
		}
		log.Printf("%s: beside an open transaction: %v", s.name, results[i].open)
	}
	return table(sides, results, rounds, lasts, open), nil
}

func table(sides []*side, results []rows, rounds int, lasts, open time.Duration) page.Section {
	lines := [][]string{{"", sides[0].name, sides[1].name, "wskit ÷ Centrifugo"}}
	row := func(name string, of func(r rows) float64) (ratio float64) {
		a, b := of(results[0]), of(results[1])
		lines = append(lines, []string{name, page.Number(a), page.Number(b), fmt.Sprintf("%.2f", a/b)})
		return a / b
	}
	id := func(v float64) float64 { return v }
	row(
		"events a second, published over HTTP by the server",
		func(r rows) float64 { return stats.Median(r.published, id) },
	)
	row("events a second, each a call of the function", func(r rows) float64 { return stats.Median(r.functions, id) })
	row("transactions a second, of a row and an event", func(r rows) float64 { return stats.Median(r.commits, id) })
	row(
		"COMMIT to socket, p50 (ms)",
		func(r rows) float64 { return stats.Median(r.latencies, func(l latency) float64 { return l.p50 }) },
	)
	row(
		"COMMIT to socket, p99 (ms)",
		func(r rows) float64 { return stats.Median(r.latencies, func(l latency) float64 { return l.p99 }) },
	)
	row("the same of other topics, beside an open transaction, p99 (ms)", func(r rows) float64 { return r.open.p99 })
	row("the longest of them (ms)", func(r rows) float64 { return r.open.max })
	return page.Section{
		Title: "Commits in PostgreSQL", Command: "commit", Table: lines,
		About: fmt.Sprintf(
			"Events of %d topics with histories that are published by the SQL functions of both, over %d connections, to "+
				"one server with one client that has all topics; the median of %d rounds of %v. Latencies are from the beginning of COMMIT, "+
				"at %d transactions a second. Then a transaction that has published to a topic of its own stays open for %v, while others "+
				"publish to the other topics.",
			topics,
			callers,
			rounds,
			lasts,
			paced,
			open,
		),
		Notes: fmt.Sprintf(
			"While the transaction was open, %d of %d events of wskit and %d of %d of Centrifugo came more than a second "+
				"after they were due; %d and %d never came. Centrifugo uses NOTIFY, as wskit does, and has its other options as they are by default: a channel "+
				"shares a lock with an eighth of the others until the end of the transaction, and callers that wait for it soon have all "+
				"connections of this process.",
			results[0].open.late,
			results[0].open.events,
			results[1].open.late,
			results[1].open.events,
			results[0].open.missing,
			results[1].open.missing,
		),
		Libraries: []string{"centrifugo " + process.Centrifugo, page.Library("pgx", "github.com/jackc/pgx/v5")},
	}
}
