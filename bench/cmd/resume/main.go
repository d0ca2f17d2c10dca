// Resume measures what a storm of resuming clients costs: all of them resume one topic at the same
// moment, each from a position before everything that was published on it. Others follow another topic
// meanwhile; the latency of its messages is compared with that before the storm.
//
//	cd bench
//	go run ./cmd/resume                                # a minute and a half
//	go run ./cmd/resume -rounds 1 -clients 500 -out "" # a quick run
//
// Server and storm are processes of their own on one machine. The clients of a real server have CPUs of their own, so
// the server has half of this machine's, and what clients do elsewhere is kept out of the figures: the storm sends
// and reads at the lowest priority, and a message has arrived when the kernel has it for its client. What other
// programs of the machine do is kept out, too: the server has a priority of real time, if the command may give one. A
// virtual machine may be slower when all of its CPUs are busy, as they are in a storm. So the time before is measured
// twice: as it is, and while threads of the lowest priority keep all CPUs busy.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
)

type settings struct {
	rounds, clients, missed, others, rate int
	quiet                                 time.Duration
	cpus                                  cpus
}

func main() {
	rounds := command.Count("rounds", 20, "storms, each on a server of its own")
	clients := command.Count("clients", 2000, "clients that resume at once")
	missed := command.Count("missed", 1000, "messages that each of them has missed")
	others := command.Count("others", 20, "clients that follow another topic")
	rate := command.Count("rate", 500, "messages a second on that topic")
	quiet := command.Span("quiet", time.Second, "how long the others get messages before a storm; the end of it counts, with as many deliveries as in the storm")
	command.Child("serve", serveTopics)
	command.Child("busy", keepBusy)
	var st storm
	flag.StringVar(&st.addr, "addr", "", "address of the server, for -storm")
	flag.StringVar(&st.plan.Ticket, "ticket", "", "what the storm resumes with")
	flag.StringVar(&st.plan.Position, "pos", "", "what the storm resumes after")
	command.Child("storm", func(ctx context.Context) error { return st.run(ctx, *clients) })
	command.Main(func(ctx context.Context, _ string) (page.Section, error) {
		return measure(ctx, settings{rounds: *rounds, clients: *clients, missed: *missed, others: *others, rate: *rate, quiet: *quiet})
	})
}
