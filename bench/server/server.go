// Package server is the shell every measured program runs in: the same HTTP
// server, the same memory endpoint, the same way of announcing its address. What
// differs between two figures is then the WebSocket library and nothing else.
package server

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// Routes are the two things a measured program offers.
type Routes struct {
	Echo http.Handler // /ws: one JSON request in, one JSON reply out
	Fan  http.Handler // /fan: one frame in, one broadcast to everybody; nil when not offered
}

// Run listens on addr, prints "listening on ADDR" with the real port, and serves
// until the process is killed.
func Run(addr string, routes Routes) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", routes.Echo)
	if routes.Fan != nil {
		mux.Handle("/fan", routes.Fan)
	}
	mux.HandleFunc("/debug/mem", serveMemory)

	fmt.Printf("listening on %s\n", listener.Addr())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return srv.Serve(listener)
}
