package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/pubsub"
)

type presence struct {
	mu     sync.Mutex // a place's is not locked under it, nor the other way round
	topics map[string]*place
}

// place is a topic with members or watchers.
type place struct {
	mu       sync.Mutex
	members  map[string]pubsub.Member
	watchers []*watcher
	removed  atomic.Bool // it is not to be used any more; set under mu
}

type watcher struct {
	of     *presence
	topic  string
	report func(pubsub.PresenceReport)
}

// NewPresence returns a presence without members, for a single process. Routers that share one share their members. Its
// methods wait for nothing and ignore their contexts.
func NewPresence() pubsub.PresenceWatcher { return new(presence) }

// Join implements pubsub.Presence. It fails for a member that Member.Check refuses,
// and for a topic without a name.
func (p *presence) Join(_ context.Context, topic string, m pubsub.Member) error {
	if topic == "" {
		return errNoName
	}
	if err := m.Check(); err != nil {
		return err
	}
	t := p.place(topic)
	defer t.mu.Unlock()
	t.members[m.ID] = m
	t.report(pubsub.PresenceReport{Present: []pubsub.Member{m}})
	return nil
}

var errNoName = errors.New("memory: the topic has no name")

// Leave implements pubsub.Presence.
func (p *presence) Leave(topic, id string) {
	t := p.find(topic)
	if t == nil {
		return
	}
	t.mu.Lock()
	if _, ok := t.members[id]; ok {
		delete(t.members, id)
		t.report(pubsub.PresenceReport{Left: []string{id}})
	}
	t.mu.Unlock()
	p.tidy(topic, t)
}

// Members implements pubsub.Presence. It never fails.
func (p *presence) Members(_ context.Context, topic string) ([]pubsub.Member, error) {
	t := p.find(topic)
	if t == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.members)), nil
}

// Watch implements pubsub.PresenceWatcher. Changes are reported before Join and Leave
// return.
func (p *presence) Watch(_ context.Context, topic string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	if topic == "" {
		return nil, errNoName
	}
	w := &watcher{of: p, topic: topic, report: report}
	t := p.place(topic)
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, w)
	report(pubsub.PresenceReport{Complete: true, Present: slices.Collect(maps.Values(t.members))})
	return w, nil
}

// Close implements pubsub.Subscription.
func (w *watcher) Close() error {
	t := w.of.find(w.topic)
	if t == nil {
		return nil
	}
	t.mu.Lock()
	t.watchers = slices.DeleteFunc(t.watchers, func(o *watcher) bool { return o == w })
	t.mu.Unlock()
	w.of.tidy(w.topic, t)
	return nil
}

func (p *presence) find(topic string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[topic]
}

// place finds or makes a topic, and locks it.
func (p *presence) place(topic string) *place {
	for {
		p.mu.Lock()
		t := p.topics[topic]
		if t == nil || t.removed.Load() {
			if p.topics == nil {
				p.topics = make(map[string]*place)
			}
			t = &place{members: make(map[string]pubsub.Member)}
			p.topics[topic] = t
		}
		p.mu.Unlock()
		t.mu.Lock()
		if !t.removed.Load() {
			return t
		}
		t.mu.Unlock()
	}
}

// tidy removes a topic without members and watchers.
func (p *presence) tidy(topic string, t *place) {
	t.mu.Lock()
	unused := len(t.members) == 0 && len(t.watchers) == 0 && t.removed.CompareAndSwap(false, true)
	t.mu.Unlock()
	if !unused {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics[topic] == t {
		delete(p.topics, topic)
	}
}

func (t *place) report(r pubsub.PresenceReport) {
	for _, w := range t.watchers {
		w.report(r)
	}
}
