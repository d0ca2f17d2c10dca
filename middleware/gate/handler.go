package gate

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/handshake"
	"github.com/wskit/wskit/internal/httpclose"
)

// Handler is the gate as net/http middleware, for a WebSocket handler of any library. (For a
// router of this module, set the gate as an option.) Requests that are not WebSocket handshakes
// pass.
//
// The connection ends when the handler closes the socket that it has hijacked, or returns
// without having hijacked one. A handler that authenticates has to call [Identify] for the
// limit per user.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handshake.IsUpgrade(r) {
			next.ServeHTTP(w, withAdmission(r, plain{}))
			return
		}
		if httpclose.HasBody(r) { // net/http would wait for it when the connection is hijacked
			ingress.Refuse(w, r, httpclose.ErrBody)
			return
		}
		a, err := g.Admit(r, g.o.ClientIP(r))
		if err != nil {
			ingress.Refuse(w, r, err)
			return
		}
		handshake.SetFields(w, a)
		gw := &gateWriter{ResponseWriter: w, leave: sync.OnceFunc(a.Release)}
		defer func() {
			if !gw.hijacked {
				gw.leave()
			}
		}()
		next.ServeHTTP(gw, withAdmission(r, a))
	})
}

type admissionKey struct{}

func withAdmission(r *http.Request, a ingress.Admission) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), admissionKey{}, a))
}

// plain is the admission of a request that opens no connection.
type plain struct{}

func (plain) Identify(context.Context, *ingress.Identity) error { return nil }
func (plain) Release()                                          {}

// Identify passes the identity of a connection to the gate. A handler behind [Gate.Handler] calls
// it after authentication and before it answers the handshake. Answer an error with
// [ingress.Refuse].
func Identify(r *http.Request, id ingress.Identity) error {
	a, ok := r.Context().Value(admissionKey{}).(ingress.Admission)
	if !ok {
		return errors.New("gate: Identify for a request that has not passed Gate.Handler; wrap the handler in it")
	}
	return a.Identify(r.Context(), &id)
}

// gateWriter releases the admission when its connection has ended.
type gateWriter struct {
	http.ResponseWriter
	leave    func()
	hijacked bool
}

// Unwrap is for http.ResponseController.
func (w *gateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *gateWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	if tcp, ok := nc.(*net.TCPConn); ok { // libraries may use its descriptor
		return &gatedTCPConn{tcp, w.leave}, brw, nil
	}
	return &gatedConn{nc, w.leave}, brw, nil
}

type gatedConn struct {
	net.Conn
	leave func()
}

// Close releases the admission.
func (c *gatedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

type gatedTCPConn struct {
	*net.TCPConn
	leave func()
}

// Close releases the admission.
func (c *gatedTCPConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
