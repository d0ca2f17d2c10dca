package router

import (
	"testing"
	"time"

	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router/internal/overload"
)

// Neither refusing a message because of an overload allocates anything, nor admitting one beside it.
func TestSheddingAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget, so it allocates")
	}
	r := New(Options{Overload: OverloadOptions{Enabled: true, Tiers: map[string]int{"paid": 1}}})
	On(r, "event", func(*Context, numbers) error { return nil }, RouteOptions{Priority: 1})
	RPC(r, "request", func(_ *Context, n numbers) (numbers, error) { return n, nil })
	request, event := dispatching(t, r, requestFrame), dispatching(t, r, eventFrame)
	control := r.shedder.control
	for look := range 3 { // of events alone there are more than fit, so requests are refused
		control.Look(overload.Seen{At: time.Duration(1+look) * time.Second, Wait: time.Second})
		for range 100 {
			event()
		}
	}
	if n := testing.AllocsPerRun(2000, request); n != 0 {
		t.Errorf("%v allocations per refused message, want none", n)
	}
	if n := control.Refused(maxPriority); n < 2000 {
		t.Errorf("%d requests are refused, want all", n)
	}
	if n := testing.AllocsPerRun(2000, event); n != 0 {
		t.Errorf("%v allocations per message of a higher priority, want none", n)
	}
}
