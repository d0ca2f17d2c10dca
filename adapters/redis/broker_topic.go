package redis

import (
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/pubsub"
)

// topic is a topic that has subscriptions in this process, or had some until Redis
// has confirmed that it is left. Broker.mu guards it.
type topic struct {
	name, channel string
	subs          []*subscription // replaced, never changed
	state         state
	link          *link // not nil from joining to leaving
	lost          bool  // it was joined, and is to be so again
}

// state is how far a topic is. There is never more than one command for a topic
// under way, so a confirmation of Redis can only be of that one.
type state uint8

const (
	idle    state = iota // new, or done with
	queued               // it waits for a link
	joining              // its link is to subscribe to it, or has asked for it
	joined               // Redis has confirmed
	leaving              // its link is to unsubscribe from it, or has asked for it
)

// notify ends the calls of Subscribe that wait for Redis.
func (t *topic) notify(err error) {
	for _, s := range t.subs {
		if s.confirmed != nil {
			s.confirmed <- err
			s.confirmed = nil
		}
	}
}

// subscription is one subscriber of a topic, with the messages that wait for it. While there
// are any it is in Broker.deliveries, or a goroutine of these calls deliver.
type subscription struct {
	broker  *broker
	topic   *topic
	deliver func(pubsub.Message)
	closed  atomic.Bool
	// confirmed receives once, when Redis has confirmed the topic or refused it;
	// nil if nothing waits for that. Broker.mu guards it.
	confirmed chan<- error

	mu      sync.Mutex
	queue   []pubsub.Message
	spare   []pubsub.Message // the room of the queue before
	size    int              // what queue and those being delivered count for
	running bool             // it is in deliveries, or is being delivered
	lossDue bool             // the last of all that waits is a report of a loss

	next *subscription // in deliveries, which guards it
}

// messageOverhead is what a message counts for besides its frame.
const messageOverhead = 128

func weight(m pubsub.Message) int { return messageOverhead + len(m.Frame) + len(m.Key) + len(m.Except) }

// push queues a message. If there is no room for it, it returns false, and queues a report of the
// loss.
func (s *subscription) push(m pubsub.Message, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := weight(m)
	switch {
	case s.closed.Load():
		return true
	case s.size > 0 && s.size+w > most:
		s.addLoss()
		return false
	}
	s.size += w
	s.lossDue = false
	s.add(m)
	return true
}

// reportLoss queues a report that messages may have been lost.
func (s *subscription) reportLoss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed.Load() {
		s.addLoss()
	}
}

// addLoss is reportLoss; s.mu is held. A report always has room: it counts for nothing, and never
// follows another.
func (s *subscription) addLoss() {
	if !s.lossDue {
		s.lossDue = true
		s.add(pubsub.Message{Topic: s.topic.name, Lost: true})
	}
}

// add appends to the queue. s.mu is held.
func (s *subscription) add(m pubsub.Message) {
	s.queue = append(s.queue, m)
	if !s.running {
		s.running = true
		s.broker.deliveries.add(s)
	}
}

func (s *subscription) run() {
	for {
		batch := s.take()
		if batch == nil {
			return
		}
		for i, m := range batch {
			if s.closed.Load() {
				break
			}
			m.More = i < len(batch)-1
			if m.Lost {
				s.beforeLoss(!m.More)
				s.deliver(m)
				continue
			}
			s.deliver(m)
			s.mu.Lock()
			s.size -= weight(m)
			s.mu.Unlock()
		}
		s.giveBack(batch)
	}
}

// beforeLoss is called before a report is delivered, which is the last one of those taken or
// not. A loss after it needs another report, unless that waits already.
func (s *subscription) beforeLoss(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last && len(s.queue) == 0 {
		s.lossDue = false
	}
}

// take takes all that waits; nil ends the goroutine.
func (s *subscription) take() []pubsub.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.closed.Load() {
		s.queue, s.spare, s.running = s.spare, nil, false
		return nil
	}
	batch := s.queue
	s.queue, s.spare = s.spare, nil
	return batch
}

func (s *subscription) giveBack(batch []pubsub.Message) {
	const kept = 64
	if cap(batch) > kept {
		return
	}
	clear(batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = batch[:0]
}

// end makes sure that no delivery begins any more, and lets go of what waits.
func (s *subscription) end() {
	s.closed.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, s.spare = nil, nil
}

// Close implements [pubsub.Subscription]. It always returns nil.
func (s *subscription) Close() error {
	s.end()
	s.broker.unsubscribe(s)
	return nil
}
