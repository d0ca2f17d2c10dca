package hub

import (
	"sync/atomic"

	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
)

// subscription is a topic's subscription with the broker. What comes while more is there
// already is flushed with that.
type subscription struct {
	batch
	topic  *topic
	hub    *Hub
	sub    pubsub.Subscription
	log    *followed   // of a topic with history; nil: it has none
	sent   int64       // to how many members the latest message was, under mu
	closed atomic.Bool // no more will come

	// guarded by mu
	peeker   envelope.Peeker    // of deliver
	expected map[*byte]struct{} // frames that batches publish at the moment, see expect
}

func (in *subscription) end() {
	in.closed.Store(true)
	if in.log != nil {
		in.log.cancel()
		in.log.pages.Drop()
		in.hub.ends.remove(in)
	}
	in.flush()
	_ = in.sub.Close()
}

// deliver takes what the broker delivers.
func (in *subscription) deliver(m pubsub.Message) {
	var delivered func(int64)
	if m.Frame != nil && in.hub.OnDelivery != nil {
		delivered = in.hub.OnDelivery(in.topic.name, m)
	}
	in.mu.Lock()
	in.sent = 0
	err := in.handle(m)
	sent := in.sent
	later := in.expects(m.Frame) || m.More
	full := in.hold(m.Frame, in.hub.MaxQueued)
	in.mu.Unlock()
	if err != nil {
		in.hub.Refuse(in.topic.name, err)
	}
	if !later || full || in.closed.Load() {
		in.flush()
	}
	if delivered != nil && sent > 0 {
		delivered(sent)
	}
}

// handle queues a message for the members, or records a loss. in.mu is held.
func (in *subscription) handle(m pubsub.Message) error {
	if t := in.hub.Touch; t != nil && !IsReserved(in.topic.name) {
		switch {
		case m.Lost:
			t.Lost()
		case !t.Holds():
			m = pubsub.Message{Topic: m.Topic, Lost: true}
		}
	}
	if m.Lost {
		in.hub.Counts.Lost.Add(1)
	}
	switch {
	case in.log != nil:
		return in.follow(m)
	case m.Lost:
		in.hub.lost(in.topic.name)
		return nil
	default:
		return in.pass(m)
	}
}

// pass delivers a message to the members. in.mu is held.
func (in *subscription) pass(m pubsub.Message) error {
	if err := in.hub.Check(&in.peeker, m.Frame); err != nil {
		return err
	}
	t := in.topic
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.subscription == in { // a later one may have taken its place
		in.sent = in.hub.send(t, m, &in.batch)
	}
	return nil
}
