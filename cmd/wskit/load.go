package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loadFlags are those of load.
type loadFlags struct {
	connections int
	rate        float64
	length      time.Duration
	mix         string
	contract    string
	payloads    map[string]string
	p99         time.Duration
	maxFailures float64
	svg         string
	dialsAtOnce int
}

func (c *command) loadFlags(flags *flag.FlagSet) {
	c.connectionFlags(flags)
	c.callFlag(flags)
	f := &c.loads
	flags.IntVar(&f.connections, "connections", 10, "how many connections there are")
	flags.Float64Var(&f.rate, "rate", 100, "messages a second, of all connections")
	flags.DurationVar(&f.length, "for", 10*time.Second, "how long messages are sent")
	flags.StringVar(&f.mix, "mix", "", "the types of the messages with their shares, as chat.say=9,room.join=1")
	flags.StringVar(&f.contract, "contract", "", "a file or URL of the server's JSON Schema, for valid payloads")
	flags.Func("payload", "a payload, as TYPE=JSON, where {{n}} is the number of the connection; may be given several times", func(s string) error {
		typ, payload, has := strings.Cut(s, "=")
		if !has || !json.Valid([]byte(payload)) {
			return fmt.Errorf("write it as TYPE=JSON")
		}
		if f.payloads == nil {
			f.payloads = make(map[string]string)
		}
		f.payloads[typ] = payload
		return nil
	})
	flags.DurationVar(&f.p99, "p99", 0, "the exit status is 1 if 1 % of the latencies are longer; the default is no bound")
	flags.Float64Var(&f.maxFailures, "failures", 0, "the exit status is 1 if more than this share of the messages fail")
	flags.StringVar(&f.svg, "svg", "", "a file for a picture of the latencies")
	flags.IntVar(&f.dialsAtOnce, "dials", 50, "how many connections are opened at the same time")
}

// load sends messages at a rate, whatever the server does: message i is due at a time that is fixed before the run, and
// its latency is counted from then, so that a server that stands still is seen in all messages that wait for it.
type load struct {
	*command
	mix     []weighted
	total   int // of the weights
	all     messages
	start   time.Time
	due     int       // messages in all
	latency latencies // from when a message was due to its answer
	waiting latencies // of those that a client sends which waits for each answer

	sent, asked, answered, events atomic.Int64 // asked are the messages that are answered
	mu                            sync.Mutex
	failures                      map[string]int64 // by code
}

// weighted is a type of messages with its share.
type weighted struct {
	name     string
	answered bool
	weight   int
}

// loadTest is the command load.
func (c *command) loadTest(ctx context.Context, args []string) int {
	l, err := c.newLoad(ctx)
	if err != nil {
		return c.misused("%v", err)
	}
	conns, err := l.dialAll(ctx, args[0])
	if err != nil {
		return c.failed(err)
	}
	defer func() {
		for _, conn := range conns {
			_ = conn.ws.CloseNow()
		}
	}()
	l.run(ctx, conns)
	return l.report(len(conns))
}

func (c *command) newLoad(ctx context.Context) (*load, error) {
	f := c.loads
	l := &load{command: c, failures: make(map[string]int64), all: messages{given: f.payloads, samples: make(map[string][]json.RawMessage)}}
	if f.connections < 1 || f.rate <= 0 || f.length <= 0 || f.dialsAtOnce < 1 {
		return nil, fmt.Errorf("-connections, -rate, -for and -dials must be positive")
	}
	var err error
	if f.contract != "" {
		if l.all.defs, err = readContract(ctx, f.contract); err != nil {
			return nil, err
		}
	}
	for part := range strings.SplitSeq(f.mix, ",") {
		typ, share, has := strings.Cut(strings.TrimSpace(part), "=")
		w := weighted{weight: 1}
		if has {
			w.weight, err = strconv.Atoi(share)
		}
		if typ == "" || err != nil || w.weight < 1 {
			return nil, fmt.Errorf("-mix %q: write it as chat.say=9,room.join=1", f.mix)
		}
		if w.name, w.answered, err = l.all.find(typ); err != nil {
			return nil, err
		}
		l.mix, l.total = append(l.mix, w), l.total+w.weight
	}
	l.due = int(f.rate * f.length.Seconds())
	return l, nil
}

// pick chooses the type of a message.
func (l *load) pick() weighted {
	at := rand.IntN(l.total)
	for _, w := range l.mix {
		if at -= w.weight; at < 0 {
			return w
		}
	}
	return l.mix[0]
}

// dueAt is when message i is due.
func (l *load) dueAt(i int) time.Time {
	return l.start.Add(time.Duration(float64(i) / l.loads.rate * float64(time.Second)))
}

// run sends all messages, and waits for the answers.
func (l *load) run(ctx context.Context, conns []*loadConn) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.start = time.Now().Add(100 * time.Millisecond) // so that the first are not late
	var sending, reading sync.WaitGroup
	for _, c := range conns {
		sending.Go(func() { c.sendAll(ctx, len(conns)) })
		reading.Go(func() { c.readAll(ctx) })
	}
	if l.colour {
		reading.Go(func() { l.showProgress(ctx) })
	}
	sending.Wait()
	answering, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	for _, c := range conns {
		select {
		case <-c.idle:
		case <-answering.Done():
		}
	}
	stop()
	for _, c := range conns {
		_ = c.ws.CloseNow()
	}
	reading.Wait()
}

// failed counts a failure.
func (l *load) failed(code string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[code]++
}

// showProgress writes a line about each second, until ctx ends.
func (l *load) showProgress(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
		}
		fmt.Fprintf(l.err, "\r%3.0f s  sent %d, answered %d, p99 %s   ", time.Since(l.start).Seconds(), l.sent.Load(), l.answered.Load(),
			brief(l.latency.quantile(0.99)))
	}
}

// report prints what came of it, and returns the exit status by the thresholds.
func (l *load) report(connections int) int {
	sent, failures := l.sent.Load(), int64(0)
	for _, n := range l.failures {
		failures += n
	}
	unanswered := l.asked.Load() - l.answered.Load() - failures
	if l.colour {
		fmt.Fprintln(l.err)
	}
	fmt.Fprintf(l.out, "%d messages in %v on %d connections, %.0f a second; %d events received\n", sent, l.loads.length, connections,
		float64(sent)/l.loads.length.Seconds(), l.events.Load())
	fmt.Fprintf(l.out, "answered %d, refused or failed %d", l.answered.Load(), failures)
	for _, code := range slices.Sorted(maps.Keys(l.failures)) {
		fmt.Fprintf(l.out, ", %s %d", code, l.failures[code])
	}
	if unanswered > 0 {
		fmt.Fprintf(l.out, ", without an answer %d", unanswered)
	}
	fmt.Fprintln(l.out)
	if l.answered.Load() > 0 {
		fmt.Fprintf(l.out, "from when a message was due to its answer:   %s\n", &l.latency)
		fmt.Fprintf(l.out, "what clients see that wait for each answer:  %s\n", &l.waiting)
		fmt.Fprint(l.out, l.latency.chart())
	}
	if l.loads.svg != "" {
		if err := os.WriteFile(l.loads.svg, []byte(l.latency.svg(fmt.Sprintf("%s at %g a second", l.loads.mix, l.loads.rate))), 0o600); err != nil {
			return l.command.failed(err)
		}
	}
	bad := failures + max(0, unanswered) + max(0, int64(l.due)-sent)
	switch p99 := l.latency.quantile(0.99); {
	case l.loads.p99 > 0 && p99 > l.loads.p99:
		return l.command.failed(fmt.Errorf("p99 is %s, more than %v", brief(p99), l.loads.p99))
	case float64(bad) > l.loads.maxFailures*float64(l.due):
		return l.command.failed(fmt.Errorf("%d of %d messages failed, more than %g %%", bad, l.due, 100*l.loads.maxFailures))
	}
	return done
}
