// Package fairness gives turns to work that can wait, so that it does not keep the network from being polled.
//
// Work that can wait are the first messages of clients that have been silent, and what clients that resume are sent.
// Go's scheduler polls the network when nothing else is to be run, and takes sockets in the order in which they became
// ready. So when thousands of clients come back at once, the messages of all others would wait until each of these has
// been served. Needed is to know whether there are sockets, and a function that begins what is put off. Promised:
// before a turn that did not begin at once, what had come on the network is served; whoever waits gets its turn, in
// order; what is put off begins when no other work waits, and all of it begins; no goroutine is kept while none waits.
package fairness

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Queue gives turns. [Queue.Init] comes first; the other methods may be called from any goroutine.
//
// Work that takes its turn is a goroutine that runs for well under a millisecond, and then ends or waits. Some turns
// begin at once. When there are more, the network is polled: what has come there is served, then a few turns of those
// that wait in line are given, and so on.
//
// What is put off, as resumes are, begins when no other work waits for a turn. So of thousands that come at once, few
// are under way at the same time: the first clients are done early, and not all need memory at the same time.
type Queue[T any] struct {
	cpus    int
	sockets *atomic.Bool // there have been connections that the kernel keeps
	begin   func(T)      // begins what was put off

	mu      sync.Mutex
	turn    sync.Cond // a Signal for each turn; those that wait are woken in order
	waiting int
	later   []T       // what was put off, in the order in which it came
	running bool      // run
	begun   int       // turns that have begun at once since the network was polled, or since
	since   time.Time // this, if that was later

	network netpoll // of run
}

const (
	// turnsAtOnce is how many turns begin at once, for each CPU.
	turnsAtOnce = 8
	// ownPoll is how often the scheduler polls the network, whatever else it has to run.
	ownPoll = 10 * time.Millisecond
	// slice is for how long turns are given between two polls. It is most of what a message waits; a poll costs little.
	slice = 100 * time.Microsecond
	// mostTurns bounds how many turns are given in a row, for each CPU.
	mostTurns = 1 << 10
	// laterAfter is after how many polls one of those that were put off begins, whatever else waits.
	laterAfter = 16
)

// Init sets the queue up. The network is polled while sockets is true; begin must start a goroutine for what it is
// given, and return at once.
func (q *Queue[T]) Init(sockets *atomic.Bool, begin func(T)) {
	q.cpus, q.sockets, q.begin, q.turn.L = runtime.GOMAXPROCS(0), sockets, begin, &q.mu
}

// Await waits for the caller's turn. No lock is held.
func (q *Queue[T]) Await() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.atOnce() {
		q.wait()
	}
}

// Again is Await for work whose last turn has just ended: it never begins at once, so others are served in between.
func (q *Queue[T]) Again() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wait()
}

// wait waits for a turn that run gives. It is called with q.mu held, and releases it while it waits.
func (q *Queue[T]) wait() {
	q.waiting++
	q.start()
	q.turn.Wait()
}

// PutOff begins work when its turn comes.
func (q *Queue[T]) PutOff(work T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.atOnce() {
		q.begin(work)
		return
	}
	q.later = append(q.later, work)
	q.start()
}

// atOnce reports whether a turn begins at once. Otherwise run has to give it. q.mu is held.
func (q *Queue[T]) atOnce() bool {
	if q.running {
		return false
	}
	if now := time.Now(); now.Sub(q.since) > ownPoll {
		q.begun, q.since = 0, now
	}
	if q.begun >= turnsAtOnce*q.cpus {
		return false
	}
	q.begun++
	return true
}

// start makes sure that run gives turns. q.mu is held.
func (q *Queue[T]) start() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run gives turns while any work waits for one.
func (q *Queue[T]) run() {
	more := true
	for polls := 1; more; polls++ {
		start := time.Now()
		if q.sockets.Load() {
			q.network.await()
		}
		polled := time.Now()
		if polls%laterAfter == 0 {
			q.beginLater(1)
		}
		// The longer other work has kept the CPUs busy, the more turns are given: so what waits here gets its share.
		due := q.cpus * int(min(polled.Sub(start)/slice, mostTurns))
		for {
			given := q.give(max(due, q.cpus))
			due -= given
			if more = given > 0; !more || due <= 0 && time.Since(polled) >= slice {
				break
			}
			runtime.Gosched() // those whose turn it is come first
		}
	}
}

// give gives up to n turns, and returns how many. After 0, for which no work waits, run has ended.
func (q *Queue[T]) give(n int) (given int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	given = min(n, q.waiting)
	q.waiting -= given
	for range given {
		q.turn.Signal()
	}
	given += q.beginLaterLocked(min(n-given, q.cpus)) // what they do next comes before others begin
	if given == 0 {
		q.running, q.begun, q.since = false, 0, time.Now()
	}
	return given
}

func (q *Queue[T]) beginLater(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beginLaterLocked(n)
}

// beginLaterLocked begins up to n of what was put off, and returns how many. q.mu is held.
func (q *Queue[T]) beginLaterLocked(n int) int {
	n = min(n, len(q.later))
	for _, work := range q.later[:n] {
		q.begin(work)
	}
	clear(q.later[:n])
	q.later = q.later[n:]
	if len(q.later) == 0 {
		q.later = nil
	}
	return n
}
