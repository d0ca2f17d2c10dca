package router

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
)

// Presence lists the connections that have joined a topic with [Context.Join], of all processes
// that share the Backend: ID is the connection's, User that of its identity, and Data what it
// joined with, as JSON. A connection of this process is in the list from when Join returns until it
// has left. Those of other processes appear and disappear with the delay that the Presence
// documents. It fails with UNAVAILABLE when the presence does.
func (r *Router) Presence(ctx context.Context, topic string) ([]pubsub.Member, error) {
	if err := hub.CheckTopic(topic); err != nil {
		return nil, err
	}
	members, err := r.opts.Backend.Presence.Members(lasting(ctx), topic)
	if err != nil {
		return nil, errors.Unavailable.Wrap(err, "the members are not known")
	}
	return members, nil
}

// JoinOptions configure Join.
type JoinOptions struct {
	// Grace is for how long the connection stays listed when it is lost, as when a page is loaded again or a phone
	// changes its network: a user that is back within it has neither left nor joined for those that watch users
	// (WatchOptions.ByUser), in all processes. The entry of the lost connection is listed until then, or until the user
	// joins again in the same process. A member that unsubscribes, that closes the connection by itself (1000 or
	// without a code), of which a right is revoked or which the application closes, leaves at once, and so do those of
	// a process that ends. In whole milliseconds, at most 1 min.
	//
	// Default: none; it leaves at once.
	Grace time.Duration
}

const mostGrace = time.Minute

// joinWith is Join with data as JSON, or nothing.
func (c *Conn) joinWith(ctx context.Context, topic string, data []byte, grace time.Duration) error {
	p := c.router.opts.Backend.Presence
	entry := pubsub.Member{ID: c.peer.ID, User: c.identity.Load().User}
	if len(data) > 0 {
		entry.Data = data
	}
	if err := entry.Check(); err != nil {
		return errors.InvalidArgument.Wrap(err, "what is to be known of a member is too long")
	}
	wasMember := c.peer.Member(topic) != nil
	if err := c.Subscribe(ctx, topic); err != nil {
		return err
	}
	m := c.peer.Member(topic)
	if m == nil || !m.Show(grace) {
		return ErrClosed
	}
	err := p.Join(ctx, topic, entry)
	if !m.Show(grace) {
		p.Leave(topic, c.peer.ID) // it has left, perhaps before it was there
		return ErrClosed
	}
	if err != nil {
		if !wasMember {
			c.Unsubscribe(topic)
		}
		return errors.Unavailable.Wrap(err, "joining failed")
	}
	m.Remember(data)
	c.router.away.Back(topic, entry.User)
	return nil
}

// Join subscribes the connection to a topic and lists it as present. See
// [Context.Join]. ctx is for the call alone; the membership lasts.
func (c *Conn) Join(ctx context.Context, topic string, data any, opts ...JoinOptions) error {
	o, err := given.Options("router", "the call", opts)
	if err != nil {
		return err
	}
	if o.Grace < 0 || o.Grace > mostGrace {
		return errors.Internal.Errorf("router: JoinOptions.Grace is %v; set it to 0 to %v", o.Grace, mostGrace)
	}
	shown := []byte{}
	if data != nil && data != struct{}{} {
		if shown, err = json.Marshal(data); err != nil {
			return err
		}
	}
	return c.joinWith(ctx, topic, shown, o.Grace)
}

// Join subscribes the connection to a topic, as Subscribe does, and lists it as present:
// [Router.Presence] and [Context.WatchPresence] show it, in all processes that share
// the Backend, until it unsubscribes or ends, and for JoinOptions.Grace longer. data is what they show of it, such as a
// name; it is encoded as in [Conn.Send]. Joining again replaces data.
//
// The errors are those of Subscribe, also UNAVAILABLE when the presence fails, and
// INVALID_ARGUMENT if data has more than 4 KiB. After an error the connection is not listed,
// and a member only if it was one before.
func (c *Context) Join(topic string, data any, opts ...JoinOptions) error {
	return c.Conn().Join(c, topic, data, opts...)
}
