// Package batch turns concurrent calls into fewer, larger round trips, and
// makes a lone call wait for nothing.
//
// A [Batcher] makes a fixed number of round trips (flushes) at a time. A call that finds
// one of them free is sent at once, alone. Calls that come while all are busy go together in
// the next one, up to an even share of all calls there are, so that the server always has one
// flush to work on while another is prepared. So an idle server answers as fast as without a
// Batcher, and the busier it is, the more calls share a flush. There is no timer and nothing
// to tune to the load.
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
// A caller leaves when its context ends. If its item had not been sent, it is
// withdrawn and never will be: the error is [ErrNotSent]. If it had, the outcome
// is unknown. A caller that has left is never waited for, and a flush that all
// callers have left is cancelled.
//
// The goroutines are those of the flushes under way; none is left when nothing is
// asked for. [Options.OnCaller] saves a lone call even that one.
package batch
