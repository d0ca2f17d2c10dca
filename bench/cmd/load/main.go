// Load sends WebSocket traffic to one server on this machine and prints what it
// counted.
//
//	load -mode echo    -addr 127.0.0.1:9001 -conns 50 -inflight 8 -duration 5s
//	load -mode latency -addr 127.0.0.1:9001 -conns 1
//	load -mode idle    -addr 127.0.0.1:9001 -conns 5000 -duration 1m
//	load -mode fan     -addr 127.0.0.1:9001 -conns 2000 -inflight 8
//	load -mode refused -addr 127.0.0.1:9001 -conns 50 -inflight 32
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/wskit/wskit/bench/load"
)

type options struct {
	addr, path string
	conns      int
	inFlight   int
	duration   time.Duration
	messages   int
	tls        bool
}

var modes = map[string]func(context.Context, options) error{
	"echo":    echo,
	"latency": latency,
	"idle":    idle,
	"fan":     fan,
	"refused": refused,
}

func main() {
	log.SetFlags(0)
	var o options
	mode := flag.String("mode", "echo", "echo, latency, idle, fan or refused")
	flag.StringVar(&o.addr, "addr", "127.0.0.1:9001", "loopback address of the server")
	flag.StringVar(&o.path, "path", "", "path to connect to (default /ws, in mode fan /fan)")
	flag.IntVar(&o.conns, "conns", 50, "connections; in mode fan the subscribers")
	flag.IntVar(&o.inFlight, "inflight", 1, "requests in flight on each connection; in mode fan publishes")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long to send, or to hold in mode idle")
	flag.IntVar(&o.messages, "messages", 0, "send this many requests in all instead of for a duration")
	flag.BoolVar(&o.tls, "tls", false, "connect by TLS, to a server with any certificate")
	flag.Parse()

	run, ok := modes[*mode]
	if !ok {
		log.Fatalf("load: no mode %q", *mode)
	}
	if o.messages > 0 {
		o.duration = 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		stop()
		log.Fatal(err)
	}
}

func (o options) open(ctx context.Context, path string, conns int) (*load.Swarm, error) {
	if o.path != "" {
		path = o.path
	}
	return load.Open(ctx, load.Target{Addr: o.addr, Path: path, TLS: o.tls}, conns)
}

func (o options) echo(ctx context.Context, plan load.Plan) (load.Result, error) {
	swarm, err := o.open(ctx, "/ws", o.conns)
	if err != nil {
		return load.Result{}, err
	}
	defer swarm.Close()
	return swarm.Echo(ctx, plan)
}

func (o options) plan() load.Plan {
	return load.Plan{InFlight: o.inFlight, Duration: o.duration, Messages: o.messages}
}

func echo(ctx context.Context, o options) error {
	result, err := o.echo(ctx, o.plan())
	if err != nil {
		return err
	}
	printRates(result)
	return nil
}

func latency(ctx context.Context, o options) error {
	plan := o.plan()
	plan.InFlight, plan.Latency = 1, true
	result, err := o.echo(ctx, plan)
	if err != nil {
		return err
	}
	printRates(result)
	fmt.Printf("p50 %v, p99 %v\n", result.P50, result.P99)
	return nil
}

// refused is echo against a server whose limit is used up; a server that refuses
// nothing was started with the wrong limit.
func refused(ctx context.Context, o options) error {
	result, err := o.echo(ctx, o.plan())
	if err != nil {
		return err
	}
	printRates(result)
	if result.Refused == 0 {
		return fmt.Errorf("load: the server refused nothing; start it with -capacity 1 -refill 1")
	}
	return nil
}

func idle(ctx context.Context, o options) error {
	swarm, err := o.open(ctx, "/ws", o.conns)
	if err != nil {
		return err
	}
	defer swarm.Close()
	if _, err := swarm.Greet(ctx); err != nil {
		return err
	}
	fmt.Printf("%d connections are open and have exchanged one message each\n", o.conns)
	return swarm.Hold(ctx, o.duration)
}

func fan(ctx context.Context, o options) error {
	swarm, err := o.open(ctx, "/fan", o.conns+1)
	if err != nil {
		return err
	}
	defer swarm.Close()
	result, err := swarm.Fan(ctx, load.FanPlan{InFlight: o.inFlight, Duration: o.duration})
	if err != nil {
		return err
	}
	fmt.Printf("%d published, %d delivered (%.0f/s), %d lost, in %v\n", result.Published, result.Delivered,
		float64(result.Delivered)/result.Elapsed.Seconds(), result.Lost, result.Elapsed.Round(time.Millisecond))
	return nil
}

func printRates(r load.Result) {
	fmt.Printf("%d answered, %d refused, %.0f/s, in %v\n", r.Answered, r.Refused,
		float64(r.Answered+r.Refused)/r.Elapsed.Seconds(), r.Elapsed.Round(time.Millisecond))
}
