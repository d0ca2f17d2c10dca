package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/errors"
)

// timed is a context with a timeout for round trips.
type timed struct {
	context.Context
	timeout time.Duration
}

type timeoutKey struct{}

func (t *timed) Value(key any) any {
	if key == (timeoutKey{}) {
		return t.timeout
	}
	return t.Context.Value(key)
}

// WithTimeout returns a context for [Batcher.Do] that bounds the round trip of the call, not
// the whole call: the timeout, which is positive, begins when the call is sent. The time in
// the queue is bounded by the timeouts of the flushes before it.
func WithTimeout(ctx context.Context, timeout time.Duration) context.Context {
	return &timed{ctx, timeout}
}

// Timeout returns the timeout of a context of [WithTimeout], or of one derived from it; 0
// means none. The context of a flush has the longest timeout of its calls, 0 if one has none.
func Timeout(ctx context.Context) time.Duration {
	if t, ok := ctx.(*timed); ok {
		return t.timeout
	}
	timeout, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return timeout
}

// NotAnswered marks the Err of an item: the server did not answer at all. All queued calls
// then fail too.
func NotAnswered(err error) error { return notAnswered{err} }

type notAnswered struct{ error }

func (e notAnswered) Unwrap() error { return e.error }

// slack is how long a flush may take in total.
func (c *Batcher[T]) slack(timeout time.Duration) time.Duration {
	return time.Duration(c.options.Slack) * timeout
}

// arrived records whether the server answered. If it did not, all queued calls fail. c.mu is
// held.
func (c *Batcher[T]) arrived(items []*Item[T]) {
	down := false
	for _, it := range items {
		if it.Err == nil {
			continue
		}
		if _, down = errors.AsType[notAnswered](it.Err); down {
			break
		}
	}
	if c.down = down; !down {
		return
	}
	for _, it := range items {
		if it.Err != nil {
			c.failAll(fmt.Errorf("%w: %w", ErrNotSent, it.Err))
			return
		}
	}
}

// failAll answers all queued calls with an error. c.mu is held.
func (c *Batcher[T]) failAll(err error) {
	for c.first != nil {
		c.fail(c.first, err)
	}
}

// over is the flush of items that are answered without being sent.
var over = &flush{over: true}

// fail answers a queued item with an error. c.mu is held.
func (c *Batcher[T]) fail(it *Item[T], err error) {
	c.remove(it)
	it.Err, it.flush = err, over
	it.done <- struct{}{}
}

// A TripTimer is a store that bounds its round trips itself, because a call may wait in a
// batch or for a new connection, which is no failure of the store. A limiter passes its
// timeout by [WithTimeout], not as the deadline of the context.
type TripTimer interface {
	// TimesTrips does nothing. It marks the type.
	TimesTrips()
}
