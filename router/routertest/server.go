// Package routertest lets an application test its handlers against a real router
// without sockets: [New] serves the router in memory, [Server.Dial] connects a
// client, and the client sends messages and expects answers.
//
//	func TestJoin(t *testing.T) {
//		c := routertest.New(t, newRouter()).Dial()
//		q := c.Request("room.join", Join{Room: "a"})
//		if got := routertest.ExpectReply[Joined](q); got.Members != 1 {
//			t.Errorf("got %+v", got)
//		}
//	}
//
// Everything except the socket is the production code: the HTTP server, the handshake, the
// framing. It works inside of testing/synctest, where an expectation that is not met fails
// without waiting. Outside of it, an expectation waits for 30 s before it fails the test.
package routertest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/internal/testmode"
)

// timeLimit is how long an expectation waits before it fails. Within synctest no
// real time passes.
const timeLimit = 30 * time.Second

// Server serves a router to clients of the same process.
type Server struct {
	t        testing.TB
	router   *router.Router
	listener *pipeListener
	http     *http.Server
	done     chan struct{}
}

// New serves r until the test ends. At the end it shuts the router down, which
// fails the test if a handler does not return.
//
// Replies and declared events are always validated, as with router.Options.ValidateOutgoing. One
// that is not valid, or has another Go type than the declared one, is not sent and fails the test.
// So does the use of a router.Context after its handler has returned.
func New(t testing.TB, r *router.Router) *Server {
	t.Helper()
	s := &Server{
		t: t, router: r,
		listener: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})},
		done:     make(chan struct{}),
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			defer req.Context().Value(servedKey{}).(func())()
			r.ServeHTTP(w, req)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, servedKey{}, c.(*pipeConn).served)
		},
		ReadHeaderTimeout: timeLimit,
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(s.listener)
	}()
	testmode.Watch(r, func(err error) { t.Errorf("routertest: %v", err) })
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	if err := s.router.Shutdown(ctx); err != nil {
		s.t.Errorf("routertest: the router does not shut down: %v; does a handler ignore its context?", err)
	}
	_ = s.http.Close()
	<-s.done
	testmode.Watch(s.router, nil)
}

// pipeListener is a net.Listener whose connections are pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

// dial connects, and calls served when the server has dealt with the request.
func (l *pipeListener) dial(ctx context.Context, served func()) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- &pipeConn{server, served}:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeConn gives the server's end of a pipe the address of a TCP connection, so
// that limits by address work.
type pipeConn struct {
	net.Conn
	served func()
}

type servedKey struct{}

func (*pipeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "routertest" }
