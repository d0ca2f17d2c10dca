package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

// Take charges a limit from within a handler, for a subject that only the decoded
// message tells: a room, a document, a recipient. The subject is made of the parts
// ([limit.Key.Part]); what does not fit comes back as an *errors.LimitExceeded, which
// the handler returns for the router to answer, count and tell like any other:
//
//	router.On(r, "chat.send", func(c *router.Context, m Send) error {
//		if err := ratelimit.Take(c, rooms, 1, c.Identity.Tenant, m.Room); err != nil {
//			return err
//		}
//		…
//
// With a [limit.Pacer] it waits until the message is due, and so do the connection's
// next messages. It returns the context's error when that ends first.
//
// A subject of the client's choosing is no limit by itself: who makes up a new room
// for every message meets a new limit every time. Take it after checking that the
// room exists and that the client may use it, behind a limit by user.
//
// A cost below 1 is a fault of the handler's, which the client sees as INTERNAL.
// Other errors are those of [limit.Limiter.Take].
func Take(ctx context.Context, limiter *limit.Limiter, cost int, parts ...string) error {
	if cost < 1 {
		return fmt.Errorf("ratelimit: Take from limiter %s with the cost %d; it must be at least 1", limiter.Name(), cost)
	}
	buf := buffers.Get().(*[]byte)
	key := limiter.Key(*buf)
	for _, part := range parts {
		key = key.Part(part)
	}
	d, err := limiter.TakeKey(ctx, key, int64(cost))
	*buf = key.Bytes()
	buffers.Put(buf)
	switch {
	case err != nil:
		return err
	case !d.Allowed:
		e := rejection(limiter.Name(), int64(cost), &d)
		return &e
	case d.Wait > 0:
		return wait(ctx, d.Wait)
	}
	return nil
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

// buffers are for keys.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 256)
	return &b
}}
