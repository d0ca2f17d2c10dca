package router

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
)

// topics are the topics that have members in this process.
type topics struct {
	mu sync.RWMutex
	m  map[string]*topic

	historyOf func(topic string) *history
}

// topic is a topic with its members.
type topic struct {
	name    string
	history *history // nil: none
	refs    int      // members on a connection's list, and a running call of Subscribe; guarded by topics.mu

	mu           sync.RWMutex
	members      []*member     // that have joined
	waiting      int           // members that wait for the subscription
	subscription *subscription // the subscription, or nil
	attempt      *attempt      // what they wait for, or nil
}

// member is a connection's place in a topic.
type member struct {
	conn  *Conn
	topic *topic

	// guarded by topic.mu
	index int           // in topic.members, or joining or left
	gone  chan struct{} // closed when it leaves before it has joined; made by the first that waits for that
	crowd *crowd        // that its connection watches, or nil
	waits bool          // counted in topic.waiting, until it joins or leaves
	seen  bool          // by others, or about to be

	// guarded by conn.mu
	joined  bool
	settled chan struct{} // closed when it has joined or left; made when another call waits for that
}

const (
	joining = -1
	left    = -2 // before it could join, if it had not yet
)

// maxTopicLength bounds the name of a topic, in bytes.
const maxTopicLength = 256

func checkTopic(name string) error {
	if name == "" || len(name) > maxTopicLength {
		return errors.InvalidArgument.Errorf("a topic's name has 1 to %d bytes, this one %d", maxTopicLength, len(name))
	}
	if isReservedTopic(name) {
		return errors.InvalidArgument.Errorf("names of topics that begin with %q are reserved", reservedTopics)
	}
	return nil
}

func (ts *topics) init(historyOf func(string) *history) {
	ts.m, ts.historyOf = make(map[string]*topic), historyOf
}

// acquire finds or makes a topic, and holds it until it is released as often.
func (ts *topics) acquire(name string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.m[name]
	if t == nil {
		t = &topic{name: name, history: ts.historyOf(name)}
		ts.m[name] = t
	}
	t.refs++
	return t
}

// hold is acquire for a topic that is held already.
func (ts *topics) hold(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.refs++
}

func (ts *topics) release(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(ts.m, t.name)
	}
}

// find returns a topic that has members in this process, or is about to have, or nil.
func (ts *topics) find(name string) *topic {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.m[name]
}

// subscribed returns the subscription of a topic, or nil.
func (ts *topics) subscribed(name string) *subscription {
	t := ts.find(name)
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.subscription
}

// each calls f with each member of a topic, which is locked.
func (ts *topics) each(name string, f func(*Conn)) {
	t := ts.find(name)
	if t == nil {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, m := range t.members {
		f(m.conn)
	}
}

func (t *topic) add(m *member) {
	m.index = len(t.members)
	t.members = append(t.members, m)
}

// admit adds a member that gets what is published from now on.
func (t *topic) admit(m *member) {
	t.add(m)
	if t.history != nil {
		m.welcome()
	}
}

// settle lets other calls for the same topic go on.
func (m *member) settle() {
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
	}
}

// attempt is one at subscribing a topic.
type attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when it has succeeded or failed
	err    error         // set before done is closed
}

// subscription is a topic's subscription with the broker. What comes while more is there
// already is flushed with that.
type subscription struct {
	deferredFlush
	topic  *topic
	router *Router
	sub    pubsub.Subscription
	log    *followed   // of a topic with history; nil: it has none
	sent   int64       // to how many members the latest message was, under mu
	closed atomic.Bool // no more will come

	// guarded by mu
	peeker   envelope.Peeker    // of deliver
	expected map[*byte]struct{} // frames that batches publish at the moment, see expect
}
