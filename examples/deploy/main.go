// Deploy is a server with what a deployment needs: it reports whether it is ready, and when it is stopped it answers
// what it is handling before it closes its connections. chat.service, Dockerfile and kubernetes.yaml start it;
// docs/deployment.md explains each.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wskit/wskit/router"
)

// defaultAddr is port 8080 of all addresses of the machine or container.
const defaultAddr = ":8080"

func main() {
	addr := flag.String("addr", defaultAddr, "address to listen on")
	flag.Parse()
	if err := run(*addr); err != nil {
		log.Fatal(err)
	}
}

// newRouter has the messages of the application.
func newRouter() *router.Router {
	r := router.New(router.Options{})
	router.RPC(r, "echo", func(_ *router.Context, text string) (string, error) { return text, nil })
	return r
}

func run(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", addr) // ":8080"
	if err != nil {
		return err
	}
	log.Printf("listening on ws://%s/ws", listener.Addr())
	return serveUntil(ctx, listener, newRouter())
}

// serveUntil serves until ctx is done, lets handlers finish, and sends clients to other servers.
func serveUntil(ctx context.Context, listener net.Listener, r *router.Router) error {
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("GET /ready", r.Ready())
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done(): // SIGTERM
	}
	deadline, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(r.Shutdown(deadline), server.Shutdown(deadline)) // the router first
}
