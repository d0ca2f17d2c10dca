// Resume measures what a storm of resuming clients costs: all of them resume one topic at the same
// moment, each from a position before everything that was published on it. Others follow another topic
// meanwhile; the latency of its messages is compared with that before the storm.
//
//	cd bench
//	go run ./cmd/resume                                # a minute
//	go run ./cmd/resume -rounds 1 -clients 500 -out "" # a quick run
//
// Server, storm and others are processes of their own on one machine. The clients of a real
// storm have CPUs of their own, so the process of the storm has the lowest priority here.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type settings struct {
	rounds  int
	clients int
	missed  int
	others  int
	rate    int
	quiet   time.Duration
	out     string
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often it is measured; the median counts")
	flag.IntVar(&s.clients, "clients", 2000, "clients that resume at once")
	flag.IntVar(&s.missed, "missed", 1000, "messages that each of them has missed")
	flag.IntVar(&s.others, "others", 20, "clients that follow another topic")
	flag.IntVar(&s.rate, "rate", 200, "messages a second on that topic")
	flag.DurationVar(&s.quiet, "quiet", 5*time.Second, "how long the others are measured before the storm")
	flag.StringVar(&s.out, "out", "RESULTS.md", "file to write the section to; empty writes none")
	serve := flag.Bool("serve", false, "")
	var st storm
	flag.StringVar(&st.addr, "storm", "", "")
	flag.StringVar(&st.plan.Ticket, "ticket", "", "")
	flag.StringVar(&st.plan.Position, "pos", "", "")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch { // the first two are children of this program
	case *serve:
		err = serveTopics()
	case st.addr != "":
		st.clients = s.clients
		err = st.run(ctx)
	default:
		err = measure(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
		stop()
		os.Exit(1)
	}
}
