// Players measures what the positions of a game cost the server: 100 players move 20 times a second, and each of them
// wants to see all. Every position is a message of its own, or package collect collects them. It writes the table to
// its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/players                         # about a minute
//	go run ./cmd/players -rounds 1 -out ""       # a first look
//
// Server and clients are processes of their own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/collect"
	"github.com/wskit/wskit/router"
)

const (
	players = 100
	every   = 50 * time.Millisecond
)

func main() {
	rounds := command.Count("rounds", 3, "how often each way takes its turn; the median counts")
	duration := command.Span("duration", 5*time.Second, "how long one measurement lasts, after a warm-up of a quarter of it")
	collected := flag.Bool("collect", false, "whether the server of -serve collects positions")
	command.Child("serve", func(context.Context) error { return serve(*collected) })
	command.Main(func(ctx context.Context, _ string) (page.Section, error) { return run(ctx, *rounds, *duration) })
}

type position struct {
	Player string `json:"player"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
}

// serve lets all who connect see each other's positions.
func serve(collecting bool) error {
	r := router.New(router.Options{OnOpen: func(c *router.Conn) error { return c.Subscribe(c.Context(), "room") }})
	one := router.Declare[position](r, "moved")
	moves := collect.New(router.Declare[[]position](r, "positions"), func(p position) string { return p.Player }, collect.Options{Every: every})
	router.On(r, "move", func(c *router.Context, p position) error {
		p.Player = c.Conn().ID()
		if collecting {
			return moves.Publish("room", p)
		}
		return one.Publish(c, "room", p, router.PublishOptions{Overflow: router.OverflowLatestOnly, Key: p.Player})
	})
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.HandleFunc("/figures", func(w http.ResponseWriter, _ *http.Request) {
		s := r.Stats()
		fmt.Fprintln(w, s.FramesWritten, s.FramesDropped)
	})
	return server.Serve(&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second})
}

func run(ctx context.Context, rounds int, duration time.Duration) (section page.Section, err error) {
	ways := []string{"each position a message, OverflowLatestOnly", "package collect"}
	results := make([][]figures, len(ways))
	for range rounds {
		for i := range ways {
			f, err := measure(ctx, i == 1, duration)
			if err != nil {
				return section, fmt.Errorf("%s: %w", ways[i], err)
			}
			log.Printf("%s: %+v", ways[i], f)
			results[i] = append(results[i], f)
		}
	}
	lines := [][]string{{"way", "CPU (s per s)", "messages (per s)", "replaced before they were sent"}}
	for i, way := range ways {
		lines = append(lines, []string{
			way, page.Number(stats.Median(results[i], func(f figures) float64 { return f.cpu })),
			page.Number(stats.Median(results[i], func(f figures) float64 { return f.sent })),
			fmt.Sprintf("%.0f %%", 100*stats.Median(results[i], func(f figures) float64 { return f.replaced })),
		})
	}
	return page.Section{
		Title: "Positions of players", Command: "players", Table: lines,
		About: fmt.Sprintf("CPU of the server, user and system; %d players move every %v, and each sees all; the median of %d rounds, %v each.", players, every, rounds, duration),
	}, nil
}
