package client_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// attempts runs a client for an hour of fake time, and returns when its connections were opened. They end with the
// errors of open.
func attempts(t *testing.T, o client.Options, open func(n int) error) (at []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		s := routertest.New(t, router.New(router.Options{OnOpen: func(*router.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			return open(len(at))
		}}))
		o.HTTPClient = s.HTTPClient()
		c, err := client.Dial(t.Context(), "ws://routertest", o)
		ok(t, err)
		time.Sleep(time.Hour)
		ok(t, c.Close(t.Context()))
	})
	return at
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	at := attempts(t, client.Options{MinBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second}, func(int) error {
		return errors.Internal.New("as asked")
	})
	if len(at) < 1000 {
		t.Fatalf("%d attempts in an hour", len(at))
	}
	var sum time.Duration
	for i := range at[1:] {
		pause, most := at[i+1]-at[i], 5*time.Second
		if i < 10 {
			most = min(most, 100*time.Millisecond<<i)
		}
		if pause > most+100*time.Millisecond { // the closing handshake has a part in it
			t.Errorf("pause %d is %v, and its bound %v", i, pause, most)
		}
		sum += pause
	}
	if average := sum / time.Duration(len(at)); average < 2*time.Second || average > 3*time.Second {
		t.Errorf("the average of random pauses up to 5s is %v", average)
	}
}

func TestAdviceIsObeyed(t *testing.T) {
	t.Parallel()
	advised := errors.ResourceExhausted.New("as asked").WithRetryAfter(40 * time.Second)
	at := attempts(t, client.Options{MaxBackoff: time.Second}, func(int) error { return advised })
	for i := range at[1:] {
		if pause := at[i+1] - at[i]; pause < 40*time.Second || pause > 42*time.Second {
			t.Errorf("pause %d is %v", i, pause)
		}
	}
	if len(at) < 80 {
		t.Errorf("%d attempts in an hour", len(at))
	}
}

func TestAConnectionThatLastedBeginsAnew(t *testing.T) {
	t.Parallel()
	o := client.Options{MinBackoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Minute}
	synctest.Test(t, func(t *testing.T) {
		var opened []time.Time
		s := routertest.New(t, router.New(router.Options{
			Liveness: router.Liveness{MaxAge: time.Minute},
			OnOpen:   func(*router.Conn) error { opened = append(opened, time.Now()); return nil },
		}))
		o.HTTPClient = s.HTTPClient()
		c, err := client.Dial(t.Context(), "ws://routertest", o)
		ok(t, err)
		time.Sleep(time.Hour)
		ok(t, c.Close(t.Context()))
		if len(opened) < 60 { // pauses that grow would take all the time
			t.Errorf("%d connections of a minute within an hour", len(opened))
		}
	})
}
