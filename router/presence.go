package router

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
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

// joinWith is Join with data as JSON, or nothing.
func (c *Conn) joinWith(ctx context.Context, topic string, data []byte) error {
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
	if m == nil || !m.Show() {
		return ErrClosed
	}
	err := p.Join(ctx, topic, entry)
	if !m.Show() {
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
	return nil
}

// Join subscribes the connection to a topic and lists it as present. See
// [Context.Join]. ctx is for the call alone; the membership lasts.
func (c *Conn) Join(ctx context.Context, topic string, data any) error {
	shown := []byte{}
	if data != nil && data != struct{}{} {
		var err error
		if shown, err = json.Marshal(data); err != nil {
			return err
		}
	}
	return c.joinWith(ctx, topic, shown)
}

// Join subscribes the connection to a topic, as Subscribe does, and lists it as present:
// [Router.Presence] and [Context.WatchPresence] show it, in all processes that share
// the Backend, until it unsubscribes or ends. data is what they show of it, such as a
// name; it is encoded as in [Conn.Send]. Joining again replaces data.
//
// The errors are those of Subscribe, also UNAVAILABLE when the presence fails, and
// INVALID_ARGUMENT if data has more than 4 KiB. After an error the connection is not listed,
// and a member only if it was one before.
func (c *Context) Join(topic string, data any) error { return c.Conn().Join(c, topic, data) }
