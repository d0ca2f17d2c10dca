package wire

import (
	"errors"
	"time"
)

// Flush writes what is queued, as far as the socket takes it without waiting; a
// goroutine writes the rest. When another goroutine is writing already, it writes what
// is queued now, too.
func (o *Outbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.flushing && !o.empty() && !o.gone {
		o.writeOut()
	}
}

// writeOut is Flush with the lock held, by a goroutine that is to be the only one that writes.
func (o *Outbox) writeOut() {
	o.flushing = true
	t, _ := o.stream.conn.(*secure)
	for !o.empty() && !o.gone {
		b := o.take()
		t.step(o)
		o.mu.Unlock()
		n, err := o.tryWrite(t, b)
		o.mu.Lock()
		t.step(o)
		if o.gone {
			break
		}
		o.wrote(n)
		if err == errAgain && o.unbounded > 0 {
			o.boundBuffer() // it may be larger than the kernel has chosen
			continue
		}
		if err == errAgain {
			o.waits = true
			go o.drain()
			return
		}
		if err != nil {
			o.failed()
			break
		}
	}
	o.finish()
}

// tryWrite writes what the socket takes without waiting, and returns errAgain if that is
// less than was given and nothing more can be written now.
func (o *Outbox) tryWrite(t *secure, b []byte) (int, error) {
	switch {
	case o.onWrite != nil:
		return o.writeRaw(b)
	case t != nil:
		return t.tryWrite(b)
	}
	return 0, errAgain
}

// errAgain says that nothing more can be written now without waiting.
var errAgain = errors.New("wire: the socket's buffer is full")

// take returns the segment to be written next. While it is written, nothing is
// appended to it.
func (o *Outbox) take() []byte {
	o.taken = true
	b := o.queue[o.head].b
	if o.unbounded > 0 {
		if o.unbounded -= len(b); o.unbounded <= 0 {
			o.boundBuffer()
		}
	}
	return b
}

// boundBuffer sets the size of the buffer that the kernel sends from. A connection that has written less, all of which
// the socket took, does not need it. For Linux it is an event of the socket, which wakes a thread that waits for any.
func (o *Outbox) boundBuffer() {
	o.unbounded = 0
	if c, ok := o.stream.socket().(interface{ SetWriteBuffer(int) error }); ok {
		_ = c.SetWriteBuffer(o.buffer)
	}
	if t, ok := o.stream.conn.(*secure); ok {
		t.piece = 0 // is a part of it
	}
}

// drain writes what is queued, waiting for the client as long as the timeout
// allows for each segment.
func (o *Outbox) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.beginBacklog()
	for !o.empty() && !o.gone {
		b := o.take()
		timeout := o.timeout
		o.mu.Unlock()
		_ = o.stream.conn.SetWriteDeadline(time.Now().Add(timeout))
		n, err := o.stream.conn.Write(b)
		o.mu.Lock()
		if o.gone {
			break
		}
		o.wrote(n)
		if n > 0 {
			o.stream.progressed()
		}
		if err != nil {
			if isTimeout(err) {
				o.timedOut()
			} else {
				o.failed()
			}
			break
		}
	}
	// A deadline left behind would fail a later write as soon as it has passed.
	_ = o.stream.conn.SetWriteDeadline(time.Time{})
	o.endBacklog()
	o.waits = false
	o.finish()
}

func (o *Outbox) finish() {
	o.flushing = false
	if o.hangup && !o.gone {
		o.shut()
	}
}

// hangUp closes the socket after what is queued has left.
func (o *Outbox) hangUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return
	}
	o.closed, o.hangup = true, true
	o.wake()
	if !o.flushing {
		o.writeOut()
	}
}

// fail aborts the connection: the queue is dropped, the socket reset.
func (o *Outbox) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.gone {
		o.failed()
	}
}

// failed is fail with the lock held. Frames that were queued and never left are
// counted as dropped unless the connection was closing anyway.
func (o *Outbox) failed() {
	if !o.closed {
		o.dropped(o.framesFrom(o.head))
	}
	// Without a reset the kernel would keep what the client does not read, for
	// minutes.
	o.stream.discardUnsent()
	o.shut()
}

// timedOut is failed for a client that did not take what was written in time.
func (o *Outbox) timedOut() {
	if !o.closed && o.owner != nil {
		o.owner.SlowConsumer()
	}
	o.failed()
}

func (o *Outbox) shut() {
	for i := o.head; i < len(o.queue); i++ {
		// A chunk that is being written stays with its writer.
		if i == o.head && o.taken {
			o.queue[i].chunk = nil
		}
		o.forget(i)
	}
	o.giveBack()
	o.queue, o.head, o.gaps, o.oldest, o.taken = nil, 0, 0, 0, false
	o.latest.drop()
	o.closed, o.gone = true, true
	if t, ok := o.stream.conn.(*secure); ok {
		t.stop()
	}
	o.wake()
	o.stream.closeSocket()
}

// Gone reports whether the socket is closed.
func (o *Outbox) Gone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone
}
