// Package batch turns concurrent calls into fewer, larger round trips, without delaying
// single calls.
//
// A [Batcher] makes at most a fixed number of round trips (flushes) at a time. If one of them
// is free, a call is sent at once, alone. Calls that come while all are busy are sent together
// in the next one, up to an even share of all calls, so that the server has one flush to
// work on while another is prepared. An idle server answers as fast as without a Batcher; the
// busier it is, the more calls share a flush. There is no timer, and nothing to tune.
//
//	calls := batch.New(send, batch.Options{})
//
//	item := calls.Item()
//	item.Value.question = …
//	if err := calls.Do(ctx, item); err != nil {
//		return err // the item is the Batcher's now
//	}
//	answer := item.Value.answer
//	calls.Free(item)
//
//	func send(ctx context.Context, items []*batch.Item[ask]) {
//		… // one round trip; fills in every Value, or Err
//	}
//
// A caller leaves when its context ends. If its item was not sent yet, it is withdrawn and
// never sent: the error is [ErrNotSent]. If it was sent, the outcome is unknown. A flush that
// all callers have left is cancelled.
//
// Each flush under way has one goroutine; an idle Batcher has none. With
// [Options.OnCaller] a single call needs no goroutine.
package batch
