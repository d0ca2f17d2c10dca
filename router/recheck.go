package router

import (
	"context"
	"slices"
	"time"

	"github.com/wskit/wskit/errors"
)

// A check that could not be made is repeated after firstRecheckPause, then after twice as long, up to
// longestRecheckPause.
const (
	firstRecheckPause   = time.Second
	longestRecheckPause = time.Minute
)

// recheck asks Options.Recheck for each topic of the connection, until it has said yes or no.
func (c *Conn) recheck() {
	check, ctx := c.router.opts.Recheck, c.Context()
	topics := c.Topics()
	for pause := firstRecheckPause; ; pause = min(2*pause, longestRecheckPause) {
		topics = slices.DeleteFunc(topics, func(topic string) bool {
			if !c.IsSubscribed(topic) { // any more
				return true
			}
			reason := c.refusal(ctx, check, typeRenew, topic)
			if reason == reasonDenied {
				c.peer.Revoke(func(name string) bool { return name == topic })
			}
			return reason != reasonUnavailable
		})
		if len(topics) == 0 {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// refusal asks the application whether the client may have a topic, and returns the reason if not: only an error that
// says no is a refusal, and not one that says that it could not be found out. typ is for faults.
func (c *Conn) refusal(ctx context.Context, check func(context.Context, *Conn, string) error, typ, topic string) (reason string) {
	err := c.callCheck(ctx, check, typ, topic)
	if err == nil {
		return ""
	}
	switch e := errors.From(err); {
	case e.Code == errors.Internal:
		c.router.fault(Fault{Conn: c, Type: typ, Err: err})
	case e.Code != errors.Cancelled && e.Code != errors.DeadlineExceeded && !e.Retryable():
		return reasonDenied
	}
	return reasonUnavailable
}

func (c *Conn) callCheck(ctx context.Context, check func(context.Context, *Conn, string) error, typ, topic string) (err error) {
	if check == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = c.panicked(typ, v)
		}
	}()
	return check(ctx, c, topic)
}
