// Deploy is a server with what a deployment needs: it reports whether it is ready, and when it is stopped it answers
// what it is handling before it closes its connections. chat.service, Dockerfile and kubernetes.yaml start it;
// docs/deployment.md explains each.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

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
	r := router.New()
	router.RPC(r, "echo", func(_ *router.Context, text string) (string, error) { return text, nil })
	return r
}

// run serves until the process gets SIGTERM, lets handlers finish, and sends clients to other servers.
func run(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := newRouter()
	return r.Serve(ctx, newServer(addr, r))
}

// newServer has the paths of the server.
func newServer(addr string, r *router.Router) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("GET /ready", r.Ready())
	return &http.Server{Addr: addr, Handler: mux}
}
