package load_test

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wskit/wskit/bench/load"
)

// stalling echoes, and answers none of the requests from the 100th on until the function returns.
func stalling(stall func()) http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			_, b, err := c.ReadMessage()
			if err != nil {
				return
			}
			if n.Add(1) == 100 {
				stall()
			}
			if c.WriteMessage(websocket.TextMessage, bytes.Replace(b, []byte("chat.echo"), []byte("chat.echoed"), 1)) != nil {
				return
			}
		}
	})
}

// The requests that were due while the server answered none have waited, all of them, and not the first one alone.
func TestPaceCountsWhatWasDueDuringAStall(t *testing.T) {
	const rate, stall = 1000, 300 * time.Millisecond
	swarm := open(t, serve(t, stalling(func() { time.Sleep(stall) }), false), 1)
	got, err := swarm.Pace(t.Context(), load.PacePlan{Rate: rate, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// 300 of 1,000 requests were due in the stall, and the last of these waited for none of it.
	if got.P99 < stall*9/10 || got.Max < stall {
		t.Errorf("%+v: p99 is not that of a server that stalls for %v", got, stall)
	}
	if got.Answered < rate*8/10 || got.Answered > rate*12/10 {
		t.Errorf("%d answers, want about %d", got.Answered, rate)
	}
}

func TestPaceEndsWhenItIsStopped(t *testing.T) {
	stop := make(chan struct{})
	swarm := open(t, serve(t, stalling(func() { close(stop) }), false), 3)
	got, err := swarm.Pace(t.Context(), load.PacePlan{Rate: 2000, Stop: stop})
	if err != nil || got.Answered == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	// A run has a request, even if it is stopped from the beginning, or its rate is that of a server that has stood still.
	for _, plan := range []load.PacePlan{{Rate: 200, Stop: stop}, {Rate: 0.01, Duration: time.Millisecond}} {
		got, err = swarm.Pace(t.Context(), plan)
		if err != nil || got.Answered == 0 {
			t.Errorf("%+v: %+v, %v", plan, got, err)
		}
	}
	if _, err := swarm.Pace(t.Context(), load.PacePlan{Rate: 2000}); err == nil {
		t.Error("a pace without an end is accepted")
	}
}
