package batch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
)

// Options of a [Batcher]. The zero value is ready to use.
type Options struct {
	// Flushes is the largest number of concurrent round trips; 0 means 2: one is prepared
	// while the server works on the other.
	Flushes int
	// Size is the largest number of items in one flush; 0 means 128.
	Size int
	// Waiting is the largest number of queued items; 0 means 16,384. Beyond it calls fail
	// with [ErrFull] at once.
	Waiting int
	// OnCaller runs a single call on the goroutine of its caller, which saves a goroutine
	// switch, if its context has a deadline, never ends or comes from [WithTimeout]. Such a
	// caller cannot leave early, so set OnCaller only if send returns at the deadline of its
	// context.
	OnCaller bool
	// ReuseContext uses the context of a call on the goroutine of its caller again for the next one, which saves a
	// context and a timer each. Set it only if nothing uses the context after send has returned. Such a call notices
	// after 20 ms at most that its caller's context has ended.
	ReuseContext bool
	// Slack is how many times the timeout of [WithTimeout] a flush may take, and a call may
	// wait for it; 0 means 1. Set it higher if send itself applies the timeout to each of its
	// steps, such as making a connection first.
	Slack int
}

var (
	// ErrNotSent means that the call failed and its item was never sent.
	ErrNotSent = errors.New("batch: the call was not sent")
	// ErrFull means that the call was not sent because too many are queued, or because it
	// was queued for longer than Slack timeouts.
	ErrFull = fmt.Errorf("%w: too many are waiting", ErrNotSent)
)

// A Batcher sends concurrent calls in batches. All its methods may be called concurrently.
type Batcher[T any] struct {
	send    func(ctx context.Context, items []*Item[T])
	options Options
	items   sync.Pool

	mu          sync.Mutex
	first, last *Item[T] // the queue, oldest first
	waiting     int
	away        int    // items of the flushes under way, or just answered
	flushes     int    // under way or about to start
	started     uint64 // how many flushes have been started
	idle        []*slot[T]
	down        bool // the last flush was not answered
}

// An Item is one call: the question and, afterwards, the answer.
type Item[T any] struct {
	// Value is the question and the answer. [Batcher.Item] does not clear it, so that its
	// buffers can be reused.
	Value T
	// Err is set by send if there is no answer.
	Err error
	// Timeout bounds the round trip, as WithTimeout does; 0 means that of the context.
	Timeout time.Duration
	// Wait bounds the whole call, as the deadline of its context does, but costs less; 0 means none.
	Wait time.Duration

	ctx        context.Context
	timer      *time.Timer   // of Wait
	timeout    time.Duration // of the round trip
	since      time.Time     // when it was queued; with a timeout or Wait only
	done       chan struct{} // receives once the flush is over
	prev, next *Item[T]
	flush      *flush // once it is sent
	left       bool   // the caller has left
	alone      [1]*Item[T]
	reused     *callerContext // with ReuseContext; nil before the first single call
}

// New makes a Batcher. send makes one round trip for a batch of at least one
// item, and fills in the Value or the Err of each. It runs on its own goroutine and must not
// keep the batch after it returns. Its context ends when the contexts of all callers have
// ended, and has the latest of their deadlines; a single call has its caller's context. If
// send panics, the items without an Err get one.
//
// New panics when an option is negative.
func New[T any](send func(ctx context.Context, items []*Item[T]), o Options) *Batcher[T] {
	if o.Flushes < 0 || o.Size < 0 || o.Waiting < 0 || o.Slack < 0 {
		panic(fmt.Sprintf("batch: %+v: options must not be negative; use 0 for the default", o))
	}
	o.Flushes = orDefault(o.Flushes, 2)
	o.Size = orDefault(o.Size, 128)
	o.Waiting = orDefault(o.Waiting, 1<<14)
	o.Slack = orDefault(o.Slack, 1)
	return &Batcher[T]{send: send, options: o}
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Item returns an item to fill in.
func (c *Batcher[T]) Item() *Item[T] {
	if it, ok := c.items.Get().(*Item[T]); ok {
		return it
	}
	return &Item[T]{done: make(chan struct{}, 1)}
}

// Free recycles an item for which Do has returned nil.
func (c *Batcher[T]) Free(it *Item[T]) {
	it.Err, it.ctx, it.flush, it.timeout, it.since = nil, nil, nil, 0, time.Time{}
	it.Timeout, it.Wait = 0, 0
	c.items.Put(it)
}

// Do sends the item, alone or with others, and returns when it is answered. If the error is
// nil the caller reads the answer and calls Free; otherwise the caller must not use the item
// any more.
//
// The error is the item's, or that of ctx if it ended first. It is [ErrNotSent] if the item
// was not sent; after any other error the outcome is unknown.
//
// If a flush is not answered ([NotAnswered]), all queued calls fail, not sent. Until a flush
// is answered again, a call with a timeout ([WithTimeout]) waits for that timeout at most. Its
// flush continues after that, to detect when the server is back.
func (c *Batcher[T]) Do(ctx context.Context, it *Item[T]) error {
	if ctx.Err() != nil {
		c.Free(it)
		return notSent(ctx)
	}
	it.ctx, it.timeout = ctx, it.Timeout
	if it.timeout == 0 {
		it.timeout = Timeout(ctx)
	}
	c.mu.Lock()
	useTimer := c.down && it.timeout > 0
	if c.waiting >= c.options.Waiting {
		c.mu.Unlock()
		c.Free(it)
		return ErrFull
	}
	if c.flushes < c.options.Flushes { // then the queue is empty
		c.flushes++
		if c.options.OnCaller && !useTimer && it.bounded() {
			c.start(1)
			c.mu.Unlock()
			return c.alone(it)
		}
		go c.run(c.slot())
	}
	c.push(it)
	c.mu.Unlock()

	if err := c.wait(ctx, it, useTimer); err != nil {
		return err
	}
	err := it.Err
	if err != nil {
		c.Free(it)
	}
	return err
}

// bounded reports whether a call ends in time without leaving early.
func (it *Item[T]) bounded() bool {
	_, ok := it.ctx.Deadline()
	return ok || it.timeout > 0 || it.Wait > 0 || it.ctx.Done() == nil
}

// wait returns when an item is answered, or an error if its caller stops waiting. With useTimer it
// waits for the timeout of the round trip at most.
func (c *Batcher[T]) wait(ctx context.Context, it *Item[T], useTimer bool) error {
	if ctx.Done() == nil && it.Wait == 0 && !useTimer { // costs less than a select
		<-it.done
		return nil
	}
	var expired, over <-chan time.Time
	if useTimer {
		timer := time.NewTimer(it.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	if it.Wait > 0 {
		if it.timer == nil {
			it.timer = time.NewTimer(it.Wait)
		} else {
			it.timer.Reset(it.Wait)
		}
		over = it.timer.C
	}
	var why error
	cancel := true
	select {
	case <-it.done:
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-over:
		why = context.DeadlineExceeded
	case <-expired:
		why, cancel = context.DeadlineExceeded, false
	}
	if it.Wait > 0 {
		it.timer.Stop() // while the item is this call's
	}
	if why == nil {
		return nil
	}
	return c.leave(it, why, cancel)
}

// alone makes a round trip for a single item on its caller's goroutine.
func (c *Batcher[T]) alone(it *Item[T]) error {
	ctx, most := it.ctx, c.slack(it.timeout)
	if it.Wait > 0 && (most == 0 || it.Wait < most) {
		most = it.Wait
	}
	deadline, ok := ctx.Deadline()
	own := most > 0 && (!ok || time.Until(deadline) > most)
	reused := own && c.options.ReuseContext
	if reused {
		if it.reused == nil {
			it.reused = newCallerContext()
		}
		it.reused.begin(ctx, it.timeout, most)
		ctx = it.reused
	} else {
		if own {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, most)
			defer cancel()
		}
		if it.Timeout > 0 {
			ctx = WithTimeout(ctx, it.Timeout)
		}
	}
	it.alone[0] = it
	items := it.alone[:]
	c.try(ctx, items)
	if reused && !it.reused.end() {
		it.reused = nil
	}
	c.mu.Lock()
	c.away--
	c.arrived(items)
	if c.first != nil {
		go c.run(c.slot())
	} else {
		c.flushes--
	}
	c.mu.Unlock()
	err := it.Err
	if err != nil {
		c.Free(it)
	}
	return err
}

// leave is called when the caller of an item stops waiting. It returns nil if the answer has
// just come. A flush that all callers have left is cancelled, unless cancel was false for one.
func (c *Batcher[T]) leave(it *Item[T], why error, cancel bool) error {
	c.mu.Lock()
	if it.flush != nil && it.flush.over {
		c.mu.Unlock()
		<-it.done
		return nil
	}
	if it.flush == nil {
		c.remove(it)
		c.mu.Unlock()
		c.Free(it)
		return fmt.Errorf("%w: %w", ErrNotSent, why)
	}
	defer c.mu.Unlock()
	it.left = true
	if cancel {
		if it.flush.callers--; it.flush.callers == 0 {
			it.flush.cancel()
		}
	}
	return fmt.Errorf("batch: left before the answer: %w", why)
}

func notSent(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
}

func (c *Batcher[T]) push(it *Item[T]) {
	if it.timeout > 0 || it.Wait > 0 {
		it.since = time.Now()
	}
	if it.prev = c.last; it.prev != nil {
		it.prev.next = it
	} else {
		c.first = it
	}
	c.last = it
	c.waiting++
}

func (c *Batcher[T]) remove(it *Item[T]) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		c.first = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		c.last = it.prev
	}
	it.prev, it.next = nil, nil
	c.waiting--
}
