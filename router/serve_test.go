package router_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// A program that serves until it is told to stop: clients are told when to reconnect, OnClose is called for each, and
// then the backend is closed.
func ExampleRouter_Serve() {
	ctx, stop := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	r := router.New(router.Options{
		OnOpen:  func(*router.Conn) error { stop(); return nil }, // the signal comes while a client is connected
		Backend: adapters.Backend{Close: func() error { fmt.Println("the backend is closed"); return nil }},
		OnClose: func(_ *router.Conn, why router.CloseInfo) { fmt.Println("a connection is closed with", int(why.Code)) },
	})
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("GET /ready", r.Ready())
	server := &http.Server{Addr: "127.0.0.1:0", Handler: mux}

	server.BaseContext = func(l net.Listener) context.Context {
		go func() {
			ws, _, err := websocket.Dial(context.Background(), "ws://"+l.Addr().String()+"/ws", nil)
			if err == nil {
				_, _, _ = ws.Read(context.Background()) // until the close frame
			}
		}()
		return context.Background()
	}
	fmt.Println(r.Serve(ctx, server))
	// Output:
	// a connection is closed with 1001
	// the backend is closed
	// <nil>
}

// What keeps the program from serving is its error, with what to do, and the backend is closed.
func TestServeFailsWithARemedy(t *testing.T) {
	t.Parallel()
	taken := loopback(t)
	closed := false
	r := router.New(router.Options{Backend: adapters.Backend{Close: func() error { closed = true; return errors.New("no connection") }}})
	err := r.Serve(t.Context(), &http.Server{Addr: taken.Addr().String(), Handler: r})
	if err == nil || !strings.Contains(err.Error(), "another port") || !strings.Contains(err.Error(), "no connection") || !closed {
		t.Errorf("%v, closed %v", err, closed)
	}
	if err := r.Serve(t.Context(), &http.Server{Addr: "127.0.0.1:x", Handler: r}); err == nil {
		t.Error("an address that is none is served")
	}
}

// Times that are 0 are set, and others kept. A server that the program closes ends Serve.
func TestServeSetsTimes(t *testing.T) {
	t.Parallel()
	r := router.New()
	server := &http.Server{Addr: "127.0.0.1:0", Handler: r, ReadTimeout: -1, IdleTimeout: time.Hour}
	server.BaseContext = func(net.Listener) context.Context { go server.Close(); return context.Background() }
	if err := r.Serve(t.Context(), server); err != nil {
		t.Error(err)
	}
	if server.ReadHeaderTimeout != 5*time.Second || server.ReadTimeout != -1 || server.IdleTimeout != time.Hour {
		t.Errorf("the times are %v, %v and %v", server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout)
	}
}

// The probe says whether the backend works, as of a second ago; however often it is asked, the backend is asked once.
func TestReadyAsksTheBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked, away atomic.Int32
		r := router.New(router.Options{OnError: func(router.Fault) {}, Backend: adapters.Backend{Check: func(ctx context.Context) error {
			asked.Add(1)
			switch away.Load() {
			case 1:
				return errors.New("no connection")
			case 2:
				<-ctx.Done()
				return ctx.Err()
			case 3:
				panic("on purpose")
			}
			return nil
		}}})
		defer r.Shutdown(context.Background())
		probe := func() int {
			w := httptest.NewRecorder()
			r.Ready().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
			return w.Code
		}
		for i, want := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusOK} {
			away.Store(int32(i % 4))
			asked.Store(0)
			for range 100 {
				if got := probe(); got != want {
					t.Fatalf("step %d: the answer is %d", i, got)
				}
			}
			if n := asked.Load(); n != 1 && i != 2 {
				t.Errorf("step %d: the backend is asked %d times", i, n)
			}
			time.Sleep(time.Second)
		}
	})
}
