package client_test

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/client"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	for want, o := range map[string]client.Options{
		"ConnectTimeout is -1s":   {ConnectTimeout: -time.Second},
		"PongTimeout -1s":         {PongTimeout: -time.Second},
		"MinBackoff is -1s":       {MinBackoff: -time.Second},
		"MaxBackoff 1s; set":      {MinBackoff: time.Minute, MaxBackoff: time.Second},
		"MaxQueued, MaxQueuedByt": {MaxQueued: -1},
		"MaxMessage is negative":  {MaxMessage: -1},
	} {
		if _, err := client.Dial(context.Background(), "ws://127.0.0.1:1", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	synctest.Test(t, func(t *testing.T) { // no time passes during an attempt
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := client.Dial(ctx, "ws://127.0.0.1:1", quick(client.Options{HTTPClient: &http.Client{Transport: noServer{}}}))
		if err == nil || !strings.Contains(err.Error(), "deadline exceeded") || !strings.Contains(err.Error(), "the last attempt: ") {
			t.Errorf("without a server: %v", err)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("two MessageOptions are accepted")
		}
	}()
	_ = client.Send(context.Background(), nil, "t", nil, client.MessageOptions{}, client.MessageOptions{})
}

// noServer is a network in which no server listens.
type noServer struct{}

func (noServer) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// network is a network that is a function.
type network func() error

func (n network) RoundTrip(*http.Request) (*http.Response, error) { return nil, n() }

// While no server listens, the pauses are random below a bound that doubles.
func TestPausesWhileNoServerListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var at []time.Time
		refused := network(func() error { at = append(at, time.Now()); return syscall.ECONNREFUSED })
		_, err := client.Dial(ctx, "ws://127.0.0.1:1", client.Options{
			MinBackoff: 50 * time.Millisecond, MaxBackoff: 400 * time.Millisecond,
			HTTPClient: &http.Client{Transport: refused},
		})
		if err == nil {
			t.Fatal("connected without a server")
		}
		for i := range at[1:] {
			bound := min(400*time.Millisecond, 50*time.Millisecond<<min(i, 10))
			if pause := at[i+1].Sub(at[i]); pause > bound {
				t.Errorf("pause %d is %v, more than %v", i, pause, bound)
			}
		}
		if n := len(at); n < 200 || n > 450 { // the average pause is 200 ms
			t.Errorf("%d attempts in a minute", n)
		}
	})
}

func TestADialThatHasEndedTriesNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var at []time.Time
		refused := network(func() error { at = append(at, time.Now()); return syscall.ECONNREFUSED })
		if _, err := client.Dial(ctx, "ws://127.0.0.1:1", quick(client.Options{HTTPClient: &http.Client{Transport: refused}})); err == nil {
			t.Fatal("connected without a server")
		}
		n := len(at)
		time.Sleep(time.Hour)
		if n < 10 || len(at) != n {
			t.Errorf("%d attempts, and %d after Dial has returned", n, len(at)-n)
		}
	})
}
