package combine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// A trip is one round trip.
type trip struct {
	callers int  // that have not left
	over    bool // its callers are answered, or about to be
	cancel  context.CancelFunc
}

// run makes a round trip for those who wait, and has the next one made; it makes none
// when nobody waits. batch is memory to use.
func (c *Combiner[T]) run(batch []*Item[T]) {
	c.mu.Lock()
	batch, t, ctx := c.board(batch)
	if len(batch) == 0 {
		c.trips--
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()

	c.try(ctx, batch)

	t.cancel()
	c.mu.Lock()
	t.over = true
	c.away -= len(batch)
	for i, it := range batch {
		if it.left {
			batch[i], it.left = nil, false
			c.Free(it)
		}
	}
	c.mu.Unlock()
	c.answer(batch)
}

// answer lets the callers go on, not with the lock held, which those who have more to
// ask take next, and has the next trip begin when they have run, so that they can come
// along: a scheduler runs first what became runnable last, and the rest in order, so
// what becomes runnable just before the last caller comes after all of them. Where
// that is not so, batches are smaller, and nothing else changes.
func (c *Combiner[T]) answer(batch []*Item[T]) {
	var last *Item[T]
	for i, it := range batch {
		if batch[i] = nil; it == nil { // has left
			continue
		}
		if last != nil {
			last.done <- struct{}{}
		}
		last = it
	}
	go c.run(batch[:0])
	if last != nil {
		last.done <- struct{}{}
	}
}

// try sends a batch, and answers for a send that panics.
func (c *Combiner[T]) try(ctx context.Context, batch []*Item[T]) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("combine: the round trip panicked: %v\n%s", p, debug.Stack())
			for _, it := range batch {
				if it.Err == nil {
					it.Err = err
				}
			}
		}
	}()
	c.send(ctx, batch)
}

// board takes those that have waited longest, and makes the context of their
// trip. Who is about to leave stays behind, and so does whoever is more than the
// trip's even share of all calls: were one trip to take them all, the others would
// have nothing to do while it is away, and the server nothing while it is prepared.
func (c *Combiner[T]) board(batch []*Item[T]) ([]*Item[T], *trip, context.Context) {
	if c.first == nil {
		return batch, nil, nil
	}
	t := &trip{cancel: func() {}}
	var latest time.Time
	bounded := true // by the deadlines of all
	next := c.first
	share := (c.waiting + c.away + c.options.Trips - 1) / c.options.Trips
	for next != nil && len(batch) < min(share, c.options.Batch) {
		it := next
		if next = it.next; it.ctx.Err() != nil {
			continue
		}
		c.remove(it)
		it.trip = t
		deadline, ok := it.ctx.Deadline()
		if bounded = bounded && ok; deadline.After(latest) {
			latest = deadline
		}
		batch = append(batch, it)
	}
	t.callers = len(batch)
	c.away += len(batch)
	var ctx context.Context
	switch {
	case len(batch) == 0:
	case len(batch) == 1: // on its own: no other context is needed
		ctx = batch[0].ctx
	case bounded:
		ctx, t.cancel = context.WithDeadline(context.Background(), latest)
	default:
		ctx, t.cancel = context.WithCancel(context.Background())
	}
	return batch, t, ctx
}
