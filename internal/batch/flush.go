package batch

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// A flush is one round trip.
type flush struct {
	callers int  // callers that have not left
	over    bool // the callers are answered, or about to be
	cancel  context.CancelFunc
}

// A slot makes one flush after the other while calls are queued.
type slot[T any] struct {
	batch    []*Item[T]
	answered int    // how many calls its last flush answered: the callers may call again at once
	started  uint64 // Batcher.started after its last flush was started; 0: there was none
}

// slot returns an idle slot.
func (c *Batcher[T]) slot() *slot[T] {
	n := len(c.idle) - 1
	if n < 0 {
		return &slot[T]{}
	}
	s := c.idle[n]
	c.idle = c.idle[:n]
	return s
}

// start counts a flush.
func (c *Batcher[T]) start(calls int) {
	c.away += calls
	c.started++
}

// run makes flushes until the queue is empty, or starts another goroutine that does.
func (c *Batcher[T]) run(s *slot[T]) {
	growStack(0)
	for {
		c.mu.Lock()
		c.away -= s.answered
		t, ctx := c.collect(s)
		if len(s.batch) == 0 {
			c.flushes--
			s.answered, s.started = 0, 0
			c.idle = append(c.idle, s)
			c.mu.Unlock()
			return
		}
		c.start(len(s.batch))
		s.started = c.started
		c.mu.Unlock()

		c.try(ctx, s.batch)

		t.cancel()
		c.mu.Lock()
		t.over = true
		s.answered = len(s.batch)
		c.arrived(s.batch)
		for i, it := range s.batch {
			if it.left {
				s.batch[i], it.left = nil, false
				c.Free(it)
			}
		}
		full := c.waiting >= c.share()
		c.mu.Unlock()
		if c.answer(s, full); !full {
			return
		}
	}
}

// answer wakes the callers. The lock must not be held, because callers that call again take
// it. If too few calls are queued for the next flush, that flush begins on another goroutine
// after the callers have run, so that it includes their next calls. This uses the order of
// the scheduler: the goroutine that became runnable last runs first, then the others in
// order. So a goroutine that is started just before the last caller is woken runs after all
// of them. With another order batches are only smaller.
func (c *Batcher[T]) answer(s *slot[T], full bool) {
	var last *Item[T]
	for i, it := range s.batch {
		if s.batch[i] = nil; it == nil { // its caller has left
			continue
		}
		if last != nil {
			last.done <- struct{}{}
		}
		last = it
	}
	if !full {
		go c.run(s)
	}
	if last != nil {
		last.done <- struct{}{}
	}
}

// try sends a batch. When send panics, the items get an error.
func (c *Batcher[T]) try(ctx context.Context, items []*Item[T]) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("batch: the round trip panicked: %v\n%s", p, debug.Stack())
			for _, it := range items {
				if it.Err == nil {
					it.Err = err
				}
			}
		}
	}()
	c.send(ctx, items)
}

// share is an even share of all calls for one flush. If one flush took all of them, the other
// flushes would be idle while it is under way, and the server while it is prepared.
func (c *Batcher[T]) share() int {
	return min((c.waiting+c.away+c.options.Flushes-1)/c.options.Flushes, c.options.Size)
}

// collect takes the slot's share of the queue, oldest items first, and makes the context of
// the flush. If no other flush was started since the slot's last one, the others may be stuck,
// and it takes all items. It skips an item whose context has ended, and fails one that has
// waited too long.
func (c *Batcher[T]) collect(s *slot[T]) (*flush, context.Context) {
	s.batch = s.batch[:0]
	if c.first == nil {
		return nil, nil
	}
	share := c.share()
	if s.started > 0 && s.started == c.started {
		share = c.options.Size
	}
	t := &flush{cancel: func() {}}
	var latest, now time.Time
	var timeout time.Duration
	bounded, timed := true, true // by the deadlines of all, by the timeouts
	var next *Item[T]
	for it := c.first; it != nil && len(s.batch) < share; it = next {
		if next = it.next; it.ctx.Err() != nil {
			continue
		}
		if now.IsZero() && it.timeout > 0 {
			now = time.Now()
		}
		if it.timeout > 0 && now.Sub(it.since) > c.slack(it.timeout) {
			c.fail(it, ErrFull)
			continue
		}
		c.remove(it)
		it.flush = t
		timed = timed && it.timeout > 0
		timeout = max(timeout, it.timeout)
		deadline, ok := it.ctx.Deadline()
		if it.timeout > 0 {
			if within := now.Add(c.slack(it.timeout)); !ok || within.Before(deadline) {
				deadline, ok = within, true
			}
		}
		if it.Wait > 0 {
			if within := it.since.Add(it.Wait); !ok || within.Before(deadline) {
				deadline, ok = within, true
			}
		}
		if bounded = bounded && ok; deadline.After(latest) {
			latest = deadline
		}
		s.batch = append(s.batch, it)
	}
	t.callers = len(s.batch)
	ctx := context.Background()
	if timed && timeout > 0 {
		ctx = WithTimeout(ctx, timeout)
	}
	switch {
	case len(s.batch) == 0:
	case len(s.batch) == 1 && timeout == 0 && s.batch[0].Wait == 0: // a single call: use the caller's context
		ctx = s.batch[0].ctx
	case bounded:
		ctx, t.cancel = context.WithDeadline(ctx, latest)
	default:
		ctx, t.cancel = context.WithCancel(ctx)
	}
	return t, ctx
}
