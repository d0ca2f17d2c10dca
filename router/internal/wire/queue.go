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
	case len(frame) > chunkSize, !o.mayTakeChunk(), o.waits && len(frame) <= copyLimit: // many clients may have to be waited for, with one frame each
		o.push(segment{b: append([]byte(nil), frame...), frames: 1})
	default:
		c := o.takeChunk()
		o.push(segment{b: append(c[:0], frame...), chunk: c, frames: 1})
	}
}

// mayTakeChunk reports whether another chunk may be taken. Chunks are full unless frames that may be dropped lie
// between them: then a chunk of each two small frames would be many times the bytes that may be queued.
func (o *Outbox) mayTakeChunk() bool { return o.chunks < max(2, 2*o.limit/chunkSize) }

func (o *Outbox) takeChunk() *chunk {
	o.chunks++
	return chunks.Get().(*chunk)
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
	case s.gap():
		return false
	case s.chunk != nil && cap(s.b)-len(s.b) >= len(frame):
	case s.chunk == nil && !s.drop && len(s.b) <= copyLimit && chunkSize-len(s.b) >= len(frame) && o.mayTakeChunk():
		c := o.takeChunk()
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
	if unused := o.head + o.gaps; unused > 32 && unused > len(o.queue)/2 {
		o.compact()
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

// compact takes what has left, and what was dropped, out of the queue.
func (o *Outbox) compact() {
	kept, oldest := o.queue[:0], 0
	for i, s := range o.queue {
		if i < o.head || s.gap() {
			continue
		}
		if i < o.oldest {
			oldest++
		}
		kept = append(kept, s)
	}
	clear(o.queue[len(kept):])
	renumber := o.gaps > 0
	o.queue, o.head, o.gaps, o.oldest = kept, 0, 0, oldest
	if renumber {
		o.renumber()
	}
}

// mostSegments is how many segments may be queued when one more comes that may be dropped: small frames take more
// memory than their bytes. All others are bounded by their bytes: small ones share a segment.
func (o *Outbox) mostSegments() int { return max(256, o.limit/64) }

// segments counts what is queued.
func (o *Outbox) segments() int { return len(o.queue) - o.head - o.gaps }

// gap reports whether the segment was dropped.
func (s *segment) gap() bool { return s.frames == 0 }

// drop leaves a gap in place of queue[i]. What is behind it stays where it is. Call pass afterwards.
func (o *Outbox) drop(i int) {
	o.latest.leaves(o.queue[i].key, i-o.head)
	o.forget(i)
	o.gaps++
}

// pass goes on to the next segment that was not dropped, if none is being written.
func (o *Outbox) pass() {
	if o.taken {
		return
	}
	for o.head < len(o.queue) && o.queue[o.head].gap() {
		o.head++
		o.gaps--
		o.latest.first++
	}
	if o.head == len(o.queue) {
		o.giveBack()
		o.queue, o.head, o.oldest = o.first[:0], 0, 0
		o.latest.drop()
	}
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
		o.chunks--
		chunks.Put(s.chunk)
	}
	*s = segment{}
}

// wrote accounts for n bytes of the segment that was being written.
func (o *Outbox) wrote(n int) {
	s := &o.queue[o.head]
	s.b = s.b[n:]
	o.account(-n)
	o.left += n
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
	o.latest.leaves(s.key, 0)
	o.forget(o.head)
	o.head++
	o.latest.first++
	o.pass()
}

// giveBack gives the memory of the queue back. All of its segments are forgotten.
func (o *Outbox) giveBack() {
	if cap(o.queue) == len(longQueue{}) {
		longQueues.Put((*longQueue)(o.queue[:cap(o.queue)]))
	}
}

func (o *Outbox) empty() bool { return o.head == len(o.queue) }
