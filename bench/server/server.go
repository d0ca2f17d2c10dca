// Package server is the shell every measured program runs in: the same HTTP
// server, the same memory endpoint, the same way of announcing its address. What
// differs between two figures is then the WebSocket library and nothing else.
package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Routes are the two things a measured program offers.
type Routes struct {
	Echo http.Handler // /ws: one JSON request in, one JSON reply out
	Fan  http.Handler // /fan: one frame in, one broadcast to all connections; nil when not offered
}

// Run listens on addr, prints "listening on ADDR" with the real port, and serves
// until the process is killed. With secure it serves TLS 1.3, with a certificate that
// it makes.
func Run(addr string, secure bool, routes Routes) error {
	mux := http.NewServeMux()
	mux.Handle("/ws", routes.Echo)
	if routes.Fan != nil {
		mux.Handle("/fan", routes.Fan)
	}
	mux.HandleFunc("/debug/mem", serveMemory)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if secure {
		certificate, err := selfSigned()
		if err != nil {
			return err
		}
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	}

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	if secure {
		return srv.ServeTLS(listener, "", "")
	}
	return srv.Serve(listener)
}
