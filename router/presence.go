package router

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
)

// Presence lists the connections that have joined a topic with [Context.Join], of all processes
// that share Options.Presence: ID is the connection's, User that of its identity, and Data what it
// joined with, as JSON. A connection of this process is in the list from when Join returns until it
// has left. Those of other processes appear and disappear with the delay that the Presence
// documents. It fails with UNAVAILABLE when the presence does.
func (r *Router) Presence(ctx context.Context, topic string) ([]pubsub.Member, error) {
	if err := hub.CheckTopic(topic); err != nil {
		return nil, err
	}
	if r.opts.Presence == nil {
		return nil, errNoPresence
	}
	members, err := r.opts.Presence.Members(lasting(ctx), topic)
	if err != nil {
		return nil, errors.Unavailable.Wrap(err, "the members are not known")
	}
	return members, nil
}

var errNoPresence = errors.Internal.New("router: presence needs Options.Presence; set it, to memory.NewPresence() for one process")

func (c *Conn) join(ctx context.Context, topic string, known any) error {
	p := c.router.opts.Presence
	if p == nil {
		return errNoPresence
	}
	data := []byte{}
	if known != nil && known != struct{}{} {
		var err error
		if data, err = json.Marshal(known); err != nil {
			return err
		}
	}
	return c.joinWith(ctx, p, topic, data)
}

// joinWith is join with what is known of the connection as JSON, or nothing.
func (c *Conn) joinWith(ctx context.Context, p pubsub.Presence, topic string, data []byte) error {
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
func (c *Conn) Join(ctx context.Context, topic string, known any) error {
	return c.join(ctx, topic, known)
}

// Join subscribes the connection to a topic, as Subscribe does, and lists it as present:
// [Router.Presence] and [Context.WatchPresence] show it, in all processes that share
// Options.Presence, until it unsubscribes or ends. known is what they show of it, such as a
// name; it is encoded as in [Conn.Send]. Joining again replaces known.
//
// The errors are those of Subscribe, also UNAVAILABLE when the presence fails, and
// INVALID_ARGUMENT if known has more than 4 KiB. After an error the connection is not listed,
// and a member only if it was one before.
func (c *Context) Join(topic string, known any) error { return c.Conn().join(c, topic, known) }
