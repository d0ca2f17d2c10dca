package router

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/wskit/wskit/errors"
)

// What Serve sets where the server has 0, and how long it lets handlers and clients finish.
const (
	serveHeaderTime = 5 * time.Second
	serveReadTime   = 10 * time.Second
	serveIdleTime   = time.Minute
	serveDrainTime  = 20 * time.Second
)

// Serve listens on server.Addr and serves until ctx is done. Then it shuts down, the router first ([Router.Shutdown]),
// then the server, for 20 s together, and closes the Backend. It returns nil if all of that succeeded in time; the
// Backend is closed in any case. server.Handler leads to the router and to what else the program serves:
//
//	mux.Handle("/ws", r)
//	mux.Handle("GET /ready", r.Ready())
//	err := r.Serve(ctx, &http.Server{Addr: ":8080", Handler: mux})
//
// ctx is usually that of signal.NotifyContext, for SIGTERM. The server serves TLS if its TLSConfig has a certificate. A
// ReadHeaderTimeout of 0 becomes 5 s, a ReadTimeout of 0 10 s, and an IdleTimeout of 0 a minute: without them, an
// incomplete request stays open for ever. Negative: none. They end when a WebSocket is open, which has
// Options.Liveness. The log says on which address it listens.
//
// A program that needs other times calls Shutdown itself.
func (r *Router) Serve(ctx context.Context, server *http.Server) (err error) {
	defer func() {
		if r.opts.Backend.Close != nil {
			err = errors.Join(err, r.opts.Backend.Close())
		}
	}()
	listener, err := net.Listen("tcp", cmp.Or(server.Addr, ":http"))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("router: %s is in use by another program; set Addr to another port, or stop that program", server.Addr)
	}
	if err != nil {
		return err
	}
	server.ReadHeaderTimeout = cmp.Or(server.ReadHeaderTimeout, serveHeaderTime)
	server.ReadTimeout = cmp.Or(server.ReadTimeout, serveReadTime)
	server.IdleTimeout = cmp.Or(server.IdleTimeout, serveIdleTime)
	r.opts.Logger.Info("wskit: serving", "addr", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- serve(server, listener) }()
	select {
	case err = <-ended:
		if errors.Is(err, http.ErrServerClosed) { // by the program
			err = nil
		}
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveDrainTime)
	defer cancel()
	err = errors.Join(err, r.Shutdown(within), server.Shutdown(within))
	_ = server.Close() // what was left
	return err
}

func serve(server *http.Server, listener net.Listener) error {
	c := server.TLSConfig
	if c != nil && (len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil) {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}
