package router

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// pacer bounds how long work that can wait keeps the network from being looked at: the first messages of clients that
// have been silent, and what clients that resume are sent. Go's scheduler looks for sockets that are ready when
// nothing else is to be run, and takes them in the order in which they became ready. So when thousands of
// clients come back at once, the messages of all others would wait until each of these has been served.
//
// Work that takes its turn is a goroutine that runs for well under a millisecond, and then ends or waits. Some turns
// begin at once. When there are more, the network is looked at: what has come there is served, then a few turns of
// those that wait in line are given, and so on.
type pacer struct {
	cpus    int
	sockets *atomic.Bool // there have been connections that the kernel keeps

	mu      sync.Mutex
	turn    sync.Cond // a Signal for each turn; those that wait are woken in order
	waiting int
	running bool      // run
	begun   int       // turns that have begun at once since the network was looked at, or since
	since   time.Time // this, if that was later

	network look // of run
}

const (
	// turnsAtOnce is how many turns begin at once, for each CPU.
	turnsAtOnce = 8
	// ownLook is how often the scheduler looks at the network, whatever else it has to run.
	ownLook = 10 * time.Millisecond
	// pacerSlice is for how long turns are given between two looks. It is most of what a message waits; a look costs little.
	pacerSlice = 100 * time.Microsecond
	// mostTurns bounds how many turns are given in a row, for each CPU.
	mostTurns = 1 << 10
)

func (p *pacer) init(sockets *atomic.Bool) {
	p.cpus, p.sockets, p.turn.L = runtime.GOMAXPROCS(0), sockets, &p.mu
}

// await waits for the caller's turn. No lock is held.
func (p *pacer) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		if now := time.Now(); now.Sub(p.since) > ownLook {
			p.begun, p.since = 0, now
		}
		if p.begun < turnsAtOnce*p.cpus {
			p.begun++
			return
		}
		p.running = true
		go p.run()
	}
	p.waiting++
	p.turn.Wait()
}

// run gives turns while any work waits for one.
func (p *pacer) run() {
	for more := true; more; {
		start := time.Now()
		if p.sockets.Load() {
			p.network.await()
		}
		looked := time.Now()
		// The longer other work has kept the CPUs busy, the more turns are given: so what waits here gets its share.
		n := p.cpus * int(min(max(1, looked.Sub(start)/pacerSlice), mostTurns))
		for more = p.give(n); more && time.Since(looked) < pacerSlice; more = p.give(n) {
			runtime.Gosched() // behind those whose turn it is
		}
	}
}

// give gives up to n turns. It returns false if no work waits: then run has ended.
func (p *pacer) give(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, p.waiting)
	p.waiting -= n
	for range n {
		p.turn.Signal()
	}
	if n == 0 {
		p.running, p.begun, p.since = false, 0, time.Now()
	}
	return n > 0
}
