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
	// Flushes is how many round trips may be under way at a time; 0 means 2: one is prepared
	// while the other is answered.
	Flushes int
	// Size is the largest number of items in one flush; 0 means 128.
	Size int
	// Waiting is the largest number of items that wait for a flush; 0 means 16,384.
	// Beyond it calls fail with [ErrFull] at once.
	Waiting int
	// OnCaller makes a lone call on the goroutine of its caller, which saves the
	// time of waking another, when its context has a deadline, never ends or is of
	// [WithTimeout]. Set it when send returns at the deadline of its context: the caller
	// then cannot leave earlier.
	OnCaller bool
	// Slack is how many timeouts of [WithTimeout] a flush may take altogether, and a call
	// may wait for it; 0 means 1. Set it to more when send bounds each of its steps by
	// the timeout itself, because it may have to make a connection first.
	Slack int
}

var (
	// ErrNotSent says that the item of a call that failed was never sent.
	ErrNotSent = errors.New("batch: the call was not sent")
	// ErrFull says that the call was not sent because too many wait already.
	// Also a call that has waited for longer than Slack timeouts fails with it.
	ErrFull = fmt.Errorf("%w: too many are waiting", ErrNotSent)
)

// A Batcher sends concurrent calls in batches. All its methods may be used by any number of
// goroutines.
type Batcher[T any] struct {
	send    func(ctx context.Context, items []*Item[T])
	options Options
	items   sync.Pool

	mu          sync.Mutex
	first, last *Item[T] // those that wait, oldest first
	waiting     int
	away        int    // items of the flushes under way, or just answered
	flushes     int    // under way or about to be
	started     uint64 // flushes that have been started
	idle        []*slot[T]
	down        bool // the last flush was not answered
}

// An Item is one call: what is asked and, afterwards, the answer.
type Item[T any] struct {
	// Value is the question and the answer. When it comes from [Batcher.Item] it
	// is as its last user left it, so that what it holds can be used again.
	Value T
	// Err is set by send when there is no answer.
	Err error

	ctx        context.Context
	timeout    time.Duration // of ctx, by WithTimeout
	since      time.Time     // it waits; with a timeout only
	done       chan struct{} // receives once the flush is over
	prev, next *Item[T]
	flush      *flush // once it is sent
	left       bool   // by its caller
}

// New makes a Batcher. send makes one round trip for a batch of at least one
// item, and fills in the Value or the Err of each. It runs on a goroutine of its
// own; the batch is not its own beyond its return. Its context ends when that of
// the last of the callers does, and has the latest of their deadlines; that of a
// lone call is the caller's. When send panics, the items without an Err get one.
//
// New panics when an option is negative.
func New[T any](send func(ctx context.Context, items []*Item[T]), o Options) *Batcher[T] {
	if o.Flushes < 0 || o.Size < 0 || o.Waiting < 0 || o.Slack < 0 {
		panic(fmt.Sprintf("batch: %+v: leave what is negative 0 for the default", o))
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

// Free gives back an item that Do returned nil for.
func (c *Batcher[T]) Free(it *Item[T]) {
	it.Err, it.ctx, it.flush, it.timeout, it.since = nil, nil, nil, 0, time.Time{}
	c.items.Put(it)
}

// Do sends the item, with others or alone, and returns when it is answered. When
// the error is nil the caller reads the answer and calls Free; otherwise the item
// is the batcher's, and the caller keeps nothing of it.
//
// The error is the item's, or that of ctx when it ended first. It is [ErrNotSent]
// when the item was not sent; after any other it is unknown what became of it.
//
// When a flush is not answered ([NotAnswered]), all that wait fail with it, not sent. Until
// a flush is answered again, a call with a timeout ([WithTimeout]) waits no longer than that;
// the flush made for it goes on, so that it can find out whether the server is back.
func (c *Batcher[T]) Do(ctx context.Context, it *Item[T]) error {
	if ctx.Err() != nil {
		c.Free(it)
		return notSent(ctx)
	}
	it.ctx, it.timeout = ctx, Timeout(ctx)
	c.mu.Lock()
	impatient := c.down && it.timeout > 0
	if c.waiting >= c.options.Waiting {
		c.mu.Unlock()
		c.Free(it)
		return ErrFull
	}
	if c.flushes < c.options.Flushes { // then no other call waits
		c.flushes++
		if c.options.OnCaller && !impatient && it.bounded() {
			c.start(1)
			c.mu.Unlock()
			return c.alone(it)
		}
		go c.run(c.slot())
	}
	c.push(it)
	c.mu.Unlock()

	var patience <-chan time.Time
	if impatient {
		timer := time.NewTimer(it.timeout)
		defer timer.Stop()
		patience = timer.C
	}
	if ctx.Done() == nil && patience == nil { // costs less than a select
		<-it.done
	} else {
		var err error
		select {
		case <-it.done:
		case <-ctx.Done():
			err = c.leave(it, context.Cause(ctx), true)
		case <-patience:
			err = c.leave(it, context.DeadlineExceeded, false)
		}
		if err != nil {
			return err
		}
	}
	err := it.Err
	if err != nil {
		c.Free(it)
	}
	return err
}

// bounded reports whether a call that cannot be left early ends in time.
func (it *Item[T]) bounded() bool {
	_, ok := it.ctx.Deadline()
	return ok || it.timeout > 0 || it.ctx.Done() == nil
}

// alone makes a round trip for one item on its caller's goroutine.
func (c *Batcher[T]) alone(it *Item[T]) error {
	ctx := it.ctx
	if it.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.slack(it.timeout))
		defer cancel()
	}
	items := []*Item[T]{it}
	c.try(ctx, items)
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

// leave lets the caller of an item go. It returns nil when the answer came just
// before. A flush that all callers have left is cancelled, unless cancel is false for one.
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
	if it.timeout > 0 {
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
