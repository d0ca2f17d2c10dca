package router

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// deferredFlush is what a connection's publishing has queued for others and not flushed
// yet. Like the answers to its own messages, it leaves when the connection's reader
// has no more messages at the moment: of ten messages published in one go, a subscriber
// gets all in one write.
type deferredFlush struct {
	mu    sync.Mutex
	conns []*Conn // whose outboxes were empty before
	spare []*Conn
	bytes int             // of what was queued since the last flush
	subs  []*subscription // likewise, those that are to be flushed with it

	beside atomic.Int32 // calls of flushBeside since its goroutine began; 0: there is none
}

// deferLimit is how many bytes of messages are held back at most. Holding back more saves
// nothing.
const deferLimit = 16 << 10

// hold counts a message that has been queued, and reports whether it is too much to be held
// back. most is Limits.MaxQueued: no client is too slow for what is held back. d is locked.
func (d *deferredFlush) hold(frame []byte, most int) (full bool) {
	d.bytes += len(frame)
	return d.bytes >= min(deferLimit, most/4)
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
	conns, subs := d.conns, d.subs
	d.conns, d.spare, d.subs, d.bytes = d.spare[:0], nil, nil, 0
	d.mu.Unlock()
	for _, in := range subs {
		in.flush()
	}
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

// flushBeside has another goroutine flush, which waits while a message is being published. There is one at most. It
// flushes again what has been queued since it began.
func (d *deferredFlush) flushBeside() {
	if d.beside.Add(1) > 1 {
		return
	}
	go func() {
		for {
			calls := d.beside.Load()
			d.flush()
			if d.beside.CompareAndSwap(calls, 0) {
				return
			}
		}
	}()
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

// A broker in this process delivers a message before Publish or Append returns, and passes on
// the bytes that it was given. What a batch publishes that way leaves when the batch ends,
// as without a broker: the subscription has a list of the frames that batches are about to publish, by the
// address of their first byte.

// expect announces a frame that a batch is about to publish.
func (in *subscription) expect(frame []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.expected == nil {
		in.expected = make(map[*byte]struct{})
	}
	in.expected[&frame[0]] = struct{}{}
}

// expects reports whether the frame was announced, once for each. in.mu is held.
func (in *subscription) expects(frame []byte) bool {
	before := len(in.expected)
	if before > 0 && len(frame) > 0 {
		delete(in.expected, &frame[0])
	}
	return len(in.expected) < before
}

// published ends expect. If the frame has been delivered, the connection's batch flushes it.
func (in *subscription) published(c *Conn, frame []byte) {
	in.mu.Lock()
	delivered := !in.expects(frame)
	in.mu.Unlock()
	if !delivered {
		return
	}
	later := c.lockDeferred()
	defer later.mu.Unlock()
	if !slices.Contains(later.subs, in) {
		later.subs = append(later.subs, in)
	}
}
