package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/stats"
)

// scenario is one measurement of one server; it may yield several figures.
type scenario struct {
	name    string
	measure func(context.Context, contender, settings) (figures, error)
	skip    func(contender) bool // nil: every contender takes part
	history bool                 // for -history
}

const echoConns = 50

var scenarios = []scenario{
	{name: "echo-1", measure: echoWithLatency},
	{name: "echo-8", measure: echoInFlight(8, cpu8)},
	{name: "echo-32", measure: echoInFlight(32, cpu32)},
	{name: "latency", measure: lonelyLatency},
	{name: "idle", measure: idle},
	{name: "refused", measure: refused, skip: func(c contender) bool { return c.name != ours }},
	{name: "fan", measure: fan, skip: func(c contender) bool { return !c.fans }},
	{name: "history", measure: fanHistory, history: true},
	{name: "unused", measure: unusedHistory, history: true},
	{name: "growth", measure: growth},
}

// echo runs plan against a fresh server after a warm-up, and returns the server's CPU
// time per message in microseconds.
func echo(ctx context.Context, c contender, conns int, plan load.Plan, args ...string) (float64, load.Result, error) {
	ch, err := c.start(ctx, args...)
	if err != nil {
		return 0, load.Result{}, err
	}
	defer ch.Stop()
	swarm, err := load.Open(ctx, ch.target("/ws"), conns)
	if err != nil {
		return 0, load.Result{}, err
	}
	defer swarm.Close()

	warmUp := plan
	warmUp.Duration /= 4
	if _, err := swarm.Echo(ctx, warmUp); err != nil {
		return 0, load.Result{}, err
	}
	var result load.Result
	used, err := ch.CPUDuring(func() (err error) {
		result, err = swarm.Echo(ctx, plan)
		return err
	})
	if err != nil {
		return 0, load.Result{}, err
	}
	messages := result.Answered + result.Refused
	return stats.Micros(used) / float64(messages), result, nil
}

// handled is echo for a server that must refuse nothing.
func handled(ctx context.Context, c contender, conns int, plan load.Plan, args ...string) (float64, load.Result, error) {
	cpu, result, err := echo(ctx, c, conns, plan, args...)
	if err == nil && result.Refused > 0 {
		err = fmt.Errorf("%d of %d requests were refused", result.Refused, result.Refused+result.Answered)
	}
	return cpu, result, err
}

func echoWithLatency(ctx context.Context, c contender, s settings) (figures, error) {
	if err := verify(ctx, c); err != nil {
		return nil, err
	}
	cpu, result, err := handled(ctx, c, echoConns, load.Plan{InFlight: 1, Duration: s.duration, Latency: true})
	return figures{cpu1: cpu, p50Busy: stats.Micros(result.P50), p99Busy: stats.Micros(result.P99)}, err
}

// verify reads one reply in full before anything is counted.
func verify(ctx context.Context, c contender) error {
	ch, err := c.start(ctx)
	if err != nil {
		return err
	}
	defer ch.Stop()
	return load.Verify(ctx, ch.target("/ws"))
}

func echoInFlight(inFlight int, row rowID) func(context.Context, contender, settings) (figures, error) {
	return func(ctx context.Context, c contender, s settings) (figures, error) {
		cpu, _, err := handled(ctx, c, echoConns, load.Plan{InFlight: inFlight, Duration: s.duration})
		return figures{row: cpu}, err
	}
}

// lonelyLatency has one connection on an otherwise idle server: what a user feels, and
// mostly the price of waking up.
func lonelyLatency(ctx context.Context, c contender, s settings) (figures, error) {
	_, result, err := handled(ctx, c, 1, load.Plan{InFlight: 1, Duration: s.duration, Latency: true})
	return figures{p50Alone: stats.Micros(result.P50), p99Alone: stats.Micros(result.P99)}, err
}

// idle takes the memory of connections that have exchanged one message and then rest.
// The baseline is taken before the first connection. RSS is read twice: first with
// the garbage of the handshakes, then at rest, after a collection.
func idle(ctx context.Context, c contender, s settings) (figures, error) { return idleOf(ctx, c, s) }

func idleOf(ctx context.Context, c contender, s settings, args ...string) (figures, error) {
	ch, err := c.start(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer ch.Stop()
	memBefore, err := ch.memory(ctx)
	if err != nil {
		return nil, err
	}
	rssBefore, err := ch.RSS()
	if err != nil {
		return nil, err
	}

	swarm, err := load.Open(ctx, ch.target("/ws"), s.idleConns)
	if err != nil {
		return nil, err
	}
	defer swarm.Close()
	if _, err := swarm.Greet(ctx); err != nil {
		return nil, err
	}
	if err := swarm.Hold(ctx, time.Second); err != nil {
		return nil, err
	}

	rssAfter, err := ch.RSS()
	if err != nil {
		return nil, err
	}
	memAfter, err := ch.memory(ctx)
	if err != nil {
		return nil, err
	}
	rssAtRest, err := ch.RSS()
	if err != nil {
		return nil, err
	}
	perConn := func(before, after float64) float64 { return (after - before) / float64(s.idleConns) / 1024 }
	return figures{
		rssIdle: perConn(float64(rssBefore), float64(rssAfter)),
		rssRest: perConn(float64(rssBefore), float64(rssAtRest)),
		inUseIdle: perConn(float64(memBefore.HeapInuse+memBefore.StackInuse),
			float64(memAfter.HeapInuse+memAfter.StackInuse)),
		liveIdle: perConn(float64(memBefore.HeapAlloc), float64(memAfter.HeapAlloc)),
	}, nil
}

// refused compares an admitted flood with a rejected one, on two servers that differ in their
// limit only.
func refused(ctx context.Context, c contender, s settings) (figures, error) {
	flood := load.Plan{InFlight: 32, Duration: s.duration}
	through, _, err := handled(ctx, c, echoConns, flood)
	if err != nil {
		return nil, err
	}
	away, result, err := echo(ctx, c, echoConns, flood, "-capacity", "1", "-refill", "1")
	if err != nil {
		return nil, err
	}
	if result.Refused < 99*result.Answered {
		return nil, fmt.Errorf("only %d of %d requests were refused", result.Refused, result.Refused+result.Answered)
	}
	return figures{cpuRefused: away, refusedShare: away / through}, nil
}

// fan counts what reaches the subscribers for one second of the server's CPU time.
func fan(ctx context.Context, c contender, s settings) (figures, error) {
	perSecond, lost, err := fanOf(ctx, c, s)
	return figures{fanOut: perSecond, fanLost: lost}, err
}

// fanHistory compares a topic that has a history with one that has none.
func fanHistory(ctx context.Context, c contender, s settings) (figures, error) {
	got := figures{}
	for _, topic := range []struct {
		name string
		row  rowID
	}{{"plain", ""}, {"broker", fanBroker}, {"history", fanWithHistory}} {
		perSecond, _, err := fanOf(ctx, c, s, "-topic", topic.name)
		if err != nil {
			return nil, err
		}
		got[topic.row] = perSecond
	}
	got[historyShare] = got[fanWithHistory] / got[""]
	delete(got, "")
	return got, nil
}

// fanOf returns the deliveries for one second of the server's CPU time, and what was lost, in percent.
func fanOf(ctx context.Context, c contender, s settings, args ...string) (perSecond, lost float64, err error) {
	ch, err := c.start(ctx, args...)
	if err != nil {
		return 0, 0, err
	}
	defer ch.Stop()
	swarm, err := load.Open(ctx, ch.target("/fan"), s.subscribers+1)
	if err != nil {
		return 0, 0, err
	}
	defer swarm.Close()

	const inFlight = 8
	if _, err := swarm.Fan(ctx, load.FanPlan{InFlight: inFlight, Duration: s.duration / 4}); err != nil {
		return 0, 0, err
	}
	var result load.FanResult
	used, err := ch.CPUDuring(func() (err error) {
		result, err = swarm.Fan(ctx, load.FanPlan{InFlight: inFlight, Duration: s.duration})
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if result.Delivered == 0 {
		return 0, 0, errors.New("nothing was delivered")
	}
	lost = 100 * float64(result.Lost) / float64(result.Delivered+result.Lost)
	return float64(result.Delivered) / used.Seconds(), lost, nil
}

// unusedHistory compares connections that use no topic, on a server that has declared a history and on one that has
// not.
func unusedHistory(ctx context.Context, c contender, s settings) (figures, error) {
	var memory, cpu [2]float64
	for i, topic := range []string{"plain", "history"} {
		idle, err := idleOf(ctx, c, s, "-topic", topic)
		if err != nil {
			return nil, err
		}
		memory[i] = 1024 * idle[liveIdle]
		if cpu[i], _, err = handled(ctx, c, echoConns, load.Plan{InFlight: 8, Duration: s.duration}, "-topic", topic); err != nil {
			return nil, err
		}
	}
	return figures{unusedBytes: memory[1] - memory[0], unusedCPU: cpu[1] / cpu[0]}, nil
}

// growth compares the price of a message among many connections with that among few.
func growth(ctx context.Context, c contender, s settings) (figures, error) {
	plan := load.Plan{InFlight: 1, Duration: s.duration}
	few, _, err := handled(ctx, c, 100, plan)
	if err != nil {
		return nil, err
	}
	many, _, err := handled(ctx, c, s.manyConns, plan)
	if err != nil {
		return nil, err
	}
	return figures{cpuFew: few, cpuMany: many, growthRatio: many / few}, nil
}
