package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/bench/turns"
	ports "github.com/wskit/wskit/internal/process"
)

// bench measures with servers of its own each time.
type bench struct {
	settings
	programs turns.Programs
	load     string // the program of the clients
}

// round measures a server. The close frames of one that drains say when to reconnect; a window of 0 is its default.
func (b bench) round(ctx context.Context, name string, drains bool) (f figures, err error) {
	f.quietDrained, f.drained, f.drainedBack = none, none, none
	if err := b.restart(ctx, name, &f); err != nil {
		return f, fmt.Errorf("restarted: %w", err)
	}
	kill := func(p *process.Process) error { p.Stop(); return nil }
	if f.quiet, f.killed, f.killedBack, err = b.move(ctx, name, kill); err != nil {
		return f, fmt.Errorf("killed: %w", err)
	}
	if drains {
		if f.quietDrained, f.drained, f.drainedBack, err = b.move(ctx, name, (*process.Process).Terminate, "-window", b.window.String()); err != nil {
			return f, fmt.Errorf("drained: %w", err)
		}
	}
	return f, nil
}

// restart kills the server of the clients and starts it again.
func (b bench) restart(ctx context.Context, name string, f *figures) error {
	port, release, err := ports.ReservePort()
	if err != nil {
		return err
	}
	defer release()
	addr := net.JoinHostPort("127.0.0.1", port)
	old, err := b.programs.Start(ctx, name, "-addr", addr)
	if err != nil {
		return err
	}
	defer old.Stop()
	c, err := b.connect(ctx, addr, addr)
	if err != nil {
		return err
	}
	defer c.Stop()
	old.Stop()
	p, err := b.programs.Start(ctx, name, "-addr", addr)
	if err != nil {
		return err
	}
	defer p.Stop()
	began := time.Now()
	var result load.ReconnectResult
	if err := c.Result(&result); err != nil {
		return err
	}
	cpu, err := p.CPUTime()
	f.last, f.p99 = result.Last.Sub(began).Seconds(), stats.Millis(result.P99)
	f.cpu = stats.Micros(cpu) / float64(b.clients)
	return err
}

// connect starts the process of the clients that reconnect, and returns when they are connected.
func (b bench) connect(ctx context.Context, from, to string) (*process.Clients, error) {
	c, err := process.StartClients(ctx, "nice", "-n", "19", b.load, "-mode", "reconnect",
		"-addr", from, "-to", to, "-conns", strconv.Itoa(b.clients), "-duration", b.within.String())
	if err == nil {
		if err = c.Expect("connected"); err != nil {
			c.Stop()
		}
	}
	return c, err
}

// others are the clients of the other server, and othersRate their requests a second.
const others, othersRate = 50, 1000

// move ends a server, and returns the p99 of the latency of the clients of another one before it and until those of the
// first are back, and how long that takes.
func (b bench) move(ctx context.Context, name string, end func(*process.Process) error, flags ...string) (quiet, loud, back float64, err error) {
	from, err := b.programs.StartLow(ctx, name, flags...)
	if err != nil {
		return 0, 0, 0, err
	}
	defer from.Stop()
	to, err := b.programs.Start(ctx, name)
	if err != nil {
		return 0, 0, 0, err
	}
	defer to.Stop()
	c, err := b.connect(ctx, from.Addr, to.Addr)
	if err != nil {
		return 0, 0, 0, err
	}
	defer c.Stop()
	swarm, err := load.Open(ctx, load.Target{Addr: to.Addr, Path: "/ws"}, others)
	if err != nil {
		return 0, 0, 0, err
	}
	defer swarm.Close()
	if _, err := swarm.Pace(ctx, load.PacePlan{Rate: othersRate, Duration: b.quiet / 4}); err != nil {
		return 0, 0, 0, err
	}
	before, err := swarm.Pace(ctx, load.PacePlan{Rate: othersRate, Duration: b.quiet})
	if err != nil {
		return 0, 0, 0, err
	}
	began := time.Now()
	if err := end(from); err != nil {
		return 0, 0, 0, err
	}
	var result load.ReconnectResult
	var failed error
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		failed = c.Result(&result)
	}()
	after, err := swarm.Pace(ctx, load.PacePlan{Rate: othersRate, Stop: stop})
	if err := errors.Join(err, failed); err != nil {
		return 0, 0, 0, err
	}
	return stats.Millis(before.P99), stats.Millis(after.P99), result.Last.Sub(began).Seconds(), nil
}
