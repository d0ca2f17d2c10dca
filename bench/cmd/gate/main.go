// Gate measures what a storm of refused handshakes does to a running chat: it starts
// examples/chat, has people talk, and compares the latency of their messages while it
// is quiet with that while thousands of clients a second are being refused.
//
//	cd bench
//	go run ./cmd/gate                              # 20 s quiet, 20 s storm, of 2,000 a second
//	go run ./cmd/gate -storm 4000 -rounds 3
//
// Quiet and storm take turns, so that what else happens on the machine happens to both.
// Chat, talk and storm are processes of their own and share the machine's cores: on a
// machine with few, part of what is measured is their standing in each other's way.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
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
	addr, pid, done, err := startChat(ctx)
	if err != nil {
		return err
	}
	defer done()
	t, err := openTabs(ctx, addr, *tabs)
	if err != nil {
		return err
	}
	defer t.close()
	// The buckets of the storm's addresses are full at first.
	if err := startStorm(ctx, addr, 3*time.Second, io.Discard)(); err != nil {
		return err
	}
	fmt.Printf("%d tabs talk; %d handshakes a second are refused; %d CPUs, %s\n\n", *tabs, *rate, runtime.NumCPU(), runtime.Version())
	var quiet, loud []time.Duration
	var quietCPU, loudCPU time.Duration
	for range *rounds {
		start := cpuTime(pid)
		q, err := t.talk(ctx, *phase)
		if err != nil {
			return err
		}
		between := cpuTime(pid)
		wait := startStorm(ctx, addr, *phase, os.Stdout)
		l, err := t.talk(ctx, *phase)
		if err := errors.Join(err, wait()); err != nil {
			return err
		}
		quiet, loud = append(quiet, q...), append(loud, l...)
		quietCPU += between - start
		loudCPU += cpuTime(pid) - between
	}
	fmt.Printf("\n%-8s %8s %10s %10s %10s\n", "", "messages", "p50", "p99", "max")
	print := func(name string, all []time.Duration) time.Duration {
		slices.Sort(all)
		p99 := all[len(all)*99/100]
		fmt.Printf("%-8s %8d %10v %10v %10v\n", name, len(all), all[len(all)/2], p99, all[len(all)-1])
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

// startChat builds and runs the chat on a port that the system chooses.
func startChat(ctx context.Context) (addr string, pid int, done func(), err error) {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		return "", 0, nil, err
	}
	binary := filepath.Join(dir, "chat")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/wskit/wskit/examples/chat")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		_ = os.RemoveAll(dir)
		return "", 0, nil, fmt.Errorf("building the chat: %w", err)
	}
	chat := exec.CommandContext(ctx, binary, "-addr", "127.0.0.1:0")
	chat.Stderr = io.Discard // it logs the storm
	done = func() { _ = os.RemoveAll(dir) }
	out, err := chat.StdoutPipe()
	if err == nil {
		err = chat.Start()
	}
	if err != nil {
		done()
		return "", 0, nil, err
	}
	done = func() {
		_ = chat.Process.Kill()
		_ = chat.Wait()
		_ = os.RemoveAll(dir)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok {
			addr, _, _ = strings.Cut(rest, " ")
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return addr, chat.Process.Pid, done, nil
		}
	}
	done()
	return "", 0, nil, errors.New("the chat ended before it printed its address")
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

// cpuTime is the processor time, user and system, that a process has used, in the
// hundredths of a second that Linux reports to every architecture.
func cpuTime(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The command's name, in parentheses, may hold spaces. proc(5) counts from 1, and
	// the field behind it is the third.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
