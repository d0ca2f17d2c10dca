package hub

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// batch is what a connection's publishing has queued for others and not flushed
// yet. Like the answers to its own messages, it leaves when the connection's reader
// has no more messages at the moment: of ten messages published in one go, a subscriber
// gets all in one write.
type batch struct {
	mu    sync.Mutex
	peers []*Peer // whose outboxes were empty before
	spare []*Peer
	bytes int             // of what was queued since the last flush
	subs  []*subscription // likewise, those that are to be flushed with it

	calls atomic.Int32 // of flushConcurrently since its goroutine began; 0: there is none
}

// batchLimit is how many bytes of messages are held back at most. Holding back more saves
// nothing.
const batchLimit = 16 << 10

// hold counts a message that has been queued, and reports whether it is too much to be held
// back. most is Config.MaxQueued: no client is too slow for what is held back. b is locked.
func (b *batch) hold(frame []byte, most int) (full bool) {
	b.bytes += len(frame)
	return b.bytes >= min(batchLimit, most/4)
}

// parallelFlush is how many connections are worth a goroutine.
const parallelFlush = 256

func (b *batch) add(p *Peer) { b.peers = append(b.peers, p) }

// FlushBatch sends what the connection's publishing has queued for others.
func (p *Peer) FlushBatch() {
	if b := p.batch.Load(); b != nil {
		b.flush()
	}
}

// FlushBatchConcurrently is FlushBatch by another goroutine. It waits for nothing.
func (p *Peer) FlushBatchConcurrently() {
	if b := p.batch.Load(); b != nil {
		b.flushConcurrently()
	}
}

func (b *batch) flush() {
	b.mu.Lock()
	peers, subs := b.peers, b.subs
	b.peers, b.spare, b.subs, b.bytes = b.spare[:0], nil, nil, 0
	b.mu.Unlock()
	for _, in := range subs {
		in.flush()
	}
	if len(peers) == 0 {
		return
	}
	if workers := min(runtime.GOMAXPROCS(0), len(peers)/parallelFlush); workers > 1 {
		var wg sync.WaitGroup
		for i := range workers {
			part := peers[len(peers)*i/workers : len(peers)*(i+1)/workers]
			wg.Go(func() { flushAll(part) })
		}
		wg.Wait()
	} else {
		flushAll(peers)
	}
	clear(peers)
	b.mu.Lock()
	defer b.mu.Unlock()
	if cap(peers) <= 4<<10 {
		b.spare = peers[:0]
	}
}

// flushConcurrently has another goroutine flush, which waits while a message is being published. There is one at most.
// It flushes again what has been queued since it began.
func (b *batch) flushConcurrently() {
	if b.calls.Add(1) > 1 {
		return
	}
	go func() {
		for {
			seen := b.calls.Load()
			b.flush()
			if b.calls.CompareAndSwap(seen, 0) {
				return
			}
		}
	}()
}

func flushAll(peers []*Peer) {
	for _, p := range peers {
		p.Out.Flush()
	}
}

// lockBatch returns the connection's batch, locked.
func (p *Peer) lockBatch() *batch {
	b := p.batch.Load()
	if b == nil {
		p.batch.CompareAndSwap(nil, new(batch))
		b = p.batch.Load()
	}
	b.mu.Lock()
	return b
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
func (in *subscription) published(p *Peer, frame []byte) {
	in.mu.Lock()
	delivered := !in.expects(frame)
	in.mu.Unlock()
	if !delivered {
		return
	}
	later := p.lockBatch()
	defer later.mu.Unlock()
	if !slices.Contains(later.subs, in) {
		later.subs = append(later.subs, in)
	}
}
