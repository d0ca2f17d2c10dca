package combine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// A trip is one round trip.
type trip struct {
	callers int  // that have not left
	over    bool // its callers are answered, or about to be
	cancel  context.CancelFunc
}

// run makes round trips until nobody waits.
func (c *Combiner[T]) run() {
	batch := make([]*Item[T], 0, 4)
	for {
		var t *trip
		var ctx context.Context
		c.mu.Lock()
		if batch, t, ctx = c.board(batch[:0]); len(batch) == 0 {
			c.trips--
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		c.try(ctx, batch)

		t.cancel()
		c.mu.Lock()
		t.over = true
		for i, it := range batch {
			if it.left {
				batch[i], it.left = nil, false
				c.Free(it)
			}
		}
		c.mu.Unlock()
		for i, it := range batch {
			if batch[i] = nil; it != nil {
				it.done <- struct{}{} // not with the lock held, which it would take next
			}
		}
		c.gather()
	}
}

// gather lets those who were answered come along if they have more to ask: it steps
// back for as long as others come, which another core may still be busy with, but
// never sleeps.
func (c *Combiner[T]) gather() {
	for before, n := c.waits(), 0; n < 4; n++ {
		runtime.Gosched()
		now := c.waits()
		if now == before {
			return
		}
		before = now
	}
}

func (c *Combiner[T]) waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
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
// trip. Who is about to leave stays behind.
func (c *Combiner[T]) board(batch []*Item[T]) ([]*Item[T], *trip, context.Context) {
	if c.first == nil {
		return batch, nil, nil
	}
	t := &trip{cancel: func() {}}
	var latest time.Time
	bounded := true // by the deadlines of all
	next := c.first
	for next != nil && len(batch) < c.options.Batch {
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
