// Services measures what it costs the server when another service publishes over HTTP: package api, beside the HTTP API
// of Centrifugo, which is installed as a program, and beside publishing in Go. It writes the table to its section of
// RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/services                     # about a minute, and once some for Centrifugo
//	go run ./cmd/services -rounds 1 -out ""   # a first look
//
// Servers and senders are processes of their own. There are no subscribers: what delivery costs is in the other sections.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/router"
)

const (
	secret  = "of-the-benchmark-1"
	senders = 8 // at once, each over a connection that is kept
	batchOf = 50
)

func main() {
	rounds := command.Count("rounds", 7, "how often each way takes its turn; the median counts")
	calls := command.Count("calls", 40_000, "how many messages each way publishes in a turn")
	command.Child("serve", func(context.Context) error { return serve() })
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return run(ctx, folder, *rounds, *calls)
	})
}

type paid struct {
	ID    int    `json:"id" validate:"min=1"`
	Buyer string `json:"buyer" validate:"required"`
}

// serve publishes for others, and at /go in a loop of its own.
func serve() error {
	r := router.New()
	event := router.Declare[paid](r, "order.paid")
	mux := http.NewServeMux()
	mux.Handle("/v1/", api.Handler(r, api.Options{
		Authorize: api.Secrets(map[string]api.Grant{secret: {Name: "bench"}}),
		Logger:    slog.New(slog.DiscardHandler), // as Centrifugo, which logs no calls
	}))
	mux.HandleFunc("/go", func(w http.ResponseWriter, req *http.Request) {
		n, _ := strconv.Atoi(req.URL.Query().Get("n"))
		for i := range n {
			if err := event.Publish(req.Context(), "orders", paid{i + 1, "ann"}); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
	})
	return server.Serve(&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second})
}

// way is a way to publish.
type way struct {
	name   string
	server *process.Process
	path   string
	header string // that has the secret
	prefix string // of its value
	body   string // of a request
	per    int    // messages of a request
}

type figures struct{ cpu, rate float64 }

func run(ctx context.Context, folder string, rounds, calls int) (section page.Section, err error) {
	self, err := os.Executable()
	if err != nil {
		return section, err
	}
	wskit, err := process.Start(ctx, self, "-serve")
	if err != nil {
		return section, err
	}
	defer wskit.Stop()
	rival, err := process.StartCentrifugo(ctx, folder, map[string]any{"http_api": map[string]any{"key": secret}})
	if err != nil {
		return section, err
	}
	defer rival.Stop()
	const one = `{"topic":"orders","event":"order.paid","data":{"id":7,"buyer":"ann"}}`
	const theirs = `{"channel":"orders","data":{"event":"order.paid","id":7,"buyer":"ann"}}`
	ways := []way{
		{"package api", wskit, "/v1/publish", "Authorization", "Bearer ", one, 1},
		{"Centrifugo", rival, "/api/publish", "X-API-Key", "", theirs, 1},
		{"package api, batches of 50", wskit, "/v1/batch", "Authorization", "Bearer ",
			`{"calls":[` + repeated(`{"call":"publish","params":`+one+`}`) + `]}`, batchOf},
		{"Centrifugo, batches of 50", rival, "/api/batch", "X-API-Key", "",
			`{"commands":[` + repeated(`{"publish":`+theirs+`}`) + `]}`, batchOf},
		{"Event.Publish in Go", wskit, "", "", "", "", 1},
	}
	results := make([][]figures, len(ways))
	for round := range rounds + 1 { // the first one warms up
		for k := range ways {
			i := (k + round) % len(ways)
			f, err := ways[i].measure(ctx, calls)
			if err != nil {
				return section, fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if log.Printf("%s: %+v", ways[i].name, f); round > 0 {
				results[i] = append(results[i], f)
			}
		}
	}
	cpu := func(i int) float64 { return stats.Median(results[i], func(f figures) float64 { return f.cpu }) }
	lines := [][]string{{"way", "CPU of the server (µs per message)", "messages (per s)"}}
	for i, w := range ways {
		rate := stats.Median(results[i], func(f figures) float64 { return f.rate })
		lines = append(lines, []string{w.name, page.Number(cpu(i)), page.Number(rate)})
	}
	return page.Section{
		Title: "Publishing over HTTP", Command: "services", Table: lines,
		About: fmt.Sprintf("CPU of the server, user and system, for a message that a service publishes with %d requests at once, to "+
			"a topic without subscribers; the median of %d rounds of %d messages. wskit checks the data against a Go type; Centrifugo "+
			"has none.", senders, rounds, calls),
		Notes: fmt.Sprintf("wskit ÷ Centrifugo: %.2f for single calls, %.2f in batches. A call costs %.0f times what publishing in Go costs.",
			cpu(0)/cpu(1), cpu(2)/cpu(3), cpu(0)/cpu(4)),
		Libraries: []string{"centrifugo " + process.Centrifugo},
	}, nil
}

func repeated(call string) string {
	return call + string(bytes.Repeat([]byte(","+call), batchOf-1))
}

// measure publishes n messages.
func (w way) measure(ctx context.Context, n int) (f figures, err error) {
	begun := time.Now()
	used, err := w.server.CPUDuring(func() error {
		if w.path == "" {
			return w.get(ctx, n)
		}
		return w.post(ctx, n/w.per)
	})
	if err != nil {
		return f, err
	}
	return figures{stats.Micros(used) / float64(n), float64(n) / time.Since(begun).Seconds()}, nil
}

func (w way) get(ctx context.Context, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/go?n=%d", w.server.Addr, n), nil)
	if err != nil {
		return err
	}
	return answered(http.DefaultClient, req)
}

// post sends requests, each sender over a connection of its own.
func (w way) post(ctx context.Context, n int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	errs := make([]error, senders)
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for range n / senders {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.server.Addr+w.path, bytes.NewReader([]byte(w.body)))
				if err == nil {
					req.Header.Set(w.header, w.prefix+secret)
					req.Header.Set("Content-Type", "application/json")
					err = answered(client, req)
				}
				if err != nil {
					errs[s] = err
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func answered(client *http.Client, req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"error":{`))) {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return err
}
