package hub

import (
	"context"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/wire"
)

// PublishOptions configure one message.
type PublishOptions struct {
	History   *History // of the topic
	ID        string   // of a message that may be published again; for topics with history
	LocalOnly bool     // not for topics with history
	// Batch is the connection whose batch the message belongs to: what it queues is flushed at the end of the batch,
	// also if a broker in this process delivers it at once. nil: it is flushed at once.
	Batch *Peer
}

// Publish hands an event to the broker, or, without one, to the members of its topic. An error means that not all of
// them will get it.
func (h *Hub) Publish(ctx context.Context, m pubsub.Message, o PublishOptions) error {
	if o.History != nil {
		m.Frame = Appendable(m.Topic, m.Frame)
	}
	local := o.History == nil && (o.LocalOnly || h.Broker == nil)
	switch {
	case local:
		h.deliver(m, o.Batch)
		return nil
	case o.Batch != nil:
		if in := h.table.subscribed(m.Topic); in != nil {
			in.expect(m.Frame)
			defer in.published(o.Batch, m.Frame)
		}
	}
	if o.History != nil {
		return h.append(ctx, m, o)
	}
	if err := h.Broker.Publish(ctx, m); err != nil {
		return errors.Unavailable.Wrap(err, "publishing failed")
	}
	return nil
}

// append publishes an event to a topic with history. Its frame is appendable.
func (h *Hub) append(ctx context.Context, m pubsub.Message, o PublishOptions) error {
	if err := h.ErrTooLarge(len(m.Frame) + PositionSize); err != nil {
		return err
	}
	if _, err := o.History.Log.Append(ctx, m, o.History.Kept, o.ID); err != nil {
		return errors.Unavailable.Wrap(err, "publishing failed")
	}
	return nil
}

// deliver hands a message to the members of its topic in this process. With a batch, flushing is left to its end.
func (h *Hub) deliver(m pubsub.Message, batch *Peer) {
	t := h.table.find(m.Topic)
	if batch == nil {
		h.deliverTo(t, m, nil)
		return
	}
	later := batch.lockBatch()
	h.deliverTo(t, m, later)
	full := later.hold(m.Frame, h.MaxQueued)
	later.mu.Unlock()
	if full {
		later.flush()
	}
}

// deliverTo is deliver for a topic, which may be nil. later is locked, or nil.
func (h *Hub) deliverTo(t *topic, m pubsub.Message, later *batch) {
	if t == nil {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	h.send(t, m, later)
}

// send hands a message to the members of a topic, and returns how many these are. With later, which is locked, flushing
// is left to it. t.mu is held, for reading at least.
func (h *Hub) send(t *topic, m pubsub.Message, later *batch) (n int64) {
	if len(t.members) == 0 {
		return 0
	}
	shared := frame.Share(m.Frame)
	n = t.send(&shared, overflowOf(m), m.Key, m.Except, later)
	h.Counts.Delivered.Add(n)
	return n
}

// send queues a message for the members, but for the connection except, and returns how many these
// are. t.mu is held, for reading at least.
func (t *topic) send(message *frame.Shared, overflow wire.Overflow, key, except string, later *batch) (n int64) {
	for _, member := range t.members {
		p := member.peer
		if except != "" && p.ID == except {
			continue
		}
		// A member that is closing, or that this message makes too slow, is
		// dealt with by its outbox: no concern of the others.
		first, err := p.Out.AppendShared(message.Frame(p.Deflate), overflow, key)
		if err != nil {
			continue
		}
		n++
		if p.Traced.Load() {
			p.Host.Trace(message.Payload)
		}
		switch {
		case later == nil:
			p.Out.Flush()
		case first:
			later.add(p)
		}
	}
	return n
}

// overflowOf is the policy of a message. One that this version does not know, because other processes have a later one,
// must not close connections, and it is not known which older messages it may take the place of: it drops the message.
func overflowOf(m pubsub.Message) wire.Overflow {
	if o := wire.Overflow(m.Overflow); o.Known() {
		return o
	}
	return wire.DropNewest
}

// ErrTooLarge says that a message fits no subscriber's queue, not even an empty one: it
// would close them all.
func (h *Hub) ErrTooLarge(size int) error {
	if most := h.MaxQueued - wire.HeaderRoom; size > most {
		return errors.Internal.Errorf("router: a message of %d bytes cannot be published: Limits.MaxQueued allows %d", size, most)
	}
	return nil
}
