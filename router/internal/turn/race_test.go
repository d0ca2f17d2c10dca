package turn

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
)

// crew is a connection's goroutines around a Turn.
type crew struct {
	t       *testing.T
	turn    Turn[message]
	rules   Rules[message]
	sent    int // by the reader
	total   int
	arrival *rand.Rand // of the reader

	handled int          // ordered messages; without a lock: the race detector sees handlers that overlap
	order   []int        // of those, as their handlers began
	watched atomic.Int64 // times that the connection is registered with the watchdog
	opened  atomic.Int64 // messages that became open
	ended   atomic.Int64 // messages of all kinds
	aborted atomic.Int64
	drained atomic.Bool
	all     sync.WaitGroup
}

// rest is how long a handler takes: hardly ever long enough to be seen twice.
func rest(n int) {
	switch {
	case n%97 == 0:
		time.Sleep(time.Duration(rand.N(300)) * time.Microsecond)
	case n%5 == 0:
		runtime.Gosched()
	}
}

func (c *crew) handle(m *message) {
	if !m.task.Concurrent {
		c.handled++
		c.order = append(c.order, m.n)
	}
	m.begun++
	rest(m.n)
	for m.n%193 == 0 && !m.task.Concurrent && c.turn.Batching() {
		runtime.Gosched() // takes long: until it is detached
	}
	if m.n%7 == 0 {
		c.turn.Track(&m.task)
	}
	if m.n%61 == 0 && !m.task.Concurrent { // the handler ends its goroutine
		defer c.all.Go(func() { c.resume(m) })
		runtime.Goexit()
	}
}

func (c *crew) resume(m *message) {
	if c.turn.Return() {
		c.turn.Untrack(&m.task)
		c.ended.Add(1)
		c.read()
		return
	}
	c.finish(m)
	c.work()
}

func (c *crew) finish(m *message) {
	c.turn.Finish(&m.task)
	m.ended++
	c.ended.Add(1)
}

func (c *crew) watch() {
	if c.turn.Watch() {
		c.watched.Add(1)
	}
}

// read is the reader's role: it returns when another goroutine has it, or all is read.
func (c *crew) read() {
	for c.sent < c.total {
		c.turn.BeginFrame()
		c.watch()
		m := &message{n: c.sent}
		c.sent++
		m.task = Task[message]{Message: m, Size: c.arrival.Int32N(64), Request: c.arrival.IntN(2) == 0, Concurrent: c.arrival.IntN(5) == 0}
		switch c.turn.Begin(&m.task) {
		case Concurrent:
			c.all.Go(func() { c.handle(m); c.finish(m) })
		case Inline:
			c.watch()
			c.handle(m)
			if !c.turn.Return() {
				c.finish(m)
				c.work()
				return
			}
			c.turn.Untrack(&m.task)
			c.ended.Add(1)
		}
		c.turn.EndFrame()
	}
	c.drained.Store(true)
}

func (c *crew) work() {
	for {
		if m := c.turn.Next(); m != nil {
			c.watch()
			c.handle(m)
			c.finish(m)
		} else if c.turn.Free() {
			return
		}
	}
}

// The same with real goroutines: under the race detector, handlers that overlap and
// accesses that nothing orders are reported.
func TestRealGoroutines(t *testing.T) {
	for seed := range uint64(20) {
		c := &crew{t: t, total: 3000, arrival: rand.New(rand.NewPCG(seed, 1))}
		c.rules = Rules[message]{MaxInFlight: 8, MaxPending: 512, Opened: func(*message) { c.opened.Add(1) }}
		c.turn.Init(&c.rules)
		c.all.Go(c.read)
		over := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() { // the watchdog, at every moment there is
			for {
				select {
				case <-over:
					return
				default:
				}
				if c.watched.Load() > 0 {
					seen, again := c.turn.Look()
					if seen == TakenOver {
						c.all.Go(c.read)
					}
					if !again {
						c.watched.Add(-1)
					}
				}
				runtime.Gosched()
			}
		})
		others.Go(func() { // a client that aborts
			for {
				select {
				case <-over:
					return
				default:
				}
				for _, m := range c.turn.Open() {
					if m.n%11 == 0 && c.turn.Abort(&m.task) {
						c.finish(m)
						c.aborted.Add(1)
					}
				}
				runtime.Gosched()
			}
		})
		poll.Until(t, "the drain", func() bool { return c.drained.Load() && c.turn.Idle() })
		close(over)
		others.Wait()
		c.all.Wait()
		if got := c.ended.Load(); got != int64(c.total) {
			t.Errorf("%d messages are finished, want %d", got, c.total)
		}
		for i := 1; i < len(c.order); i++ {
			if c.order[i] <= c.order[i-1] {
				t.Fatalf("message %d is handled after %d", c.order[i], c.order[i-1])
			}
		}
		if len(c.turn.Open()) != 0 || c.turn.Requests() != 0 || c.turn.pending != 0 || c.turn.concurrent != 0 || c.turn.Batching() {
			t.Errorf("in the end something is left")
		}
		if seed == 0 {
			t.Logf("%d were opened, %d aborted", c.opened.Load(), c.aborted.Load())
		}
	}
}
