package router

import (
	"runtime"
	"sync"
)

// spread is what a connection's publishing has queued for others and not flushed
// yet. Like the answers to its own messages, it leaves when the connection's reader
// has no more messages in hand: of ten messages published in one go, a subscriber
// gets all in one write.
type spread struct {
	mu    sync.Mutex
	conns []*Conn // whose outboxes were empty before
	spare []*Conn
}

// parallelFlush is how many connections are worth a goroutine.
const parallelFlush = 256

func (s *spread) add(c *Conn) { s.conns = append(s.conns, c) }

// flushSpread sends what publishing has queued.
func (c *Conn) flushSpread() {
	if s := c.spread.Load(); s != nil {
		s.flush()
	}
}

func (s *spread) flush() {
	s.mu.Lock()
	conns := s.conns
	s.conns, s.spare = s.spare[:0], nil
	s.mu.Unlock()
	if len(conns) == 0 {
		return
	}
	if workers := min(runtime.GOMAXPROCS(0), len(conns)/parallelFlush); workers > 1 {
		var wg sync.WaitGroup
		for i := range workers {
			part := conns[len(conns)*i/workers : len(conns)*(i+1)/workers]
			wg.Go(func() { flushAll(part) })
		}
		wg.Wait()
	} else {
		flushAll(conns)
	}
	clear(conns)
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(conns) <= 4<<10 {
		s.spare = conns[:0]
	}
}

func flushAll(conns []*Conn) {
	for _, c := range conns {
		c.stream.Out.Flush()
	}
}

// spreading returns the connection's spread, locked.
func (c *Conn) spreading() *spread {
	s := c.spread.Load()
	if s == nil {
		c.spread.CompareAndSwap(nil, new(spread))
		s = c.spread.Load()
	}
	s.mu.Lock()
	return s
}
