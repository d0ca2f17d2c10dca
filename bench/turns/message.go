package turns

import (
	"context"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
)

// Message returns the CPU time of a server, user and system, for one of so many messages over so many connections,
// in microseconds.
func Message(ctx context.Context, p *process.Process, connections, inFlight, messages int) (float64, error) {
	swarm, err := load.Open(ctx, load.Target{Addr: p.Addr, Path: "/ws"}, connections)
	if err != nil {
		return 0, err
	}
	defer swarm.Close()
	before, err := p.CPUTime()
	if err != nil {
		return 0, err
	}
	if _, err := swarm.Echo(ctx, load.Plan{InFlight: inFlight, Messages: messages}); err != nil {
		return 0, err
	}
	after, err := p.CPUTime()
	return float64(after-before) / float64(messages) / float64(time.Microsecond), err
}
