package router

import (
	"context"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
)

// WatchOptions configure WatchPresence.
type WatchOptions struct {
	// ByUser sends users in place of members: one with several connections joins with the
	// first and leaves with the last. The data of a user is that of the connection whose
	// ID is the lowest. A member without a user is sent by itself.
	//
	// Default: false: members.
	ByUser bool
}

// WatchPresence sends the client the list of those that have joined a topic (see Join), and then
// each change, as $ws:presence, until the connection unsubscribes or ends. The connection has to be a
// member: subscribe or join first. No change is missed, including those in other
// processes and those caused by a killed process. Changes are sent together: at most one frame in 20 ms, and
// 0.2 ms more for each member, up to 1 s. If more than 1,000 have joined, or their list takes
// more than half of Limits.MaxQueued, only their number is sent, and the list again when they
// are fewer. PROTOCOL.md has the frames.
//
// Calling it again does nothing; with other WatchOptions the list is sent again. At most one
// WatchOptions may be given.
//
// The error is FAILED_PRECONDITION where the connection is not a member, and UNAVAILABLE when
// the presence fails, the context is cancelled, or the connection has ended or unsubscribed
// before that ([ErrClosed]). Backend.Presence has to be a [pubsub.PresenceWatcher].
func (c *Context) WatchPresence(topic string, opts ...WatchOptions) error {
	return c.Conn().WatchPresence(c, topic, opts...)
}

// WatchPresence sends the client the list of those that have joined a topic, and each change. See
// [Context.WatchPresence]. ctx is for the call alone.
func (c *Conn) WatchPresence(ctx context.Context, topic string, opts ...WatchOptions) error {
	if err := hub.CheckTopic(topic); err != nil {
		return err
	}
	o, err := given.Options("router", "the call", opts)
	if err != nil {
		return err
	}
	w, ok := c.router.opts.Backend.Presence.(pubsub.PresenceWatcher)
	if !ok {
		return errNoWatcher
	}
	m := c.peer.Member(topic)
	if m == nil {
		return errors.FailedPrecondition.New("the connection is not a member of the topic")
	}
	v, err := c.router.presence.Acquire(ctx, w, topic)
	if err != nil {
		return errors.Unavailable.Wrap(err, "watching failed")
	}
	first, ok := m.Watch(func() { v.Leave(m) })
	if !first {
		v.Release()
	}
	if !ok {
		return ErrClosed
	}
	v.Add(m, o.ByUser)
	if m.HasLeft() { // perhaps before it was there
		v.Remove(m)
		return ErrClosed
	}
	return nil
}

var errNoWatcher = errors.Internal.New("router: changes of presence are not known without a Backend.Presence that is a pubsub.PresenceWatcher; use redis.NewPresence, or leave it out for one process")
