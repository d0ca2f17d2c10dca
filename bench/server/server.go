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

// Serve listens on a port of 127.0.0.1, prints "listening on ADDR" with it, and serves until the process is killed.
func Serve(s *http.Server) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	return s.Serve(listener)
}

// Routes are the two things a measured program offers.
type Routes struct {
	Echo http.Handler // /ws: one JSON request in, one JSON reply out
	Fan  http.Handler // /fan: one frame in, one broadcast to all connections; nil when not offered
	// Visit is /visit: as Echo, for clients that have the Token, with bounds for their number
	// and for the rate at which they come, none of which is reached; nil when not offered.
	Visit http.Handler
}

// Token is what a client of /visit has to send.
const Token = "7c6f1c2e-5f0a-4c3e-9d21-0b2b7c1de5f0"

// Run listens on addr, prints "listening on ADDR" with the real port, and serves
// until the process is killed. With secure it serves TLS 1.3, with a certificate that
// it makes.
func Run(addr string, secure bool, routes Routes) error {
	mux := http.NewServeMux()
	mux.Handle("/ws", routes.Echo)
	if routes.Fan != nil {
		mux.Handle("/fan", routes.Fan)
	}
	if routes.Visit != nil {
		mux.Handle("/visit", routes.Visit)
	}
	mux.HandleFunc("/debug/mem", serveMemory)
	mux.HandleFunc("/debug/locks", serveLocks)
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
