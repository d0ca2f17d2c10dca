package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The clients of a small server reconnect within a second, those of a larger one within 2 ms for each
// connection that was open when Shutdown began: also those whose requests were answered first.
func TestReconnectsAreSpreadByTheNumberOfConnections(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		opts    router.Options
		clients int
		within  time.Duration
	}{
		{router.Options{}, 200, time.Second},
		{router.Options{}, 1500, 3 * time.Second},
		{router.Options{Liveness: router.Liveness{DrainWindow: 10 * time.Second}}, 200, 10 * time.Second},
		{router.Options{Liveness: router.Liveness{DrainWindow: -1}}, 200, 0},
	} {
		t.Run(fmt.Sprintf("%d clients within %v", tc.clients, tc.within), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := router.New(tc.opts)
				router.RPC(r, "slow", func(*router.Context, struct{}) (struct{}, error) {
					time.Sleep(2 * time.Second)
					return struct{}{}, nil
				})
				s := routertest.New(t, r)
				clients := make([]*routertest.Client, tc.clients)
				for i := range clients {
					clients[i] = s.Dial()
				}
				busy, idle := clients[:100], clients[100:]
				for _, c := range busy {
					c.Request("slow", nil)
				}
				synctest.Wait()
				done := make(chan error, 2)
				shutdown := func() { done <- r.Shutdown(context.Background()) }
				go shutdown()
				spread(t, idle, tc.within)
				go shutdown() // another one, with 100 connections
				spread(t, busy, tc.within)
				for range 2 {
					if err := <-done; err != nil {
						t.Errorf("Shutdown: %v", err)
					}
				}
			})
		})
	}
}

// spread expects that clients are closed, and are to reconnect within a time, evenly.
func spread(t *testing.T, clients []*routertest.Client, within time.Duration) {
	t.Helper()
	var waits []time.Duration
	for _, c := range clients {
		var advice struct{ RetryAfterMs *int64 }
		if reason := c.ExpectClose(errors.CloseGoingAway); json.Unmarshal([]byte(reason), &advice) != nil || advice.RetryAfterMs == nil {
			t.Fatalf("the reason is %q", reason)
		}
		waits = append(waits, time.Duration(*advice.RetryAfterMs)*time.Millisecond)
	}
	slices.Sort(waits)
	if first, last := waits[0], waits[len(waits)-1]; first < 0 || last > within {
		t.Errorf("clients are to reconnect after %v to %v, want %v at most", first, last, within)
	}
	// By chance half of 100 are in a quarter of the time once in 10^8 times.
	if median := waits[len(waits)/2]; median < within/4 || median > within*3/4 {
		t.Errorf("half of the clients are to reconnect within %v, want about half of %v", median, within)
	}
}

// What a server refuses while it drains may be repeated soon, however many clients it had: another server may take it.
func TestWhatADrainRefusesMayBeRepeatedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(router.Options{Liveness: router.Liveness{DrainWindow: time.Minute}})
		router.RPC(r, "slow", func(*router.Context, struct{}) (struct{}, error) {
			time.Sleep(2 * time.Second)
			return struct{}{}, nil
		})
		s := routertest.New(t, r)
		c := s.Dial()
		c.Request("slow", nil)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- r.Shutdown(context.Background()) }()
		synctest.Wait()
		for range 30 { // of a minute, all would be within 5 s once in 10^32 times
			if f := c.Request("slow", nil).ExpectError(errors.Unavailable); f.RetryAfterMs == nil || *f.RetryAfterMs > 5000 {
				t.Fatalf("a message is answered %+v", f)
			}
			_, res, err := s.TryDial()
			if err == nil {
				t.Fatal("a handshake is admitted")
			}
			if after, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || after > 5 {
				t.Fatalf("a handshake is answered %+v", res.Header)
			}
		}
		c.ExpectClose(errors.CloseGoingAway)
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}
