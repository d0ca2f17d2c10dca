package load

import (
	"context"
	"time"
)

// Greet exchanges one message on every connection, as an idle client once did.
func (s *Swarm) Greet(ctx context.Context) (Result, error) {
	return s.Echo(ctx, Plan{InFlight: 1, Messages: len(s.conns)})
}

// Hold keeps the connections open for d, answering pings and nothing else.
func (s *Swarm) Hold(ctx context.Context, d time.Duration) error {
	return s.drive(ctx, holdRun{until: time.Now().Add(d)})
}

type holdRun struct{ until time.Time }

func (holdRun) start(*Swarm) error          { return nil }
func (holdRun) received(*conn, frame) error { return nil }
func (holdRun) drained(*conn) error         { return nil }
func (h holdRun) done(now time.Time) bool   { return !now.Before(h.until) }
func (holdRun) idle() bool                  { return true }
