package wire

import (
	"errors"
	"slices"
)

// ErrOverflow is returned for the frame that made a client too slow: the
// connection is being closed.
var ErrOverflow = errors.New("wire: outbox full")

// Overflow says what happens to a frame that finds the outbox full.
type Overflow uint8

const (
	// Disconnect closes the connection: its client reads too slowly.
	Disconnect Overflow = iota
	// DropOldest makes room by dropping the oldest queued frames that may be
	// dropped; if that is not enough, the new one.
	DropOldest
	// DropNewest drops the frame itself.
	DropNewest
	// LatestOnly replaces a queued frame of the same key, full or not; in a
	// full outbox it behaves like DropOldest.
	LatestOnly
)

// admit makes sure that n more bytes fit, or disconnects the client.
func (o *Outbox) admit(n int) error {
	if o.closed {
		return ErrClosed
	}
	if o.queued+n <= o.limit {
		return nil
	}
	o.dropOldest(n)
	if o.queued+n <= o.limit {
		return nil
	}
	o.tooSlow()
	return ErrOverflow
}

// tooSlow drops what is queued, except for the segment that is being written,
// whose frames have to be finished, and queues the close frame. How long the client has
// to take it, and what the kernel holds before it, is the owner's to decide.
func (o *Outbox) tooSlow() {
	keep := o.unwritten()
	o.dropped(o.framesFrom(keep) + 1)
	for i := keep; i < len(o.queue); i++ {
		o.forget(i)
	}
	o.queue = o.queue[:keep]
	o.latest.drop()
	if o.owner != nil {
		o.owner.SlowConsumer()
	}
	o.close(slowConsumer)
	o.slow = true
	o.wake()
	if !o.flushing {
		o.flushing, o.waits = true, true
		go o.drain()
	}
}

var slowConsumer = append([]byte{4008 >> 8, 4008 & 0xFF}, "slow consumer"...)

func (o *Outbox) dropOldest(need int) {
	start := o.unwritten()
	n := 0
	kept := o.queue[:start]
	for i := start; i < len(o.queue); i++ {
		if o.queue[i].drop && o.queued+need > o.limit {
			o.forget(i)
			n++
			continue
		}
		kept = append(kept, o.queue[i])
	}
	clear(o.queue[len(kept):])
	o.queue = kept
	if n > 0 {
		o.latest.drop()
	}
	o.dropped(n)
}

// replace puts the frame where an older one of the same key still waits.
func (o *Outbox) replace(frame []byte, key string) bool {
	if key == "" {
		return false
	}
	i := o.find(key)
	if i < 0 {
		return false
	}
	s := &o.queue[i]
	o.dropped(1)
	if o.queued+len(frame)-len(s.b) > o.limit {
		// It is larger and does not fit there: it is queued at the end, or dropped.
		o.forget(i)
		o.queue = slices.Delete(o.queue, i, i+1)
		o.latest.drop()
		return false
	}
	o.account(len(frame) - len(s.b))
	s.b = frame
	return true
}

func (o *Outbox) dropped(frames int) {
	if frames > 0 && o.owner != nil {
		o.owner.FramesDropped(frames)
	}
}
