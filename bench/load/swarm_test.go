package load_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/rival"
)

// Every rival must do the work it is measured for, and be counted in full.
func TestEveryRivalAnswersAndIsCounted(t *testing.T) {
	everyKind(t, func(t *testing.T, kind string, secure bool) {
		routes, _ := rival.Routes(kind, false)
		target := serve(t, routes.Echo, secure)
		if err := load.Verify(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		swarm := open(t, target, 5)
		for _, plan := range []load.Plan{
			{InFlight: 1, Messages: 333, Latency: true},
			{InFlight: 8, Messages: 1000},
		} {
			got, err := swarm.Echo(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			if got.Answered != plan.Messages || got.Refused != 0 {
				t.Errorf("%+v: %d answered and %d refused", plan, got.Answered, got.Refused)
			}
			if plan.Latency && (got.P50 <= 0 || got.P99 < got.P50) {
				t.Errorf("p50 %v, p99 %v", got.P50, got.P99)
			}
		}
	})
}

// Every rival decompresses a request and compresses its reply.
func TestEveryRivalCompresses(t *testing.T) {
	for _, kind := range rival.Kinds() {
		t.Run(kind, func(t *testing.T) {
			routes, _ := rival.Routes(kind, true)
			target := serve(t, routes.Echo, false)
			target.Deflate = true
			if err := load.Verify(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			got, err := open(t, target, 3).Echo(t.Context(), load.Plan{InFlight: 8, Messages: 100})
			if err != nil || got.Answered != 100 {
				t.Errorf("%+v, %v", got, err)
			}
			routes, _ = rival.Routes(kind, false)
			plain := serve(t, routes.Echo, false)
			plain.Deflate = true
			if err := load.Verify(t.Context(), plain); err == nil {
				t.Error("a server that does not compress passes")
			}
		})
	}
}

// everyKind runs a test with every rival, without TLS and with it.
func everyKind(t *testing.T, test func(t *testing.T, kind string, secure bool)) {
	for _, kind := range rival.Kinds() {
		t.Run(kind, func(t *testing.T) { test(t, kind, false) })
		t.Run(kind+" under TLS", func(t *testing.T) { test(t, kind, true) })
	}
}

func TestFanOutReachesEverySubscriber(t *testing.T) {
	everyKind(t, func(t *testing.T, kind string, secure bool) {
		routes, _ := rival.Routes(kind, false)
		if routes.Fan == nil {
			t.Skip("it offers none")
		}
		swarm := open(t, serve(t, routes.Fan, secure), 4)
		got, err := swarm.Fan(t.Context(), load.FanPlan{InFlight: 4, Duration: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if got.Published == 0 || got.Delivered+got.Lost != 3*got.Published {
			t.Errorf("%+v does not add up for 3 subscribers", got)
		}
	})
}

func TestCancelEndsARun(t *testing.T) {
	routes, _ := rival.Routes("coder", false)
	swarm := open(t, serve(t, routes.Echo, false), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := swarm.Hold(ctx, time.Hour); err == nil {
		t.Fatal("Hold outlived its context")
	}
}

func serve(t *testing.T, handler http.Handler, secure bool) load.Target {
	srv := httptest.NewUnstartedServer(handler)
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return load.Target{Addr: srv.Listener.Addr().String(), Path: "/", TLS: secure}
}

func open(t *testing.T, target load.Target, n int) *load.Swarm {
	swarm, err := load.Open(t.Context(), target, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(swarm.Close)
	return swarm
}
