// Package memory keeps limits, topics, presence and the answers of idempotent messages in
// this process: a limit.Store, a pubsub.Broker, a pubsub.Presence and an idempotency.Store
// that need nothing besides. Several processes that have to share them take another
// adapter; nothing else changes.
package memory

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/pubsub"
)

// Broker is a pubsub.Broker for a single process: Publish calls the topic's
// subscribers one after the other before it returns. Routers that share a Broker
// share their topics.
//
// The zero Broker is ready to use.
type Broker struct {
	mu     sync.RWMutex
	topics map[string]*topic
}

type topic struct {
	// publishing makes deliveries of one topic take turns, so that all
	// subscribers see the same order.
	publishing sync.Mutex
	subs       []*subscription // replaced, never changed
}

type subscription struct {
	broker  *Broker
	name    string
	deliver func(pubsub.Message)
	closed  atomic.Bool
}

// NewBroker returns an empty Broker.
func NewBroker() *Broker { return new(Broker) }

// Publish implements pubsub.Broker. It never fails.
func (b *Broker) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := b.PublishCounted(ctx, m)
	return err
}

// PublishCounted implements pubsub.ReceiverCounter: it counts subscriptions. It never fails.
func (b *Broker) PublishCounted(_ context.Context, m pubsub.Message) (receivers int, err error) {
	b.mu.RLock()
	t := b.topics[m.Topic]
	b.mu.RUnlock()
	if t == nil {
		return 0, nil
	}
	t.publishing.Lock()
	defer t.publishing.Unlock()
	b.mu.RLock()
	subs := t.subs
	b.mu.RUnlock()
	for _, s := range subs {
		if !s.closed.Load() { // by a subscriber that was called before it
			s.deliver(m)
			receivers++
		}
	}
	return receivers, nil
}

var _ pubsub.ReceiverCounter = (*Broker)(nil)

// Subscribe implements pubsub.Broker.
func (b *Broker) Subscribe(_ context.Context, name string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	s := &subscription{broker: b, name: name, deliver: deliver}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics == nil {
		b.topics = make(map[string]*topic)
	}
	t := b.topics[name]
	if t == nil {
		t = new(topic)
		b.topics[name] = t
	}
	t.subs = append(slices.Clip(t.subs), s)
	return s, nil
}

// Close implements pubsub.Subscription.
func (s *subscription) Close() error {
	s.closed.Store(true)
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[s.name]
	if t == nil {
		return nil
	}
	t.subs = slices.DeleteFunc(slices.Clone(t.subs), func(o *subscription) bool { return o == s })
	if len(t.subs) == 0 {
		delete(b.topics, s.name)
	}
	return nil
}
