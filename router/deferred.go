package router

import (
	"runtime"
	"sync"
)

// deferredFlush is what a connection's publishing has queued for others and not flushed
// yet. Like the answers to its own messages, it leaves when the connection's reader
// has no more messages in hand: of ten messages published in one go, a subscriber
// gets all in one write.
type deferredFlush struct {
	mu    sync.Mutex
	conns []*Conn // whose outboxes were empty before
	spare []*Conn
}

// parallelFlush is how many connections are worth a goroutine.
const parallelFlush = 256

func (d *deferredFlush) add(c *Conn) { d.conns = append(d.conns, c) }

// flushDeferred sends what publishing has queued.
func (c *Conn) flushDeferred() {
	if d := c.deferred.Load(); d != nil {
		d.flush()
	}
}

func (d *deferredFlush) flush() {
	d.mu.Lock()
	conns := d.conns
	d.conns, d.spare = d.spare[:0], nil
	d.mu.Unlock()
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if cap(conns) <= 4<<10 {
		d.spare = conns[:0]
	}
}

func flushAll(conns []*Conn) {
	for _, c := range conns {
		c.stream.Out.Flush()
	}
}

// lockDeferred returns the connection's deferredFlush, locked.
func (c *Conn) lockDeferred() *deferredFlush {
	d := c.deferred.Load()
	if d == nil {
		c.deferred.CompareAndSwap(nil, new(deferredFlush))
		d = c.deferred.Load()
	}
	d.mu.Lock()
	return d
}
