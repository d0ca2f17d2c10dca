// Load sends WebSocket traffic to one server on this machine and prints what it
// counted.
//
//	load -mode echo    -addr 127.0.0.1:9001 -conns 50 -inflight 8 -duration 5s
//	load -mode latency -addr 127.0.0.1:9001 -conns 1
//	load -mode pace    -addr 127.0.0.1:9001 -conns 1000 -rate 20000
//	load -mode idle    -addr 127.0.0.1:9001 -conns 5000 -duration 1m
//	load -mode fan     -addr 127.0.0.1:9001 -conns 2000 -inflight 8
//	load -mode refused -addr 127.0.0.1:9001 -conns 50 -inflight 32
//	load -mode reconnect -addr 127.0.0.1:9001 -to 127.0.0.1:9002 -conns 10000 -duration 1s
//	load -mode follow  -addr 127.0.0.1:9001 -conns 50 -rooms 10 -all 5 -messages 20   # of cmd/node
//
// With -mode reconnect it prints "connected", and the result, as JSON, when the server at -addr has ended and all
// clients have connected to -to: each when its close frame says, or else at a random time within -duration.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	to         string
	from       string
	conns      int
	first      int
	rooms, all int
	inFlight   int
	duration   time.Duration
	messages   int
	rate       float64
	tls        bool
}

var modes = map[string]func(context.Context, *load.Swarm, options) error{
	"echo":      echo,
	"latency":   latency,
	"pace":      pace,
	"idle":      idle,
	"fan":       fan,
	"refused":   refused,
	"reconnect": reconnect,
	"follow":    follow,
}

func main() {
	log.SetFlags(0)
	var o options
	mode := flag.String("mode", "echo", "echo, latency, pace, idle, fan, refused, reconnect or follow")
	flag.StringVar(&o.addr, "addr", "127.0.0.1:9001", "loopback address of the server")
	flag.StringVar(&o.path, "path", "", "path to connect to (default /ws, in mode fan /fan)")
	flag.StringVar(&o.to, "to", "", "in mode reconnect the address to which clients reconnect (default -addr)")
	flag.StringVar(&o.from, "from", "", "loopback address that connections come from; empty lets the kernel choose")
	flag.IntVar(&o.conns, "conns", 50, "connections; in mode fan the subscribers")
	flag.IntVar(&o.inFlight, "inflight", 1, "requests in flight on each connection; in mode fan publishes")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long to send, or to hold in mode idle")
	flag.IntVar(&o.messages, "messages", 0, "send this many requests in all instead of for a duration")
	flag.IntVar(&o.rooms, "rooms", 1, "in mode follow, the rooms that connections join in turn")
	flag.IntVar(&o.first, "first", 0, "in mode follow, the number of the first connection: other processes have those before")
	flag.IntVar(&o.all, "all", 1, "in mode follow, the messages for all; -messages is for each room")
	flag.Float64Var(&o.rate, "rate", 1000, "requests a second in mode pace")
	flag.BoolVar(&o.tls, "tls", false, "connect by TLS, to a server with any certificate")
	flag.Parse()

	run, ok := modes[*mode]
	if !ok {
		log.Fatalf("load: no mode %q", *mode)
	}
	if o.messages > 0 {
		o.duration = 0
	}
	target, conns := load.Target{Addr: o.addr, Path: "/ws", TLS: o.tls, From: o.from}, o.conns
	if *mode == "fan" {
		target.Path, conns = "/fan", o.conns+1
	}
	target.Path = cmp.Or(o.path, target.Path)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	swarm, err := load.Open(ctx, target, conns)
	if err == nil {
		err = run(ctx, swarm, o)
		swarm.Close()
	}
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

func echo(ctx context.Context, swarm *load.Swarm, o options) error {
	_, err := exchange(ctx, swarm, load.Plan{InFlight: o.inFlight, Duration: o.duration, Messages: o.messages})
	return err
}

func latency(ctx context.Context, swarm *load.Swarm, o options) error {
	result, err := exchange(ctx, swarm, load.Plan{InFlight: 1, Latency: true, Duration: o.duration, Messages: o.messages})
	if err == nil {
		fmt.Printf("p50 %v, p99 %v\n", result.P50, result.P99)
	}
	return err
}

// refused is echo against a server whose limit is used up; a server that refuses
// nothing was started with the wrong limit.
func refused(ctx context.Context, swarm *load.Swarm, o options) error {
	result, err := exchange(ctx, swarm, load.Plan{InFlight: o.inFlight, Duration: o.duration, Messages: o.messages})
	if err == nil && result.Refused == 0 {
		err = errors.New("load: the server refused nothing; start it with -capacity 1 -refill 1")
	}
	return err
}

// exchange prints what was counted.
func exchange(ctx context.Context, swarm *load.Swarm, plan load.Plan) (load.Result, error) {
	r, err := swarm.Echo(ctx, plan)
	if err == nil {
		fmt.Printf("%d answered, %d refused, %.0f/s, in %v\n", r.Answered, r.Refused,
			float64(r.Answered+r.Refused)/r.Elapsed.Seconds(), r.Elapsed.Round(time.Millisecond))
	}
	return r, err
}

// pace sends by the clock, whatever the server does.
func pace(ctx context.Context, swarm *load.Swarm, o options) error {
	got, err := swarm.Pace(ctx, load.PacePlan{Rate: o.rate, Duration: o.duration})
	if err == nil {
		fmt.Printf("%d answered, p50 %v, p99 %v, p99.9 %v, longest %v; sent late, p99.9 %v\n", got.Answered, got.P50, got.P99, got.P999, got.Max, got.Late)
	}
	return err
}

func idle(ctx context.Context, swarm *load.Swarm, o options) error {
	if _, err := swarm.Greet(ctx); err != nil {
		return err
	}
	fmt.Printf("%d connections are open and have exchanged one message each\n", o.conns)
	return swarm.Hold(ctx, o.duration)
}

func reconnect(ctx context.Context, swarm *load.Swarm, o options) error {
	fmt.Println("connected")
	to := load.Target{Addr: cmp.Or(o.to, o.addr), Path: cmp.Or(o.path, "/ws")}
	result, err := swarm.Reconnect(ctx, load.ReconnectPlan{To: to, Within: o.duration})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func fan(ctx context.Context, swarm *load.Swarm, o options) error {
	result, err := swarm.Fan(ctx, load.FanPlan{InFlight: o.inFlight, Duration: o.duration})
	if err == nil {
		fmt.Printf("%d published, %d delivered (%.0f/s), %d lost, in %v\n", result.Published, result.Delivered,
			float64(result.Delivered)/result.Elapsed.Seconds(), result.Lost, result.Elapsed.Round(time.Millisecond))
	}
	return err
}

// follow prints "joined" when all connections have joined, and two lines of JSON: what they have got of the messages
// for all, and of those of the rooms.
func follow(ctx context.Context, swarm *load.Swarm, o options) error {
	if o.rooms < 1 {
		return errors.New("load: -rooms must be positive")
	}
	out := json.NewEncoder(os.Stdout)
	return swarm.Follow(ctx, load.FollowPlan{
		Room: func(conn int) int { return (o.first + conn) % o.rooms }, All: o.all, Rooms: o.messages,
		Joined: func() { fmt.Println("joined") },
		Result: func(r load.FollowResult) { _ = out.Encode(r) }, // a failed write shows at the reader
	})
}
