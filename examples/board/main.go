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
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	wskitjs "github.com/wskit/wskit/clients/typescript"
	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/errors"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8084", "`host:port` to serve on; port 0 lets the system choose")
	redisURL := flag.String("redis", "", "`URL` of a Redis, redis://host:port, that several servers share; "+
		"they need the same secret of 32 bytes or more in BOARD_SECRET, so that pages can resume on each of them")
	contract.Flags(flag.CommandLine, describe)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *redisURL, os.Getenv("BOARD_SECRET")); err != nil {
		fmt.Fprintln(os.Stderr, "board:", err)
		os.Exit(1)
	}
}

// describe returns the types of the board's messages, for its page:
//
//	go run ./examples/board -contract ts > examples/board/static/contract.d.ts
func describe() (*contract.Contract, error) {
	return contract.Of(NewBoards(inMemory()).Router, contract.Options{Title: "Board"})
}

// serve runs the server until ctx is done, and then shuts it down.
func serve(ctx context.Context, addr, redisURL, secret string) (err error) {
	backend := inMemory()
	if redisURL != "" {
		if backend, err = onRedis(ctx, redisURL, secret); err != nil {
			return err
		}
		defer backend.close()
	}
	boards := NewBoards(backend)
	mux := http.NewServeMux()
	mux.Handle("/ws", boards)
	mux.Handle("/wskit.js", wskitjs.Handler())
	mux.Handle("/", page())
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Printf("Board on http://%s (Ctrl-C ends it)\n", listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(boards.Shutdown(ctx), server.Shutdown(ctx)) // the router first
}
