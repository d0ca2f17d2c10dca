package router_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wskit/wskit/router"
)

func ExampleRouter_Ready() {
	r := router.New()
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("GET /ready", r.Ready())

	probe := func() int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
		return w.Code
	}
	fmt.Println("serving:", probe())
	_ = r.Shutdown(context.Background())
	fmt.Println("shut down:", probe())
	// Output:
	// serving: 200
	// shut down: 503
}

// While a connection keeps Shutdown from ending, the probe and handshakes are refused alike, and neither before.
func TestReadyIsRefusedWithHandshakes(t *testing.T) {
	t.Parallel()
	shutdownBegun, finish := make(chan struct{}), make(chan struct{})
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "slow", func(*router.Context, struct{}) (said, error) {
			close(shutdownBegun)
			<-finish
			return said{}, nil
		})
	})
	probe := func() int {
		w := httptest.NewRecorder()
		s.r.Ready().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
		return w.Code
	}
	handshake := func() int {
		p := s.connect()
		p.write([]byte(s.handshake()))
		defer p.hangUp()
		return p.response().StatusCode
	}
	if ready, opened := probe(), handshake(); ready != http.StatusOK || opened != http.StatusSwitchingProtocols {
		t.Errorf("before: the probe is answered %d, a handshake %d", ready, opened)
	}
	p := s.dial()
	p.write(textFrame(`{"type":"slow","meta":{"correlationId":"1"},"payload":{}}`))
	<-shutdownBegun
	ended := make(chan error, 1)
	go func() { ended <- s.r.Shutdown(context.Background()) }()
	eventually(t, "not ready", func() bool { return probe() == http.StatusServiceUnavailable })
	if opened := handshake(); opened != http.StatusServiceUnavailable {
		t.Errorf("not ready: a handshake is answered %d", opened)
	}
	close(finish)
	p.hangUp()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
