// Gate measures what a storm of refused handshakes does to a running chat: it starts
// examples/chat, has open tabs send messages, and compares their latency while nothing else
// happens with that while thousands of clients a second are refused.
//
//	cd bench
//	go run ./cmd/gate                              # 20 s quiet, 20 s storm, of 2,000 a second
//	go run ./cmd/gate -storm 4000 -rounds 3
//
// Quiet and storm take turns, so that what else happens on the machine happens to both.
// Chat, talk and storm are processes of their own and share the machine's cores: on a
// machine with few, part of what is measured is that they wait for each other's CPU time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

var (
	tabs     = flag.Int("tabs", 200, "open `tabs` that talk")
	rate     = flag.Int("storm", 2000, "handshakes per `second` to be refused")
	phase    = flag.Duration("phase", 20*time.Second, "how long quiet and storm last, each")
	rounds   = flag.Int("rounds", 1, "how often they take turns")
	target   = flag.String("target", "", "")
	stormFor = flag.Duration("for", 0, "")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := measure
	if *target != "" { // a child of this program
		run = func(ctx context.Context) error { return storm(ctx, *target, *rate, *stormFor) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := process.Build(ctx, dir, "github.com/wskit/wskit/examples/chat")
	if err != nil {
		return err
	}
	chat, err := process.Start(ctx, "sh", "-c", `exec "$0" -addr 127.0.0.1:0 2>/dev/null`, binary) // it logs the storm
	if err != nil {
		return err
	}
	defer chat.Stop()
	t, err := openTabs(ctx, chat.Addr, *tabs)
	if err != nil {
		return err
	}
	defer t.close()
	// The buckets of the storm's addresses are full at first.
	if err := startStorm(ctx, chat.Addr, 3*time.Second, io.Discard)(); err != nil {
		return err
	}
	fmt.Printf("%d tabs talk; %d handshakes a second are refused; %d CPUs, %s\n\n", *tabs, *rate, runtime.NumCPU(), runtime.Version())
	var quiet, loud []time.Duration
	var quietCPU, loudCPU time.Duration
	for range *rounds {
		var q, l []time.Duration
		used, err := chat.CPUDuring(func() (err error) { q, err = t.talk(ctx, *phase); return err })
		if err != nil {
			return err
		}
		usedLoud, err := chat.CPUDuring(func() (err error) {
			wait := startStorm(ctx, chat.Addr, *phase, os.Stdout)
			l, err = t.talk(ctx, *phase)
			return errors.Join(err, wait())
		})
		if err != nil {
			return err
		}
		quiet, loud = append(quiet, q...), append(loud, l...)
		quietCPU += used
		loudCPU += usedLoud
	}
	fmt.Printf("\n%-8s %8s %10s %10s %10s\n", "", "messages", "p50", "p99", "max")
	print := func(name string, all []time.Duration) time.Duration {
		slices.Sort(all)
		p99 := stats.Quantile(all, 0.99)
		fmt.Printf("%-8s %8d %10v %10v %10v\n", name, len(all), stats.Quantile(all, 0.5), p99, all[len(all)-1])
		return p99
	}
	q, l := print("quiet", quiet), print("storm", loud)
	span := time.Duration(*rounds) * *phase
	fmt.Printf("\nthe chat's CPU: %.1f%% of a core when quiet, %.1f%% in the storm, %v for each refused handshake\n",
		100*float64(quietCPU)/float64(span), 100*float64(loudCPU)/float64(span),
		time.Duration(float64(loudCPU-quietCPU)/(float64(*rate)*span.Seconds())).Round(time.Microsecond))
	fmt.Printf("p99 in the storm ÷ quiet: %.2f (target ≤ 2)\n", float64(l)/float64(q))
	return nil
}

// startStorm runs the storm in a separate process, so that its garbage collector does not
// affect the measured latencies. The returned function waits for its end.
func startStorm(ctx context.Context, addr string, d time.Duration, out io.Writer) (wait func() error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-target", addr, "-storm", fmt.Sprint(*rate), "-for", d.String())
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		return func() error { return err }
	}
	return cmd.Wait
}
