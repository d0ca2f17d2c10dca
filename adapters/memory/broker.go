// Package memory keeps limits, topics, their logs, presence and the answers of idempotent messages in
// this process: a limit.Store, a pubsub.Log, a pubsub.Presence and an idempotency.Store
// that need nothing besides. Several processes that have to share them take another
// adapter; nothing else changes.
package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
)

// Broker is a [pubsub.Log] for a single process: Publish and Append call the topic's
// subscribers one after the other before they return. Routers that share a Broker
// share their topics. Its methods ignore their contexts.
type Broker interface {
	pubsub.Replacer
	pubsub.ReceiverCounter

	// Stats returns the figures of the logs.
	Stats() BrokerStats
}

type broker struct {
	mu     sync.RWMutex
	topics map[string]*topic
	logs   logs
}

// BrokerOptions bound the logs of a [Broker]. The zero value works.
type BrokerOptions struct {
	// MaxLogBytes is how many bytes all logs take together: the frames and keys of their messages,
	// 160 bytes more for each message, 300 for each log and 100 for each id. Default: 256 MiB.
	//
	// When there is no room, the oldest messages of the largest logs are removed before their time, and the logs
	// without messages that have not been used for longest end; BrokerStats counts both. A log that is less than
	// half as large as the largest loses nothing, so publishing much to some topics does not remove the
	// history of small ones. Where a client may publish to any number of topics, bound that number.
	// Ids take at most half of it, and one topic at most half of what other topics' ids leave of that: an Append
	// with an id that does not fit fails, and adds nothing.
	MaxLogBytes int
}

type topic struct {
	// publishing makes deliveries of one topic take turns, so that all
	// subscribers see the same order.
	publishing sync.Mutex
	subs       []*subscription // replaced, never changed
}

type subscription struct {
	broker  *broker
	name    string
	deliver func(pubsub.Message)
	closed  atomic.Bool
}

// NewBroker returns an empty Broker. It panics when an option is negative.
func NewBroker(options ...BrokerOptions) Broker {
	opts := given.Must("memory", "NewBroker", options)
	if opts.MaxLogBytes < 0 {
		panic(fmt.Sprintf("memory: BrokerOptions.MaxLogBytes is %d; it must be positive (0 for %d)", opts.MaxLogBytes, defaultLogBytes))
	}
	return &broker{logs: logs{max: opts.MaxLogBytes}}
}

// Publish implements pubsub.Broker. It never fails.
func (b *broker) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := b.PublishCounted(ctx, m)
	return err
}

// PublishCounted implements pubsub.ReceiverCounter: it counts subscriptions. It never fails.
func (b *broker) PublishCounted(_ context.Context, m pubsub.Message) (receivers int, err error) {
	m.More, m.Lost, m.Position, m.Previous = false, false, pubsub.Position{}, 0
	return b.deliver(m), nil
}

func (b *broker) deliver(m pubsub.Message) (receivers int) {
	b.mu.RLock()
	t := b.topics[m.Topic]
	b.mu.RUnlock()
	if t == nil {
		return 0
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
	return receivers
}

// Subscribe implements pubsub.Broker.
func (b *broker) Subscribe(_ context.Context, name string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
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
