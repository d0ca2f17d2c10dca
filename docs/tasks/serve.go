package tasks

import (
	"context"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/wskit/wskit/router"
)

// serve listens, is ready, and ends in good order.
func serve(r *router.Router) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/ready", r.Ready())
	return r.Serve(ctx, &http.Server{Addr: ":8080", Handler: mux})
}
