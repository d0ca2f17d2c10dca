package faulttest

import (
	"context"
	"time"
)

// sleep waits in real time, or until ctx ends. Processes run on the machine's clock: how long a fault lasts, how often
// a client calls and how long a handler takes are time that they see. No result depends on which comes first.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pause is sleep for what does not end early.
func pause(d time.Duration) { sleep(context.Background(), d) }

// elapsed tells how long something lasts, for reports, and for clients that give up as clients do.
func elapsed(t time.Time) time.Duration { return time.Since(t) }
