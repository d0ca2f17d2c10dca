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
//
// Resumes begin when no other work waits for a turn. So of thousands that come at once, few are under way at the same
// time: the first clients are done early, and what a resume needs while it is under way is not needed by all at once.
type pacer struct {
	cpus    int
	sockets *atomic.Bool   // there have been connections that the kernel keeps
	handle  func(*Context) // handles a resume

	mu      sync.Mutex
	turn    sync.Cond // a Signal for each turn; those that wait are woken in order
	waiting int
	later   []*Context // resumes that have not begun, in the order in which they came
	running bool       // run
	begun   int        // turns that have begun at once since the network was looked at, or since
	since   time.Time  // this, if that was later

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
	// laterAfter is after how many looks one of the resumes begins, whatever else waits.
	laterAfter = 16
)

func (p *pacer) init(sockets *atomic.Bool, handle func(*Context)) {
	p.cpus, p.sockets, p.handle, p.turn.L = runtime.GOMAXPROCS(0), sockets, handle, &p.mu
}

// await waits for the caller's turn. No lock is held.
func (p *pacer) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.atOnce() {
		p.wait()
	}
}

// again is await for work whose last turn has just ended: it never begins at once, so others are served in between.
func (p *pacer) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait()
}

// wait waits for a turn that run gives. p.mu is held, and not meanwhile.
func (p *pacer) wait() {
	p.waiting++
	p.start()
	p.turn.Wait()
}

// begin has a resume handled when its turn comes: its handler begins in that turn.
func (p *pacer) begin(k *Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.atOnce() {
		go p.handle(k)
		return
	}
	p.later = append(p.later, k)
	p.start()
}

// atOnce reports whether a turn begins at once. Otherwise run has to give it. p.mu is held.
func (p *pacer) atOnce() bool {
	if p.running {
		return false
	}
	if now := time.Now(); now.Sub(p.since) > ownLook {
		p.begun, p.since = 0, now
	}
	if p.begun >= turnsAtOnce*p.cpus {
		return false
	}
	p.begun++
	return true
}

// start makes sure that run gives turns. p.mu is held.
func (p *pacer) start() {
	if !p.running {
		p.running = true
		go p.run()
	}
}

// run gives turns while any work waits for one.
func (p *pacer) run() {
	more := true
	for looks := 1; more; looks++ {
		start := time.Now()
		if p.sockets.Load() {
			p.network.await()
		}
		looked := time.Now()
		if looks%laterAfter == 0 {
			p.beginLater(1)
		}
		// The longer other work has kept the CPUs busy, the more turns are given: so what waits here gets its share.
		due := p.cpus * int(min(looked.Sub(start)/pacerSlice, mostTurns))
		for {
			given := p.give(max(due, p.cpus))
			due -= given
			if more = given > 0; !more || due <= 0 && time.Since(looked) >= pacerSlice {
				break
			}
			runtime.Gosched() // behind those whose turn it is
		}
	}
}

// give gives up to n turns, and returns how many. After 0, for which no work waits, run has ended.
func (p *pacer) give(n int) (given int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	given = min(n, p.waiting)
	p.waiting -= given
	for range given {
		p.turn.Signal()
	}
	given += p.beginLaterLocked(min(n-given, p.cpus)) // what they do next comes before others begin
	if given == 0 {
		p.running, p.begun, p.since = false, 0, time.Now()
	}
	return given
}

func (p *pacer) beginLater(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginLaterLocked(n)
}

// beginLaterLocked has up to n resumes begin, and returns how many. p.mu is held.
func (p *pacer) beginLaterLocked(n int) int {
	n = min(n, len(p.later))
	for _, k := range p.later[:n] {
		go p.handle(k)
	}
	clear(p.later[:n])
	p.later = p.later[n:]
	if len(p.later) == 0 {
		p.later = nil
	}
	return n
}
