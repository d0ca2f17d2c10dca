package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/wskit/wskit/pubsub"
)

// Presence is a pubsub.Presence for a single process. Routers that share one share
// their members. Its methods never wait and ignore their contexts.
//
// The zero Presence is ready to use.
type Presence struct {
	mu     sync.RWMutex
	topics map[string]map[string]pubsub.Member
}

// NewPresence returns an empty Presence.
func NewPresence() *Presence { return new(Presence) }

// Join implements pubsub.Presence. It fails for a member that Member.Check refuses,
// and for a topic without a name.
func (p *Presence) Join(_ context.Context, topic string, m pubsub.Member) error {
	if topic == "" {
		return errors.New("memory: the topic has no name")
	}
	if err := m.Check(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics == nil {
		p.topics = make(map[string]map[string]pubsub.Member)
	}
	if p.topics[topic] == nil {
		p.topics[topic] = make(map[string]pubsub.Member)
	}
	p.topics[topic][m.ID] = m
	return nil
}

// Leave implements pubsub.Presence.
func (p *Presence) Leave(topic, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.topics[topic], id)
	if len(p.topics[topic]) == 0 {
		delete(p.topics, topic)
	}
}

// Members implements pubsub.Presence. It never fails.
func (p *Presence) Members(_ context.Context, topic string) ([]pubsub.Member, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Collect(maps.Values(p.topics[topic])), nil
}

var _ pubsub.Presence = (*Presence)(nil)
