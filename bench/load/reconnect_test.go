package load_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/rival"
	"github.com/wskit/wskit/router"
)

// Clients of a server that goes come back to another one, and try again if an attempt fails.
func TestClientsComeBackAfterALoss(t *testing.T) {
	gone := make(chan struct{})
	from := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		<-gone
		c.Close() // without a close frame
	}), false)
	routes, _ := rival.Routes("gws", false)
	var attempts atomic.Int64
	to := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempts.Add(1)%2 == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		routes.Echo.ServeHTTP(w, r)
	}), false)

	const clients = 20
	swarm := open(t, from, clients)
	close(gone)
	lost := time.Now()
	got, err := swarm.Reconnect(t.Context(), load.ReconnectPlan{To: to, Within: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if n := attempts.Load(); got.Failed != int(n)-clients || got.Failed == 0 || got.Advised != 0 {
		t.Errorf("%+v after %d attempts of %d clients", got, n, clients)
	}
	if got.Last.Before(lost) || got.P50 <= 0 || got.P99 < got.P50 {
		t.Errorf("%+v", got)
	}
}

// Clients of wskit that is shut down come back when the server has said.
func TestClientsFollowTheAdviceOfTheServer(t *testing.T) {
	const clients, window = 20, 300 * time.Millisecond
	r := router.New(router.Options{Liveness: router.Liveness{DrainWindow: window}})
	swarm := open(t, serve(t, r, false), clients)
	routes, _ := rival.Routes("gws", false)
	to := serve(t, routes.Echo, false)
	began := time.Now()
	shut := make(chan error, 1)
	go func() { shut <- r.Shutdown(context.Background()) }()
	got, err := swarm.Reconnect(t.Context(), load.ReconnectPlan{To: to, Within: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
	// The last of 20 waits is in the first tenth of the window once in 10^20 times.
	if d := got.Last.Sub(began); got.Advised != clients || d < window/10 {
		t.Errorf("%+v, %v after the shutdown", got, d)
	}
}
