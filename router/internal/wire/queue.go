package wire

import "sync"

const (
	chunkSize = 8 << 10
	copyLimit = 1 << 10 // shared frames up to this size are copied when another one is queued
)

type chunk [chunkSize]byte

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// segment is a part of the queue: a chunk of small frames that are never
// dropped, or one frame.
type segment struct {
	b      []byte // what is still to be written
	chunk  *chunk // to be given back; nil where b is a frame that others share
	key    string // for LatestOnly
	frames int32  // that it was made of
	drop   bool   // may be dropped for a newer frame
}

// longQueue is memory for a queue of more segments than Outbox.first has. It is borrowed until the queue has left: a
// client that resumes needs it for each page.
type longQueue [16]segment

var longQueues = sync.Pool{New: func() any { return new(longQueue) }}

// put copies a frame into the last chunk, or into a new one.
func (o *Outbox) put(frame []byte) {
	switch {
	case o.join(frame, 1):
	case len(frame) > chunkSize, o.waits && len(frame) <= copyLimit: // many clients may have to be waited for, with one frame each
		o.push(segment{b: append([]byte(nil), frame...), frames: 1})
	default:
		c := chunks.Get().(*chunk)
		o.push(segment{b: append(c[:0], frame...), chunk: c, frames: 1})
	}
}

// join copies a frame, or several that lie behind one another, behind the last one, so that they leave in one write, if
// there is room and the last one is not being written. A small one that others share is copied for that, and only then:
// thousands of outboxes in which it is the only one need no chunks.
func (o *Outbox) join(frame []byte, frames int) bool {
	last := len(o.queue) - 1
	if last < o.head || last == o.head && o.taken {
		return false
	}
	s := &o.queue[last]
	switch {
	case s.chunk != nil && cap(s.b)-len(s.b) >= len(frame):
	case s.chunk == nil && !s.drop && len(s.b) <= copyLimit && chunkSize-len(s.b) >= len(frame):
		c := chunks.Get().(*chunk)
		s.b, s.chunk = append(c[:0], s.b...), c
	default:
		return false
	}
	s.b = append(s.b, frame...)
	s.frames += int32(frames)
	o.account(len(frame))
	return true
}

func (o *Outbox) push(s segment) {
	if o.head > 32 && o.head > len(o.queue)/2 {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
	if len(o.queue) == len(o.first) && cap(o.queue) == len(o.first) {
		long := longQueues.Get().(*longQueue)
		copy(long[:], o.queue)
		clear(o.queue)
		o.queue = long[:len(o.queue)]
	}
	o.queue = append(o.queue, s)
	o.indexed(len(o.queue) - 1)
	o.account(len(s.b))
}

// unwritten is the index of the first segment of which nothing is being written: what
// may still be dropped begins there.
func (o *Outbox) unwritten() int {
	if o.taken {
		return o.head + 1
	}
	return o.head
}

// framesFrom counts the frames of queue[i:].
func (o *Outbox) framesFrom(i int) int {
	n := 0
	for ; i < len(o.queue); i++ {
		n += int(o.queue[i].frames)
	}
	return n
}

// forget takes queue[i] out of the account and gives its chunk back.
func (o *Outbox) forget(i int) {
	s := &o.queue[i]
	o.account(-len(s.b))
	if s.chunk != nil {
		chunks.Put(s.chunk)
	}
	*s = segment{}
}

// wrote accounts for n bytes of the segment that was being written.
func (o *Outbox) wrote(n int) {
	s := &o.queue[o.head]
	s.b = s.b[n:]
	o.account(-n)
	o.traffic.wrote(n)
	o.taken = false
	o.wake()
	if len(s.b) > 0 {
		// Part of a frame has left: nothing may come between the two halves,
		// so the rest is written before anything is dropped.
		o.taken = true
		return
	}
	o.traffic.finished(s.frames)
	o.latest.leaves(s.key)
	o.forget(o.head)
	o.head++
	if o.head == len(o.queue) {
		o.giveBack()
		o.queue, o.head = o.first[:0], 0
		o.latest.drop()
	}
}

// giveBack gives the memory of the queue back. All of its segments are forgotten.
func (o *Outbox) giveBack() {
	if cap(o.queue) == len(longQueue{}) {
		longQueues.Put((*longQueue)(o.queue[:cap(o.queue)]))
	}
}

func (o *Outbox) empty() bool { return o.head == len(o.queue) }
