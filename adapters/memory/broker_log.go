package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/wskit/wskit/pubsub"
)

// Append implements [pubsub.Log]. The log keeps m.Frame as it is. It fails for a topic
// without a name, for a History that Check refuses, for an id that is too long, and when there is
// no room for the id; then nothing was added.
func (b *broker) Append(_ context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	switch err := h.Check(); {
	case m.Topic == "":
		return pubsub.Position{}, errNoName
	case err != nil:
		return pubsub.Position{}, err
	case len(id) > pubsub.MaxIDLength:
		return pubsub.Position{}, fmt.Errorf("memory: an id has %d bytes; it may have %d", len(id), pubsub.MaxIDLength)
	}
	l := b.logs.lockOrBegin(m.Topic, h, true)
	defer l.turn.Unlock()
	m, p, added := b.logs.append(l, m, h, id)
	grown := classOf(l.size) > l.class
	l.mu.Unlock()
	if grown {
		b.logs.grown(l)
	}
	b.logs.makeRoom()
	switch {
	case added:
		b.deliver(m)
	case p == pubsub.Position{}:
		return p, errNoRoom
	}
	return p, nil
}

var errNoRoom = errors.New("memory: there is no room for another id of the topic; raise BrokerOptions.MaxLogBytes")

// append adds a message to a log whose lock is held, and returns what is delivered. It adds nothing if
// there is an earlier message with the id, whose position it returns, or no room for the id.
func (s *logs) append(l *topicLog, m pubsub.Message, h pubsub.History, id string) (_ pubsub.Message, p pubsub.Position, added bool) {
	now := clock()
	next := pubsub.Position{Epoch: l.epoch, Offset: l.offset + 1, Tag: newTag()}
	p = next
	if id != "" {
		var bytes int
		p, bytes = s.ids.put(id, next, s.limit()/2, now)
		s.bytes.Add(int64(bytes))
		if p != next {
			l.used = now
			return m, p, false
		}
	}
	m, bytes := l.append(m, h, next.Tag, now)
	s.bytes.Add(int64(bytes))
	return m, p, true
}

// Read implements [pubsub.Log]. It fails for a topic without a name and for a History that Check
// refuses.
func (b *broker) Read(_ context.Context, topic string, h pubsub.History, r pubsub.ReadOptions) (pubsub.Page, error) {
	if topic == "" {
		return pubsub.Page{}, errNoName
	}
	if err := h.Check(); err != nil {
		return pubsub.Page{}, err
	}
	l := b.logs.lockOrBegin(topic, h, false)
	now := clock()
	l.used = now
	b.logs.bytes.Add(-int64(l.expire(now)))
	page := l.read(r)
	l.mu.Unlock()
	b.logs.makeRoom()
	return page, nil
}

// Heads implements [pubsub.Log]. It never fails.
func (b *broker) Heads(_ context.Context, topics []string) ([]pubsub.Position, error) {
	heads := make([]pubsub.Position, len(topics))
	for i, topic := range topics {
		if l := b.logs.lock(topic); l != nil {
			l.used = clock()
			heads[i] = l.head()
			l.mu.Unlock()
		}
	}
	return heads, nil
}

// Replace implements [pubsub.Replacer].
func (b *broker) Replace(_ context.Context, topic string, at pubsub.Position, frame []byte) (bool, error) {
	if topic == "" {
		return false, errNoName
	}
	l := b.logs.lock(topic)
	if l == nil {
		return false, nil
	}
	before := l.size
	replaced := l.replace(at, frame)
	grown := classOf(l.size) > l.class
	b.logs.bytes.Add(int64(l.size - before))
	l.mu.Unlock()
	if grown {
		b.logs.grown(l)
	}
	b.logs.makeRoom()
	return replaced, nil
}

// BrokerStats are figures of the logs of a [Broker].
type BrokerStats struct {
	// Logs is how many logs there are, and LogBytes what they take of BrokerOptions.MaxLogBytes.
	Logs     int
	LogBytes int
	// Removed is how many messages were removed before their time since the Broker was made, and
	// Ended how many logs were, because all logs together took more than BrokerOptions.MaxLogBytes.
	Removed, Ended int64
}

// Stats returns the figures.
func (b *broker) Stats() BrokerStats {
	b.logs.mu.RLock()
	defer b.logs.mu.RUnlock()
	return BrokerStats{
		Logs: len(b.logs.byTopic), LogBytes: int(b.logs.bytes.Load()),
		Removed: b.logs.removed.Load(), Ended: b.logs.ended.Load(),
	}
}
