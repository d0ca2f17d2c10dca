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

// WithTimeout returns a context for [Batcher.Do] that bounds the round trip of the
// call instead of the call: the timeout, which is positive, counts from the instant at
// which the call is sent. The time for which it waits for the flushes before it is bounded
// by theirs.
func WithTimeout(ctx context.Context, timeout time.Duration) context.Context {
	return &timed{ctx, timeout}
}

// Timeout is the timeout of a context of [WithTimeout], or of one made from it; 0 means
// none. That of the context of a flush is the longest of its calls, 0 when one has none.
func Timeout(ctx context.Context) time.Duration {
	if t, ok := ctx.(*timed); ok {
		return t.timeout
	}
	timeout, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return timeout
}

// NotAnswered marks the Err of an item: the server did not answer at all, and what waits
// for it need not wait for the same.
func NotAnswered(err error) error { return notAnswered{err} }

type notAnswered struct{ error }

func (e notAnswered) Unwrap() error { return e.error }

// slack is how long a flush may take altogether.
func (c *Batcher[T]) slack(timeout time.Duration) time.Duration {
	return time.Duration(c.options.Slack) * timeout
}

// arrived notes whether the server answered. When it did not, all that wait fail. c.mu is
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

// failAll answers all that wait with an error. c.mu is held.
func (c *Batcher[T]) failAll(err error) {
	for c.first != nil {
		c.fail(c.first, err)
	}
}

// over is the flush of items that are answered without one.
var over = &flush{over: true}

// fail answers an item that waits with an error. c.mu is held.
func (c *Batcher[T]) fail(it *Item[T], err error) {
	c.remove(it)
	it.Err, it.flush = err, over
	it.done <- struct{}{}
}

// A TripTimer is a store that bounds its round trips by itself: it batches calls, or has to
// make a connection first, and neither counts as a store that does not answer. A limiter
// gives it the timeout by [WithTimeout], and not as the deadline of the context.
type TripTimer interface {
	// TimesTrips does nothing; its presence is the statement.
	TimesTrips()
}
