package combine

import (
	"context"
	"fmt"
	"sync"

	"github.com/wskit/wskit/errors"
)

// Options of a [Combiner]. The zero value is ready to use.
type Options struct {
	// Trips is how many round trips may be on their way at a time; 0 means 2: one
	// is prepared while the other is answered.
	Trips int
	// Batch is the largest number of items in one trip; 0 means 128.
	Batch int
	// Waiting is the largest number of items that wait for a trip; 0 means 16,384.
	// Beyond it calls fail with [ErrFull] at once.
	Waiting int
	// OnCaller makes a lone call on the goroutine of its caller, which saves the
	// time of waking another, when its context has a deadline or never ends. Set it
	// when send returns at the deadline of its context: the caller then cannot
	// leave earlier.
	OnCaller bool
}

var (
	// ErrNotSent says that the item of a call that failed was never sent.
	ErrNotSent = errors.New("combine: the call was not sent")
	// ErrFull says that the call was not sent because too many wait already.
	ErrFull = fmt.Errorf("%w: too many are waiting", ErrNotSent)
)

// Combiner combines calls. All its methods may be used by any number of
// goroutines.
type Combiner[T any] struct {
	send    func(ctx context.Context, batch []*Item[T])
	options Options
	items   sync.Pool

	mu          sync.Mutex
	first, last *Item[T] // those that wait, oldest first
	waiting     int
	away        int    // on the trips, or just back
	trips       int    // under way or about to be
	boarded     uint64 // trips that have set out
	idle        []*slot[T]
}

// An Item is one call: what is asked and, afterwards, the answer.
type Item[T any] struct {
	// Value is the question and the answer. When it comes from [Combiner.Item] it
	// is as its last user left it, so that what it holds can be used again.
	Value T
	// Err is set by whoever sends, when there is no answer.
	Err error

	ctx        context.Context
	done       chan struct{} // receives once the trip is over
	prev, next *Item[T]
	trip       *trip // once it is sent
	left       bool  // by its caller
}

// New makes a combiner. send makes one round trip for a batch of at least one
// item, and fills in the Value or the Err of each. It runs on a goroutine of its
// own; the batch is not its own beyond its return. Its context ends when that of
// the last of the callers does, and has the latest of their deadlines; that of a
// lone call is the caller's. When send panics, the items without an Err get one.
//
// New panics when an option is negative.
func New[T any](send func(ctx context.Context, batch []*Item[T]), o Options) *Combiner[T] {
	if o.Trips < 0 || o.Batch < 0 || o.Waiting < 0 {
		panic(fmt.Sprintf("combine: %+v: leave what is negative 0 for the default", o))
	}
	o.Trips = orDefault(o.Trips, 2)
	o.Batch = orDefault(o.Batch, 128)
	o.Waiting = orDefault(o.Waiting, 1<<14)
	return &Combiner[T]{send: send, options: o}
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Item returns an item to fill in.
func (c *Combiner[T]) Item() *Item[T] {
	if it, ok := c.items.Get().(*Item[T]); ok {
		return it
	}
	return &Item[T]{done: make(chan struct{}, 1)}
}

// Free gives back an item that Do returned nil for.
func (c *Combiner[T]) Free(it *Item[T]) {
	it.Err, it.ctx, it.trip = nil, nil, nil
	c.items.Put(it)
}

// Do sends the item, with others or alone, and returns when it is answered. When
// the error is nil the caller reads the answer and calls Free; otherwise the item
// is the combiner's, and the caller keeps nothing of it.
//
// The error is the item's, or that of ctx when it ended first. It is [ErrNotSent]
// when the item was not sent; after any other it is unknown what became of it.
func (c *Combiner[T]) Do(ctx context.Context, it *Item[T]) error {
	if ctx.Err() != nil {
		c.Free(it)
		return notSent(ctx)
	}
	it.ctx = ctx
	c.mu.Lock()
	if c.waiting >= c.options.Waiting {
		c.mu.Unlock()
		c.Free(it)
		return ErrFull
	}
	if c.trips < c.options.Trips { // then nobody else waits
		c.trips++
		if c.options.OnCaller && bounded(ctx) {
			c.setOut(1)
			c.mu.Unlock()
			return c.alone(it)
		}
		go c.run(c.slot())
	}
	c.push(it)
	c.mu.Unlock()

	if ctx.Done() == nil { // costs less than a select
		<-it.done
	} else {
		select {
		case <-it.done:
		case <-ctx.Done():
			if err := c.leave(it); err != nil {
				return err
			}
		}
	}
	err := it.Err
	if err != nil {
		c.Free(it)
	}
	return err
}

// bounded reports whether a call that cannot be left early ends in time.
func bounded(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok || ctx.Done() == nil
}

// alone makes a round trip for one item on its caller's goroutine.
func (c *Combiner[T]) alone(it *Item[T]) error {
	c.try(it.ctx, []*Item[T]{it})
	c.mu.Lock()
	c.away--
	if c.first != nil {
		go c.run(c.slot())
	} else {
		c.trips--
	}
	c.mu.Unlock()
	err := it.Err
	if err != nil {
		c.Free(it)
	}
	return err
}

// leave lets the caller of an item go. It returns nil when the answer came just
// before.
func (c *Combiner[T]) leave(it *Item[T]) error {
	c.mu.Lock()
	if it.trip != nil && it.trip.over {
		c.mu.Unlock()
		<-it.done
		return nil
	}
	if it.trip == nil {
		c.remove(it)
		ctx := it.ctx
		c.mu.Unlock()
		c.Free(it)
		return notSent(ctx)
	}
	defer c.mu.Unlock()
	it.left = true
	if it.trip.callers--; it.trip.callers == 0 {
		it.trip.cancel()
	}
	return fmt.Errorf("combine: left before the answer: %w", context.Cause(it.ctx))
}

func notSent(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
}

func (c *Combiner[T]) push(it *Item[T]) {
	if it.prev = c.last; it.prev != nil {
		it.prev.next = it
	} else {
		c.first = it
	}
	c.last = it
	c.waiting++
}

func (c *Combiner[T]) remove(it *Item[T]) {
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
