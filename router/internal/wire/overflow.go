package wire

import (
	"errors"
	"math"
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

// Known reports whether this version has the policy.
func (o Overflow) Known() bool { return o <= LatestOnly }

// admit makes sure that n more bytes fit, or disconnects the client.
func (o *Outbox) admit(n int) error {
	if o.closed {
		return ErrClosed
	}
	if o.queued+n <= o.limit {
		return nil
	}
	o.dropOldest(o.limit-n, math.MaxInt)
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
	o.queue, o.gaps, o.oldest = o.queue[:keep], 0, keep
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

// dropOldest drops what may be dropped until no more bytes and segments are queued, as far as that is possible. It
// looks at each segment once, however often it is called.
func (o *Outbox) dropOldest(bytes, segments int) {
	n := 0
	for o.oldest = max(o.oldest, o.unwritten()); o.oldest < len(o.queue); o.oldest++ {
		if o.queued <= bytes && o.segments() <= segments {
			break
		}
		if o.queue[o.oldest].drop {
			o.drop(o.oldest)
			n++
		}
	}
	if n > 0 {
		o.pass()
		o.dropped(n)
	}
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
		o.drop(i)
		o.pass()
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
