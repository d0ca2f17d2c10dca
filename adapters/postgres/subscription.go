package postgres

import (
	"slices"
	"sync"

	"github.com/wskit/wskit/pubsub"
)

// subscription is one subscriber of a topic, with what waits for it.
type subscription struct {
	b       *Broker
	topic   *topic
	deliver func(pubsub.Message)
	from    head // of the log when it began; what is older is not for it

	mu      sync.Mutex
	queue   []pubsub.Message
	size    int
	running bool
	closed  bool
}

// weight is what a message counts for.
func weight(m pubsub.Message) int { return len(m.Frame) + len(m.Key) + len(m.Except) + 128 }

// push queues a message, or the report of a loss, which always has room.
func (s *subscription) push(m pubsub.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if !m.Lost && s.size > 0 && s.size+weight(m) > s.b.o.MaxBuffered {
		m = pubsub.Message{Topic: s.topic.name, Lost: true}
	}
	if n := len(s.queue); m.Lost && n > 0 && s.queue[n-1].Lost {
		return
	}
	if !m.Lost {
		s.size += weight(m)
	}
	s.queue = append(s.queue, m)
	if !s.running {
		s.running = true
		go s.run()
	}
}

func (s *subscription) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 || s.closed {
			s.running = false
			s.mu.Unlock()
			return
		}
		m := s.queue[0]
		s.queue = s.queue[1:]
		m.More = len(s.queue) > 0
		if !m.Lost {
			s.size -= weight(m)
		}
		s.mu.Unlock()
		s.deliver(m)
	}
}

// Close implements [pubsub.Subscription]. It returns nil.
func (s *subscription) Close() error {
	s.mu.Lock()
	s.closed, s.queue = true, nil
	s.mu.Unlock()
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	t := s.topic
	t.subs = slices.DeleteFunc(slices.Clone(t.subs), func(other *subscription) bool { return other == s })
	if key := digest(t.name); len(t.subs) == 0 && s.b.topics[key] == t {
		delete(s.b.topics, key)
		s.b.gone.add(registration{key, t.registration})
	}
	return nil
}
