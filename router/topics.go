package router

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// maxTopicLength bounds the name of a topic, in bytes.
const maxTopicLength = 256

// topics are the topics that have members in this process.
type topics struct {
	r  *Router
	mu sync.RWMutex
	m  map[string]*topic
}

// topic is a topic with its members. It is subscribed to with the broker for as
// long as it has any.
type topic struct {
	name string
	refs int // members, and those about to become one; guarded by topics.mu

	mu      sync.RWMutex
	members []*member
	intake  *intake // nil without members, and without a broker
}

// member is a connection's place in a topic.
type member struct {
	conn  *Conn
	topic *topic
	index int  // in topic.members, or joining or left; guarded by topic.mu
	seen  bool // by others, or about to be; guarded by topic.mu
}

const (
	joining = -1
	left    = -2 // before it could join, if it had not yet
)

func (ts *topics) init(r *Router) {
	ts.r = r
	ts.m = make(map[string]*topic)
}

func checkTopic(name string) error {
	if name == "" || len(name) > maxTopicLength {
		return errors.InvalidArgument.Errorf("a topic's name has 1 to %d bytes, this one %d", maxTopicLength, len(name))
	}
	return nil
}

func (ts *topics) deliver(m pubsub.Message, later *spread) {
	ts.mu.RLock()
	t := ts.m[m.Topic]
	ts.mu.RUnlock()
	if t != nil {
		t.deliver(m, later)
	}
}

func (ts *topics) acquire(name string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.m[name]
	if t == nil {
		t = &topic{name: name}
		ts.m[name] = t
	}
	t.refs++
	return t
}

func (ts *topics) release(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(ts.m, t.name)
	}
}

// Topics returns how many topics have members in this process.
func (r *Router) Topics() int {
	r.topics.mu.RLock()
	defer r.topics.mu.RUnlock()
	return len(r.topics.m)
}

// Members returns how many connections of this process are members of a topic.
func (r *Router) Members(topic string) int {
	r.topics.mu.RLock()
	t := r.topics.m[topic]
	r.topics.mu.RUnlock()
	if t == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.members)
}

func (c *Conn) subscribe(ctx context.Context, name string) error {
	if err := checkTopic(name); err != nil {
		return err
	}
	ts := &c.router.topics

	// The place is taken first, so that the limit holds and the end of the
	// connection finds it, whatever the broker does meanwhile.
	m := &member{conn: c, index: joining}
	c.mu.Lock()
	if c.ended.Load() { // its memberships may still be there
		c.mu.Unlock()
		return ErrClosed
	}
	limit := c.router.opts.Limits.MaxTopics
	switch {
	case slices.ContainsFunc(c.topics, func(have *member) bool { return have.topic.name == name }):
		c.mu.Unlock()
		return nil
	case len(c.topics) >= limit:
		c.mu.Unlock()
		return errors.ResourceExhausted.Errorf("a connection may subscribe to at most %d topics", limit).WithDetails(
			map[string]any{"kind": "topics", "limit": limit})
	}
	m.topic = ts.acquire(name)
	c.topics = append(c.topics, m)
	c.mu.Unlock()

	err := m.join(ctx, c.router.opts.Broker)
	if err == nil {
		return nil
	}
	if c.takeOff(func(have *member) bool { return have == m }) != nil {
		ts.release(m.topic)
	}
	if err == ErrClosed {
		return ErrClosed
	}
	return errors.Unavailable.Wrap(err, "subscribing failed")
}

// takeOff takes a member off the connection's list. It returns nil if none
// matches, because somebody else has taken it: then leaving the topic is theirs.
func (c *Conn) takeOff(match func(*member) bool) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.topics, match)
	if i < 0 {
		return nil
	}
	m := c.topics[i]
	c.topics = slices.Delete(c.topics, i, i+1)
	return m
}

// Unsubscribe ends the connection's membership in a topic. Where it is no member
// nothing happens. The error is always nil.
func (c *Conn) Unsubscribe(name string) error {
	m := c.takeOff(func(m *member) bool { return m.topic.name == name })
	if m != nil {
		m.leave()
		c.router.topics.release(m.topic)
	}
	return nil
}

// Topics lists the topics the connection is a member of, in no particular order.
func (c *Conn) Topics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, len(c.topics))
	for i, m := range c.topics {
		names[i] = m.topic.name
	}
	return names
}

// leaveAll is for the end of the connection.
func (c *Conn) leaveAll() {
	c.mu.Lock()
	all := c.topics
	c.topics = nil
	c.mu.Unlock()
	for _, m := range all {
		m.leave()
		c.router.topics.release(m.topic)
	}
}

// join puts the member into its topic, and subscribes the topic with the broker
// if it is the first.
func (m *member) join(ctx context.Context, broker pubsub.Broker) error {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.index == left {
		return ErrClosed
	}
	if t.intake == nil && broker != nil {
		in := &intake{topic: t}
		sub, err := broker.Subscribe(ctx, t.name, in.deliver)
		if err != nil {
			return err
		}
		in.sub = sub
		t.intake = in
	}
	m.index = len(t.members)
	t.members = append(t.members, m)
	return nil
}

// leave takes the member out of its topic, if it is in it.
func (m *member) leave() {
	last, seen := m.takeOut()
	if last != nil {
		last.flush()
	}
	if seen {
		m.conn.router.opts.Presence.Leave(m.topic.name, m.conn.id)
	}
}

// takeOut returns what the topic was subscribed with, if that has come to its end,
// and whether others have seen the member.
func (m *member) takeOut() (last *intake, seen bool) {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.index >= 0 {
		last := len(t.members) - 1
		moved := t.members[last]
		t.members[m.index], t.members[last] = moved, nil
		moved.index = m.index
		t.members = t.members[:last]
	}
	m.index = left
	if len(t.members) > 0 || t.intake == nil {
		return nil, m.seen
	}
	last, t.intake = t.intake, nil
	_ = last.sub.Close()
	last.closed.Store(true)
	return last, m.seen
}

// intake is a topic's subscription with the broker. What comes while more is there
// already is flushed with that.
type intake struct {
	spread
	topic  *topic
	sub    pubsub.Subscription
	closed atomic.Bool // no more will come
}

func (in *intake) deliver(m pubsub.Message) {
	in.mu.Lock()
	in.topic.deliver(m, &in.spread)
	in.mu.Unlock()
	if !m.More || len(m.Frame) >= spreadFrame || in.closed.Load() {
		in.flush()
	}
}
