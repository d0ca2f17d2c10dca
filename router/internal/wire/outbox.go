package wire

import (
	"errors"
	"sync"
	"time"
)

// ErrClosed is returned for a frame that comes after the close frame or after
// the connection has failed.
var ErrClosed = errors.New("wire: connection closed")

// Outbox queues a connection's frames. Appending does not write: the caller has to call
// [Outbox.Flush], after the frame or at the end of a batch. Neither waits for a client
// that does not read. What the socket does not take without waiting is written by a
// goroutine that lives as long as there is something to write.
//
// Its methods may be called from any goroutine. Frames leave in the order in
// which they were appended.
type Outbox struct {
	stream *Stream

	mu       sync.Mutex
	queue    []segment
	head     int  // queue[:head] has left
	gaps     int  // segments of queue[head:] that were dropped; queue[head] is none
	oldest   int  // queue[head:oldest] has nothing that may be dropped
	queued   int  // bytes
	left     int  // bytes, since the beginning
	chunks   int  // of queue[head:]
	taken    bool // queue[head] is being written
	flushing bool // a goroutine writes, and will write what is appended until it is done
	waits    bool // it waits for the client
	closed   bool // no frame may follow
	hangup   bool // close the socket when the queue has left
	gone     bool // the socket is closed
	slow     bool // the client was too slow
	limit    int
	timeout  time.Duration
	owner    Owner
	below    *sync.Cond // made when a goroutine waits for queued to shrink
	first    [2]segment // the queue of nearly every connection fits
	latest   latest
	traffic  *Traffic // nil: not counted
	backlog  bool     // what is queued is counted in traffic.BacklogBytes

	// of the goroutine that writes
	onWrite   func(fd uintptr) bool
	writing   []byte
	written   int
	writeErr  error
	buffer    int // of the kernel, see Stream.Buffer
	unbounded int // how much may be written before buffer is set, see boundBuffer; 0: it is, or is not to be
}

func (o *Outbox) init(s *Stream) {
	o.stream = s
	o.queue = o.first[:0]
	o.limit = 1 << 20
	o.timeout = 30 * time.Second
}

// Owner has the callbacks of a Stream and its Outbox.
type Owner interface {
	// SlowConsumer is called when the client was too slow and is being
	// disconnected. The Outbox is locked and must not be used.
	SlowConsumer()
	// FramesDropped counts frames that were queued, or were to be, and will
	// never leave. The Outbox is locked and must not be used.
	FramesDropped(n int)
	// BeforeWait is called by the reader when it is about to wait for input.
	BeforeWait()
}

// Configure sets the bytes that may be queued, how long a write may stall before the
// connection is aborted, and the callbacks.
func (o *Outbox) Configure(limit int, timeout time.Duration, owner Owner) {
	o.limit, o.timeout, o.owner = limit, timeout, owner
}

// HoldBack blocks while more than half of what may be queued is. It is for
// goroutines other than the reader that send answers; see [Stream.HoldBack].
func (o *Outbox) HoldBack() {
	if o.Queued() >= o.limit/2 {
		o.Flush()
		o.waitBelow(max(1, o.limit/2))
	}
}

// waitBelow blocks until fewer than n bytes wait to be written, or nothing can be
// written any more.
func (o *Outbox) waitBelow(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.queued >= n && !o.gone && !o.hangup && !o.slow {
		o.awaitLess()
	}
}

// AwaitSent returns when what is queued now has left, or was dropped. A client that has not taken it within d is
// disconnected, and gets nothing more.
func (o *Outbox) AwaitSent(d time.Duration) {
	o.Flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued == 0 {
		return
	}
	late := time.AfterFunc(d, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.gone {
			o.timedOut()
		}
	})
	defer late.Stop()
	for until := o.left + o.queued; o.queued > 0 && o.left < until; {
		o.awaitLess()
	}
}

// awaitLess waits until queued shrinks, or nothing can be written any more.
func (o *Outbox) awaitLess() {
	if o.below == nil {
		o.below = sync.NewCond(&o.mu)
	}
	o.below.Wait()
}

// HasRoom reports whether n more bytes leave the outbox no more than half full, or find it empty.
func (o *Outbox) HasRoom(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hasRoom(n)
}

func (o *Outbox) hasRoom(n int) bool { return n <= o.room(n) }

// Room returns the largest number for which HasRoom is true; that is at least n if the outbox is empty.
func (o *Outbox) Room(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.room(n)
}

func (o *Outbox) room(n int) int {
	if o.queued == 0 {
		return max(n, o.limit/2)
	}
	return o.limit/2 - o.queued
}

// AwaitRoom blocks until HasRoom(n). It returns false if nothing can be written any more.
func (o *Outbox) AwaitRoom(n int) bool {
	if !o.HasRoom(n) {
		o.Flush()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && !o.hasRoom(n) {
		o.awaitLess()
	}
	return !o.closed
}

// wake wakes the goroutines that wait for queued to shrink.
func (o *Outbox) wake() {
	if o.below != nil {
		o.below.Broadcast()
	}
}

// Queued returns how many bytes wait to be written.
func (o *Outbox) Queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued
}

// Append queues a copy of a frame for which a full outbox means [Disconnect].
func (o *Outbox) Append(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.add(frame)
}

// Answer queues a copy of a frame that answers one of the client's own. It is
// queued whether it fits or not: a client that does not read its answers is to be
// held back by not reading it, see [Stream.HoldBack], and not to be disconnected
// for asking much at once.
func (o *Outbox) Answer(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	o.put(frame)
	return nil
}

func (o *Outbox) add(frame []byte) error {
	if err := o.admit(len(frame)); err != nil {
		return err
	}
	o.put(frame)
	return nil
}

// AppendShared queues a frame that is never changed, so that thousands of
// outboxes can hold the same one. key is for LatestOnly. first reports that the
// outbox was empty: when it was not, a flush is still due, and will write this frame,
// too.
func (o *Outbox) AppendShared(frame []byte, overflow Overflow, key string) (first bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = o.empty()
	return first, o.addShared(frame, overflow, key)
}

// AppendRun queues frames that lie behind one another in memory, and are never changed, as AppendShared does with one
// for which a full outbox means [Disconnect].
func (o *Outbox) AppendRun(run []byte, frames int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if frames == 0 {
		return nil
	}
	return o.addRun(run, frames)
}

func (o *Outbox) addRun(run []byte, frames int) error {
	if err := o.admit(len(run)); err != nil {
		return err
	}
	if len(run) > copyLimit || !o.join(run, frames) {
		o.push(segment{b: run, frames: int32(frames)})
	}
	return nil
}

func (o *Outbox) addShared(frame []byte, overflow Overflow, key string) error {
	if overflow == Disconnect {
		return o.addRun(frame, 1)
	}
	if o.closed {
		return ErrClosed
	}
	if overflow == LatestOnly && o.replace(frame, key) {
		return nil
	}
	room, most := o.limit-len(frame), o.mostSegments()-1
	if overflow != DropNewest {
		o.dropOldest(room, most)
	}
	if o.queued > room || o.segments() > most {
		o.dropped(1)
		return nil
	}
	if overflow != LatestOnly {
		key = ""
	}
	o.push(segment{b: frame, key: key, drop: overflow != DropNewest, frames: 1})
	return nil
}

// Control queues a control frame: a pong of the stream's own, or a ping. Like an answer
// it is queued whether it fits or not, so that a client with one large answer on its way
// is not disconnected for a ping. Their number is bounded: a client may send few pings
// without a message (see [Stream.Next]), and is sent few.
func (o *Outbox) Control(opcode byte, payload []byte) {
	var buf [2 + maxControl]byte
	_ = o.Answer(controlFrame(buf[:0], opcode, payload))
}

// Ping queues a ping.
func (o *Outbox) Ping() { o.Control(opPing, nil) }

// Close queues a close frame, after which nothing can be queued any more, and
// reports whether it was the first to do so.
func (o *Outbox) Close(payload []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.close(payload)
	return true
}

func (o *Outbox) close(payload []byte) {
	var buf [2 + maxControl]byte
	o.put(controlFrame(buf[:0], opClose, payload))
	o.closed = true
}
