package turns

import (
	"context"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

// CPU returns the CPU time of a server, user and system, for one of n things that do does, in microseconds.
func CPU(p *process.Process, n int, do func() error) (float64, error) {
	used, err := p.CPUDuring(do)
	return stats.Micros(used) / float64(n), err
}

// connections are those of Messages.
const connections = 50

// Messages lets servers take turns with so many messages over 50 connections. The costs are those of CPU for a message.
func Messages(ctx context.Context, servers []*process.Process, inFlight, rounds, messages int) (Costs, error) {
	return Take(len(servers), rounds, func(i int) (float64, error) {
		swarm, err := load.Open(ctx, load.Target{Addr: servers[i].Addr, Path: "/ws"}, connections)
		if err != nil {
			return 0, err
		}
		defer swarm.Close()
		return CPU(servers[i], messages, func() error {
			_, err := swarm.Echo(ctx, load.Plan{InFlight: inFlight, Messages: messages})
			return err
		})
	})
}
