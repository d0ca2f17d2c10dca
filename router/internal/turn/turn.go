// Package turn decides what the goroutines of one connection do: which one reads, which
// one runs handlers, what waits, and when a handler is detached. It does no I/O, reads no
// clock and does not depend on what a message means. Its users are three roles:
//
//   - The reader reads messages and begins them, one goroutine at a time. Nearly always it
//     also runs the handler of each message inline: nothing is handed over.
//   - The worker runs the handlers of messages that wait. It exists only while a handler
//     was detached, or messages wait behind one that was.
//   - The watchdog looks at the connection once a tick. It detaches a handler that it sees
//     at two looks: another goroutine then reads, so that a client can abort a request and
//     the end of the connection is noticed.
//
// Messages are handled one at a time in order of arrival, except for concurrent ones, each
// of which has a goroutine of its own.
//
// # States
//
//	Free      no ordered handler runs
//	Inline    the reader runs a handler
//	Working   the worker runs handlers, and another goroutine reads
//	Detached  as Working, and the handler that runs takes long: what is sent leaves at once
//
//	from      to        when                                                    by
//	Free      Inline    Begin: an ordered message has come                      reader
//	Inline    Free      Return: its handler has returned                        reader
//	Inline    Detached  Look: the same handler was seen before.                 watchdog
//	                    The reader becomes the worker, another goroutine reads
//	Working   Detached  Look: the same handler was seen before                  watchdog
//	Detached  Working   Next: a message waits                                   worker
//	Working   Working   Next: a message waits                                   worker
//	Working   Free      Free: no message waits. The worker is gone              worker
//	Detached  Free      likewise                                                worker
//
// A message is open while it waits, is handled concurrently, or is handled by the worker;
// also one that is handled inline and was tracked. [Turn.Finish] and [Turn.Untrack] close
// it.
//
// # Locks
//
// Turn.mu guards what is open and waits. Rules.Opened is called under it; nothing else is.
// The state, what the reader does, and the number of concurrent requests are atomic, so that
// a message that is handled inline takes no lock.
package turn

import (
	"slices"
	"sync"
	"sync/atomic"
)

// The states are the lowest bits of Turn.word, whose other bits count handlers: no two
// handlers have the same word.
const (
	free     = 0
	inline   = 1
	working  = 2
	detached = 3

	stateBits = 3
	step      = 4
)

// Rules hold for all connections of a router.
type Rules[M any] struct {
	// MaxInFlight is how many messages may wait for their turn, and how many events may be
	// handled concurrently. Requests that are handled concurrently are not bounded here: the
	// user refuses them, see [Turn.Requests].
	MaxInFlight int
	// MaxPending is how many bytes of messages may be open. One message alone may be
	// larger.
	MaxPending int
	// Opened is called, with the Turn locked, when a message becomes open, for a message
	// that is handled inline when its handler is detached. It must not use the Turn.
	Opened func(*M)
}

// Task is the part of a message that a Turn keeps.
type Task[M any] struct {
	Message    *M
	Size       int32 // in bytes
	Request    bool
	Concurrent bool

	open   bool // guarded by Turn.mu, as is closed
	closed bool
}

// Place says how a message is handled.
type Place uint8

const (
	// Inline means that the caller runs the handler, and then calls [Turn.Return].
	Inline Place = iota
	// Queued means that the worker will run the handler.
	Queued
	// Concurrent means that a goroutine is to run the handler, and to call [Turn.Finish].
	Concurrent
	// Refused means that there is no room, and that the reader may not wait for it, see
	// [Turn.NeedReader]. The message is not open.
	Refused

	full // there is no room yet
)

// Turn is the machine of one connection. It is not to be copied once it is used.
type Turn[M any] struct {
	rules *Rules[M]

	word     atomic.Uint64 // the state, and a count of handlers
	frame    atomic.Uint64 // odd: a frame is under way at the reader; no two frames have the same
	requests atomic.Int32  // open requests of those that are handled concurrently
	watched  atomic.Bool   // the watchdog looks at it
	running  *Task[M]      // the message that is handled inline; written before word says so

	seenWord, seenFrame uint64 // at the last look

	mu         sync.Mutex
	room       *sync.Cond // made when the reader has to wait
	open       []*Task[M]
	waiting    []*Task[M] // in order of arrival; they are open as well
	concurrent int        // open events of those that are handled concurrently
	pending    int        // bytes of open messages that are not handled inline
	needed     int        // handlers that need the reader
	stopped    bool       // the connection has ended: the reader waits for nothing
}

// Init sets the rules. It is called before anything else.
func (t *Turn[M]) Init(rules *Rules[M]) { t.rules = rules }

func batching(word uint64) bool {
	state := word & stateBits
	return state == inline || state == working
}

func inHand(frame uint64) bool { return frame&1 != 0 }

// Batching reports whether what is sent now leaves at the end of a batch: a handler runs
// that has not been detached.
func (t *Turn[M]) Batching() bool { return batching(t.word.Load()) }

// Busy reports whether a worker exists: a message that comes now has to wait. It is the
// reader's.
func (t *Turn[M]) Busy() bool { return t.word.Load()&stateBits >= working }

// BeginFrame is called by the reader before it looks at a frame.
func (t *Turn[M]) BeginFrame() { t.frame.Store((t.frame.Load() | 1) + 2) }

// EndFrame is called by the reader before it may have to wait for its client.
func (t *Turn[M]) EndFrame() {
	if frame := t.frame.Load(); inHand(frame) {
		t.frame.Store(frame &^ 1)
	}
}

// FrameInHand reports whether the reader is busy with a frame.
func (t *Turn[M]) FrameInHand() bool { return inHand(t.frame.Load()) }

// Requests returns how many requests are handled concurrently.
func (t *Turn[M]) Requests() int { return int(t.requests.Load()) }

// Begin gives a message its place. It is the reader's, which it keeps waiting as long as
// the bounds leave no room for the message, and no handler needs the reader.
func (t *Turn[M]) Begin(k *Task[M]) Place {
	if !k.Concurrent && !t.Busy() { // and only the reader ends that
		return t.beginInline(k)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if place := t.tryBegin(k); place != full {
			return place
		}
		t.awaitRoom()
	}
}

func (t *Turn[M]) tryBegin(k *Task[M]) Place {
	switch {
	case !k.Concurrent && !t.Busy(): // by now
		return t.beginInline(k)
	case t.full(k) && t.needed > 0:
		return Refused
	case t.full(k):
		return full
	case k.Concurrent:
		t.add(k)
		return Concurrent
	default:
		t.waiting = append(t.waiting, k)
		t.add(k)
		return Queued
	}
}

func (t *Turn[M]) beginInline(k *Task[M]) Place {
	t.running = k
	t.word.Store((t.word.Load()+step)&^stateBits | inline)
	return Inline
}

// full reports whether there is no room for a message. t.mu is held.
func (t *Turn[M]) full(k *Task[M]) bool {
	switch {
	case t.stopped:
		return false
	case t.pending > 0 && t.pending+int(k.Size) > t.rules.MaxPending:
		return true
	case !k.Concurrent:
		return len(t.waiting) >= t.rules.MaxInFlight
	case k.Request:
		return false
	default:
		return t.concurrent >= t.rules.MaxInFlight
	}
}

// add opens a message that is not handled inline, or not any more. t.mu is held.
func (t *Turn[M]) add(k *Task[M]) {
	t.count(k, 1)
	t.pending += int(k.Size)
	t.list(k)
	t.rules.Opened(k.Message)
}

func (t *Turn[M]) list(k *Task[M]) {
	if !k.open && !k.closed {
		k.open = true
		t.open = append(t.open, k)
	}
}

func (t *Turn[M]) unlist(k *Task[M]) {
	k.closed = true
	if !k.open {
		return
	}
	k.open = false
	last := len(t.open) - 1
	t.open[slices.Index(t.open, k)], t.open[last] = t.open[last], nil
	t.open = t.open[:last]
}

// Return is called when the handler of a message that is handled inline has returned. It
// reports whether the caller is still the reader. Otherwise the handler has been detached:
// the message is open, and the caller is the worker, which calls Finish and then Next.
func (t *Turn[M]) Return() bool {
	word := t.word.Load()
	if word&stateBits != inline || !t.word.CompareAndSwap(word, word&^stateBits) {
		return false
	}
	t.running = nil
	return true
}

// Track opens a message that is handled inline, for [Turn.Open] and [Turn.Stop] to find
// it. For any other message it does nothing.
func (t *Turn[M]) Track(k *Task[M]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list(k)
}

// Untrack closes a message that was handled inline and was tracked, or may yet be.
func (t *Turn[M]) Untrack(k *Task[M]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlist(k)
}

// Add opens a concurrent message that was not begun: it waits for something outside of the
// connection, until Finish. Any goroutine may call it.
func (t *Turn[M]) Add(k *Task[M]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(k)
}

// Finish closes a message that is not handled inline. It is called once for each.
func (t *Turn[M]) Finish(k *Task[M]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlist(k)
	t.count(k, -1)
	t.pending -= int(k.Size)
	t.signalRoom()
}

// count counts the messages that are handled concurrently. t.mu is held.
func (t *Turn[M]) count(k *Task[M], by int) {
	switch {
	case !k.Concurrent:
	case k.Request:
		t.requests.Add(int32(by))
	default:
		t.concurrent += by
	}
}

// Next returns the next message for the worker to handle, which is then to be finished, or
// nil when none waits.
func (t *Turn[M]) Next() *M {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return nil
	}
	k := t.waiting[0]
	t.waiting[0] = nil
	t.waiting = t.waiting[1:]
	t.word.Store((t.word.Load()+step)&^stateBits | working)
	t.signalRoom()
	return k.Message
}

// Free ends the role of the worker, unless a message waits.
func (t *Turn[M]) Free() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 {
		return false
	}
	t.waiting = nil
	t.word.Store(t.word.Load() &^ stateBits)
	return true
}

// NeedReader counts, by 1 and by -1, the handlers that wait for what the client is still to
// send. While there are any, the reader does not wait for room: what it waits for may be
// behind the message in its hands.
func (t *Turn[M]) NeedReader(by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.needed += by
	t.signalRoom()
}

// Abort takes a message out of the line, and reports whether it waited. Then the caller
// finishes it in the worker's place.
func (t *Turn[M]) Abort(k *Task[M]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, k)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	t.signalRoom()
	return true
}

// Idle reports whether no handler runs and nothing is open. A caller that first had new
// messages refused may rely on it: whatever begins later sees that.
func (t *Turn[M]) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.word.Load()&stateBits == free && len(t.open) == 0
}

// Open returns the messages that are open, in no particular order.
func (t *Turn[M]) Open() []*M {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.openLocked()
}

func (t *Turn[M]) openLocked() []*M {
	all := make([]*M, len(t.open))
	for i, k := range t.open {
		all[i] = k.Message
	}
	return all
}

// HasEvents reports whether events are open.
func (t *Turn[M]) HasEvents() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasEvents()
}

func (t *Turn[M]) hasEvents() bool {
	return slices.ContainsFunc(t.open, func(k *Task[M]) bool { return !k.Request })
}

// AwaitEvents waits until no event is open, or the Turn is stopped. It is the reader's.
func (t *Turn[M]) AwaitEvents() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.hasEvents() && !t.stopped {
		t.awaitRoom()
	}
}

// Stop has the reader wait for nothing any more, and returns the messages that are open.
// Handlers go on, and what waits is still handed to the worker.
func (t *Turn[M]) Stop() []*M {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.signalRoom()
	return t.openLocked()
}

// awaitRoom waits for a change. It is the reader's; t.mu is held.
func (t *Turn[M]) awaitRoom() {
	if t.room == nil {
		t.room = sync.NewCond(&t.mu)
	}
	t.room.Wait()
}

// signalRoom wakes the reader, which alone waits for room.
func (t *Turn[M]) signalRoom() {
	if t.room != nil {
		t.room.Signal()
	}
}

// Seen says what the watchdog has to do after a look, besides sending what is queued.
type Seen uint8

const (
	// Nothing is to be done.
	Nothing Seen = iota
	// TakenOver means that the handler has been detached that was handled inline: a
	// goroutine is to take over reading.
	TakenOver
)

// Watch reports whether the connection has to be given to the watchdog. It is called when
// a frame or a handler begins. The watchdog looks at the connection until Look finds
// nothing more to look at, so that a busy connection is not registered for each message.
func (t *Turn[M]) Watch() bool {
	return !t.watched.Load() && t.watched.CompareAndSwap(false, true)
}

// Look is called by the watchdog once a tick, and never by two goroutines at once. What is
// queued is to be sent after it. again reports whether to look again at the next tick.
func (t *Turn[M]) Look() (seen Seen, again bool) {
	word, frame := t.word.Load(), t.frame.Load()
	if batching(word) && word == t.seenWord {
		seen, word = t.detach(word)
	}
	// A frame that was under way at the last look has nothing more to be sent after this
	// one, however long it takes.
	old := frame == t.seenFrame
	t.seenWord, t.seenFrame = word, frame
	if batching(word) || inHand(frame) && !old {
		return seen, true
	}
	t.watched.Store(false)
	// What began before that, and so was not registered, must not be missed.
	next := t.frame.Load()
	again = (batching(t.word.Load()) || inHand(next) && next != frame) && t.watched.CompareAndSwap(false, true)
	return seen, again
}

// detach detaches the handler that word stands for, if it still runs, and returns the word
// after that.
func (t *Turn[M]) detach(word uint64) (Seen, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.word.CompareAndSwap(word, word|detached) {
		return Nothing, word
	}
	if word&stateBits == working {
		return Nothing, word | detached
	}
	// The handler may return any time now, but Finish waits for the lock.
	k := t.running
	t.running = nil
	t.add(k)
	return TakenOver, word | detached
}
