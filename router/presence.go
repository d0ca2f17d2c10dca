package router

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// Presence lists the connections that have joined a topic with [Context.Join], of all processes
// that share Options.Presence: ID is the connection's, User that of its identity, and Data what it
// joined with, as JSON. A connection of this process is in the list from when Join returns until it
// has left. Those of other processes appear and disappear with the delay that the Presence
// documents. It fails with UNAVAILABLE when the presence does.
func (r *Router) Presence(ctx context.Context, topic string) ([]pubsub.Member, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if r.opts.Presence == nil {
		return nil, errNoPresence
	}
	members, err := r.opts.Presence.Members(ctx, topic)
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
	entry := pubsub.Member{ID: c.id, User: c.identity.Load().User}
	if len(data) > 0 {
		entry.Data = data
	}
	if err := entry.Check(); err != nil {
		return errors.InvalidArgument.Wrap(err, "what is to be known of a member is too long")
	}
	wasMember := c.member(topic) != nil
	if err := c.subscribe(ctx, topic); err != nil {
		return err
	}
	m := c.member(topic)
	if m == nil || !m.show() {
		return ErrClosed
	}
	err := p.Join(ctx, topic, entry)
	if !m.show() {
		p.Leave(topic, c.id) // left meanwhile, perhaps before it was there
		return ErrClosed
	}
	if err != nil {
		if !wasMember {
			c.Unsubscribe(topic)
		}
		return errors.Unavailable.Wrap(err, "joining failed")
	}
	m.remember(data)
	return nil
}

// remember has the client of a topic with history get a ticket with which it joins again.
func (m *member) remember(data []byte) {
	t := m.topic
	if t.history == nil {
		return
	}
	t.mu.Lock()
	if m.index >= 0 {
		f := t.subscription.log
		if f.joined == nil {
			f.joined = make(map[*member][]byte)
		}
		f.joined[m] = data
		m.welcome()
	}
	t.mu.Unlock()
	m.conn.flushUnlessBatched()
}

// member is the connection's place in a topic, nil if it has none.
func (c *Conn) member(topic string) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.topics, func(m *member) bool { return m.topic.name == topic }); i >= 0 {
		return c.topics[i]
	}
	return nil
}

// show makes the member leave the presence, too, when it leaves the topic. It returns false if it has left.
func (m *member) show() bool {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	m.seen = m.index != left
	return m.seen
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
