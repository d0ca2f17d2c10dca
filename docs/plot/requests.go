package main

import (
	"time"

	"github.com/wskit/wskit/limit"
)

// span is how much time a picture shows. It begins at a multiple of every window.
const span = 16 * time.Second

// arrivals are the instants at which requests come: a trickle, a flood across the
// end of a fixed window, a steady stream at twice the rate, and a second flood
// after a rest.
func arrivals() (at []time.Duration) {
	every := func(from, to, step time.Duration) {
		for t := from; t < to; t += step {
			at = append(at, t)
		}
	}
	every(200*time.Millisecond, 2900*time.Millisecond, 900*time.Millisecond)
	every(3*time.Second, 5*time.Second, 62500*time.Microsecond)
	every(6*time.Second, 10*time.Second, 200*time.Millisecond)
	every(14*time.Second, 15*time.Second, 62500*time.Microsecond)
	return at
}

// A request is one of the arrivals and what became of it.
type request struct {
	at       time.Duration
	admitted bool
	wait     time.Duration // how long it was held
}

// run has the policy decide all arrivals.
func run(policy limit.Policy) ([]request, error) {
	plan, err := limit.Compile(policy)
	if err != nil {
		return nil, err
	}
	var all []request
	var state []int64
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, at := range arrivals() {
		var d limit.Decision
		state, _ = plan.Take(&d, state, epoch.Add(at).UnixMicro(), 1)
		all = append(all, request{at, d.Allowed, d.Wait})
	}
	return all, nil
}

// busiest is the most that went through in any window of the length, held requests
// counted when they go.
func busiest(all []request, window time.Duration) (most int) {
	for _, first := range all {
		n := 0
		for _, r := range all {
			if since := r.at + r.wait - (first.at + first.wait); r.admitted && 0 <= since && since < window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
