package router

import (
	"context"
	"slices"

	"github.com/wskit/wskit/errors"
)

// Which connections are members of which topics is kept under three locks, see locks.go:
// Conn.mu guards a connection's list of members, topic.mu a topic's members and its
// subscription with the broker, topics.mu the table of topics. The first two are never
// held together.
//
// A member is put on its connection's list before it joins its topic, so that the end
// of the connection finds it. Whatever takes it off the list (Unsubscribe, the end of
// the connection, or the call that failed to join) has it leave the topic.

// count returns how many topics are held.
func (ts *topics) count() int {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return len(ts.m)
}

// Members returns how many connections of this process are members of a topic.
func (r *Router) Members(topic string) int {
	t := r.topics.find(topic)
	if t == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.members)
}

// subscribe waits for the broker for as long as ctx, the connection and the membership
// last.
func (c *Conn) subscribe(ctx context.Context, name string) error {
	if err := checkTopic(name); err != nil {
		return err
	}
	return c.enter(ctx, name)
}

// enter is subscribe for a topic of any name.
func (c *Conn) enter(ctx context.Context, name string) error {
	m, err := c.place(ctx, name)
	if m == nil {
		return err
	}
	if err = m.join(ctx, c.router); err == nil {
		c.mu.Lock()
		m.joined = true
		m.settle()
		c.mu.Unlock()
		if m.topic.history != nil {
			c.flushUnlessBatched()
		}
		return nil
	}
	if c.takeOff(func(have *member) bool { return have == m }) != nil {
		m.leave()
		c.router.topics.release(m.topic)
	}
	if err == ErrClosed {
		return ErrClosed
	}
	return errors.Unavailable.Wrap(err, "subscribing failed")
}

// place puts a new member on the connection's list: from then on the limit counts it,
// whatever the broker does. It returns nil, and no error, where the connection is a
// member already. While another call joins the same topic, it waits for its result.
func (c *Conn) place(ctx context.Context, name string) (*member, error) {
	for {
		m, settled, err := c.tryPlace(name)
		if settled == nil {
			return m, err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, errors.Unavailable.Wrap(ctx.Err(), "subscribing failed")
		}
	}
}

// tryPlace is place, but returns what is to be waited for.
func (c *Conn) tryPlace(name string) (_ *member, settled <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() { // its memberships may still be there
		return nil, nil, ErrClosed
	}
	if i := slices.IndexFunc(c.topics, func(m *member) bool { return m.topic.name == name }); i >= 0 {
		m := c.topics[i]
		if m.joined {
			return nil, nil, nil
		}
		if m.settled == nil {
			m.settled = make(chan struct{})
		}
		return nil, m.settled, nil
	}
	limit := c.router.opts.Limits.MaxTopics
	if len(c.topics) >= limit && !isReservedTopic(name) && len(c.ownTopics()) >= limit {
		return nil, nil, errors.ResourceExhausted.Errorf("a connection may subscribe to at most %d topics", limit).WithDetails(
			map[string]any{"kind": "topics", "limit": limit})
	}
	m := &member{conn: c, topic: c.router.topics.acquire(name), index: joining}
	c.topics = append(c.topics, m)
	return m, nil, nil
}

// takeOff takes a member off the connection's list. It returns nil if none matches.
// Whatever takes it off has it leave the topic and releases that.
func (c *Conn) takeOff(match func(*member) bool) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.topics, match)
	if i < 0 {
		return nil
	}
	m := c.topics[i]
	c.topics = slices.Delete(c.topics, i, i+1)
	m.settle()
	return m
}

// ownTopics lists the topics of the application. c.mu is held.
func (c *Conn) ownTopics() []string {
	names := make([]string, 0, len(c.topics))
	for _, m := range c.topics {
		if !isReservedTopic(m.topic.name) {
			names = append(names, m.topic.name)
		}
	}
	return names
}

// Unsubscribe ends the connection's membership in a topic; a call of Subscribe or Join
// that still waits for it fails with [ErrClosed]. Without a membership it does nothing.
func (c *Conn) Unsubscribe(name string) {
	if isReservedTopic(name) {
		return
	}
	c.mu.Lock()
	i := slices.IndexFunc(c.topics, func(m *member) bool { return m.topic.name == name })
	if i < 0 {
		c.mu.Unlock()
		return
	}
	m := c.topics[i]
	c.mu.Unlock()
	if m.topic.history != nil {
		m.dismiss() // before another membership can begin, whose $ws:subscribed must come behind
	}
	if c.takeOff(func(have *member) bool { return have == m }) != nil {
		m.leave()
		c.router.topics.release(m.topic)
	}
}

// Topics lists the topics the connection is a member of, or waits to become one, in no
// particular order.
func (c *Conn) Topics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ownTopics()
}

// leaveAll is for the end of the connection.
func (c *Conn) leaveAll() {
	c.mu.Lock()
	all := c.topics
	c.topics = nil
	for _, m := range all {
		m.settle()
	}
	c.mu.Unlock()
	for _, m := range all {
		m.leave()
		c.router.topics.release(m.topic)
	}
}

// join puts the member into its topic when that is subscribed to. Without an error the
// member gets what is published from now on; after one it has to leave.
func (m *member) join(ctx context.Context, r *Router) error {
	t := m.topic
	t.mu.Lock()
	if m.index != left && (r.opts.Broker == nil || t.subscription != nil) {
		t.admit(m)
		t.mu.Unlock()
		return nil
	}
	t.mu.Unlock()
	if err := m.wait(ctx, r); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.index == left {
		return ErrClosed
	}
	t.waiting-- // for which the subscription was kept
	t.admit(m)
	return nil
}

// wait waits for the subscription of the member's topic. The subscription is kept until the member
// joins or leaves.
func (m *member) wait(ctx context.Context, r *Router) error {
	t := m.topic
	t.mu.Lock()
	if m.index == left {
		t.mu.Unlock()
		return ErrClosed
	}
	m.waits = true
	t.waiting++
	if t.subscription != nil {
		t.mu.Unlock()
		return nil
	}
	a, gone := t.await(r), m.leaving()
	t.mu.Unlock()

	var err error
	select {
	case <-a.done:
		err = a.err
	case <-gone:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if m.index == left {
		return ErrClosed
	}
	return err
}

// leaving returns what is closed when the member leaves before it has joined. The topic is locked.
func (m *member) leaving() <-chan struct{} {
	if m.gone == nil {
		m.gone = make(chan struct{})
	}
	return m.gone
}

// leave takes the member out of its topic, if it is in it.
func (m *member) leave() {
	t := m.topic
	t.mu.Lock()
	switch {
	case m.index >= 0:
		last := len(t.members) - 1
		moved := t.members[last]
		t.members[m.index], t.members[last] = moved, nil
		moved.index = m.index
		t.members = t.members[:last]
	case m.waits:
		t.waiting--
		if m.gone != nil {
			close(m.gone)
		}
	}
	if in := t.subscription; in != nil && in.log != nil {
		delete(in.log.joined, m)
	}
	m.index = left
	last, seen, watched := t.unwanted(), m.seen, m.crowd
	t.mu.Unlock()
	if watched != nil {
		watched.remove(m)
		watched.r.crowds.release(watched)
	}
	if last != nil {
		last.end()
	}
	if seen {
		m.conn.router.opts.Presence.Leave(t.name, m.conn.id)
	}
}

// Subscribe makes the connection a member of a topic. See [Context.Subscribe].
// ctx is for the call alone; the membership lasts.
func (c *Conn) Subscribe(ctx context.Context, topic string) error { return c.subscribe(ctx, topic) }

// Subscribe makes the connection a member of a topic: it gets what is published there from now on,
// until it unsubscribes or ends. A topic is any name of 1 to 256 bytes that does not begin with
// "$ws:"; it begins with its first member and ends with its last. Subscribing again does nothing.
//
// The first member of a topic in this process waits for the broker, and so do those
// that subscribe meanwhile: until the context is cancelled, the connection ends or
// unsubscribes.
//
// The error is INVALID_ARGUMENT for the name, RESOURCE_EXHAUSTED over
// Limits.MaxTopics, and UNAVAILABLE when the broker fails, the context is cancelled, or
// the connection has ended or unsubscribed meanwhile ([ErrClosed]).
func (c *Context) Subscribe(topic string) error { return c.Conn().subscribe(c, topic) }

// Unsubscribe ends the connection's membership in a topic. See [Conn.Unsubscribe].
func (c *Context) Unsubscribe(topic string) { c.Conn().Unsubscribe(topic) }
