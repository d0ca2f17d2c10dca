// Board is a drawing board that several people share, and an example of messages that are kept:
// late members get the whole drawing, and a page that slept gets what it missed.
//
//	go run ./examples/board
//	go run ./examples/board -addr 127.0.0.1:8085 -redis redis://127.0.0.1:6379
//
// Read the files in this order: main.go starts and stops the server, board.go has the messages and
// their handlers, members.go the connections of each board and the question to them, and limits.go the
// limits. The page is in static/; its types in contract.d.ts are generated.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	wskitjs "github.com/wskit/wskit/clients/typescript"
	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/examples/internal/page"
)

//go:embed static
var static embed.FS

func main() {
	addr := flag.String("addr", "127.0.0.1:8084", "`host:port` to serve on; port 0 lets the system choose")
	redisURL := flag.String("redis", "", "`URL` of a Redis, redis://host:port, that several servers share")
	contract.Flags(flag.CommandLine, describe)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *redisURL); err != nil {
		fmt.Fprintln(os.Stderr, "board:", err)
		os.Exit(1)
	}
}

// describe returns the types of the board's messages, for its page:
//
//	go run ./examples/board -contract ts > examples/board/static/contract.d.ts
func describe() (*contract.Contract, error) {
	return contract.Of(NewBoards(memory.New()).Router, contract.Options{Title: "Board"})
}

// serve runs the server until ctx is done, and then shuts it down.
func serve(ctx context.Context, addr, redisURL string) (err error) {
	backend := memory.New()
	if redisURL != "" {
		if backend, err = redis.Open(ctx, redisURL, redis.Options{Prefix: "board"}); err != nil {
			return err
		}
	}
	boards := NewBoards(backend)
	mux := http.NewServeMux()
	mux.Handle("/ws", boards)
	mux.Handle("/wskit.js", wskitjs.Handler())
	mux.Handle("/keep.js", wskitjs.Handler())
	mux.Handle("/", page.Handler(static))
	server := &http.Server{Addr: addr, Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	server.BaseContext = func(l net.Listener) context.Context {
		fmt.Printf("Board on http://%s (Ctrl-C ends it)\n", l.Addr())
		return context.Background()
	}
	return boards.Serve(ctx, server)
}
