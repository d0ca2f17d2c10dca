package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// Take charges a limit from within a handler, for a subject that is known only after decoding: a room, a document, a
// recipient. Over the limit, Take returns an *errors.LimitExceeded. If the handler returns it, the router answers,
// counts and reports it like the rejection of a frame:
//
//	router.On(r, "chat.send", func(c *router.Context, m Send) error {
//		if err := ratelimit.Take(c, rooms, limit.KeyOf(c.Identity.Tenant, m.Room), 1); err != nil {
//			return err
//		}
//		…
//
// With a [limit.Pacer] it waits for the delay, and so do the connection's next messages. It
// returns the error of ctx if ctx ends first.
//
// If clients choose the subject, this limit alone is not enough: a new room for every message
// gets a new bucket every time. Check first that the room exists and that the client may use
// it, and limit users as well.
//
// A cost below 1 is an error of the handler, which the client sees as INTERNAL. Other errors are
// those of [limit.Limiter.Take]. Take may be called by any number of goroutines.
func Take(ctx context.Context, limiter *limit.Limiter, key limit.Key, cost int) error {
	if cost < 1 {
		return fmt.Errorf("ratelimit: Take from limiter %s with the cost %d; it must be at least 1", limiter.Name(), cost)
	}
	d, err := limiter.Take(ctx, key, int64(cost))
	switch {
	case err != nil:
		return err
	case !d.Allowed:
		e := enforce.Rejection(limiter.Name(), int64(cost), &d)
		return &e
	case d.Wait > 0:
		return wait(ctx, d.Wait)
	}
	return nil
}

// PerTopic limits what is published to each topic, by handlers and otherwise, in all processes that share the limiter's
// store:
//
//	r.AddHooks(router.Hooks{BeforePublish: ratelimit.PerTopic(perRoom)})
//
// Each message costs 1. Over the limit nothing is published, and Publish returns the *errors.LimitExceeded of [Take]. A
// message that is published again with the same PublishOptions.ID is charged again. With a [limit.Pacer], Publish waits
// for the delay. For other limits for some of the topics, write a hook that calls Take.
//
// It panics when the limiter is nil.
func PerTopic(limiter *limit.Limiter) func(ctx context.Context, topic string) error {
	if limiter == nil {
		panic("ratelimit: PerTopic without a limiter: make one with limit.New")
	}
	return func(ctx context.Context, topic string) error { return Take(ctx, limiter, limit.KeyOf(topic), 1) }
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
