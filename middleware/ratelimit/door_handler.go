package ratelimit

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/httpclose"
)

// Handler is the door as net/http middleware, for a handler of WebSockets of any
// library; a router of this module takes the door as an option instead. Requests
// that are no WebSocket handshakes pass.
//
// The connection has ended when the handler closes the socket that it has hijacked,
// or returns without having hijacked one. A handler that authenticates calls
// [Identify] for the limit per user.
func (d *Door) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ingress.IsUpgrade(r) {
			next.ServeHTTP(w, withVisit(r, plain{}))
			return
		}
		if httpclose.HasBody(r) { // which would be waited for when the connection is hijacked
			ingress.Refuse(w, r, httpclose.ErrBody)
			return
		}
		v, err := d.Enter(r)
		if err != nil {
			ingress.Refuse(w, r, err)
			return
		}
		dw := &doorWriter{ResponseWriter: w, leave: sync.OnceFunc(v.Leave)}
		defer func() {
			if !dw.hijacked {
				dw.leave()
			}
		}()
		next.ServeHTTP(dw, withVisit(r, v))
	})
}

type visitKey struct{}

func withVisit(r *http.Request, v ingress.Visit) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// plain is the visit of a request that opens no connection.
type plain struct{}

func (plain) Identify(context.Context, *ingress.Identity) error { return nil }
func (plain) Leave()                                            {}

// Identify says who opens a connection that came in by [Door.Handler], once that is
// authenticated and before the handshake is answered. An error is best answered with
// [ingress.Refuse].
func Identify(r *http.Request, id ingress.Identity) error {
	v, ok := r.Context().Value(visitKey{}).(ingress.Visit)
	if !ok {
		return errors.New("ratelimit: Identify for a request that has not come in by Door.Handler; wrap the handler in it")
	}
	return v.Identify(r.Context(), &id)
}

// doorWriter learns when the connection it is for has ended.
type doorWriter struct {
	http.ResponseWriter
	leave    func()
	hijacked bool
}

// Unwrap is for http.ResponseController.
func (w *doorWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *doorWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	if tcp, ok := nc.(*net.TCPConn); ok { // whose descriptor libraries may want
		return &tcpVisit{tcp, w.leave}, brw, nil
	}
	return &connVisit{nc, w.leave}, brw, nil
}

type connVisit struct {
	net.Conn
	leave func()
}

// Close ends the visit.
func (c *connVisit) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

type tcpVisit struct {
	*net.TCPConn
	leave func()
}

// Close ends the visit.
func (c *tcpVisit) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
