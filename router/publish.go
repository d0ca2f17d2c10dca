package router

import (
	"context"
	"crypto/sha256"
	"strconv"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/wire"
)

// Overflow is what happens to a published message if the queue of a subscriber is full
// (Limits.MaxQueued), because its client reads too slowly.
type Overflow uint8

const (
	// OverflowDisconnect closes the subscriber's connection with 4008, so that no
	// client misses a message without noticing. The default.
	OverflowDisconnect Overflow = Overflow(wire.Disconnect)
	// OverflowDropOldest drops the subscriber's oldest messages that were published
	// with OverflowDropOldest or OverflowLatestOnly. If that does not make enough room, it
	// drops the message itself.
	OverflowDropOldest Overflow = Overflow(wire.DropOldest)
	// OverflowDropNewest drops the message for this subscriber.
	OverflowDropNewest Overflow = Overflow(wire.DropNewest)
	// OverflowLatestOnly lets the message replace one of the same topic, type and Key
	// that is still queued, even in a queue that is not full: for positions and gauges, of which
	// only the last matters. If there is nothing to replace and the queue is full, it does
	// what OverflowDropOldest does.
	OverflowLatestOnly Overflow = Overflow(wire.LatestOnly)
)

// PublishOptions configure one message.
type PublishOptions struct {
	// Overflow is what happens if a subscriber reads too slowly. Default:
	// OverflowDisconnect.
	Overflow Overflow
	// Key distinguishes OverflowLatestOnly messages of one topic and type: with the user as the
	// key, the latest position of each of ten users is kept; without a key, only one of all. At
	// most 256 bytes.
	Key string
	// ExceptSelf leaves out the connection that publishes. It has no effect on
	// Router.Publish, nor on topics with history.
	ExceptSelf bool
	// LocalOnly delivers to the subscribers in this process alone, without Options.Broker. The
	// order of messages with it and without it is not defined.
	LocalOnly bool
	// ID makes it safe to publish again to a topic with history, if it is not known whether the
	// message was: a second one with the same ID within two minutes changes nothing, whatever process
	// it comes from. At most 128 bytes.
	ID string
	// Meta is put into the event's meta.
	Meta Meta
}

// Publish sends an event to all subscribers of a topic, from outside of a handler. With
// PublishOptions.ExceptSelf this connection is left out. See [Context.Publish]. ctx is passed to
// the broker.
func (c *Conn) Publish(ctx context.Context, topic, typ string, payload any, opts ...PublishOptions) error {
	return c.router.publish(ctx, c, false, topic, typ, payload, opts)
}

// publish encodes a message once and hands it to the broker, or, without one, to
// the topic's members. What a batch publishes to them leaves when the batch ends, also if a broker in
// this process delivers it at once.
func (r *Router) publish(ctx context.Context, from *Conn, batched bool, topic, typ string, payload any, opts []PublishOptions) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	o, err := onlyOption(opts)
	if err != nil {
		return err
	}
	h := r.historyOf(topic)
	if err := checkAppend(h != nil, o); err != nil {
		return err
	}
	m, err := r.encode(ctx, topic, typ, payload, o)
	if err != nil {
		return err
	}
	switch {
	case h != nil:
		m.Frame = appendable(topic, m.Frame)
	case o.ExceptSelf && from != nil:
		m.Except = from.id
	}
	if batched {
		if h == nil && (r.opts.Broker == nil || o.LocalOnly) {
			r.deliverLater(from, m)
			return r.countPublished(nil)
		}
		if in := r.topics.subscribed(topic); in != nil {
			in.expect(m.Frame)
			defer in.published(from, m.Frame)
		}
	}
	if h != nil {
		return r.countPublished(r.append(ctx, h, m, o.ID))
	}
	return r.countPublished(r.handOn(ctx, m, o.LocalOnly))
}

// deliverLater hands a message to the topic's members in this process, and leaves flushing to the
// end of the connection's batch.
func (r *Router) deliverLater(from *Conn, m pubsub.Message) {
	later := from.lockDeferred()
	r.topics.deliver(m, later)
	full := later.hold(m.Frame, r.opts.Limits.MaxQueued)
	later.mu.Unlock()
	if full {
		later.flush()
	}
}

// countPublished counts a message that was handed on, or could not be.
func (r *Router) countPublished(err error) error {
	if err == nil {
		r.stats.published.Add(1)
	} else {
		r.stats.publishFailed.Add(1)
	}
	return err
}

// handOn hands a message to the broker, or to the topic's members in this process.
func (r *Router) handOn(ctx context.Context, m pubsub.Message, localOnly bool) error {
	if localOnly || r.opts.Broker == nil {
		r.topics.deliver(m, nil)
		return nil
	}
	if err := r.opts.Broker.Publish(ctx, m); err != nil {
		return errors.Unavailable.Wrap(err, "publishing failed")
	}
	return nil
}

func onlyOption(opts []PublishOptions) (o PublishOptions, err error) {
	switch len(opts) {
	case 0:
		return o, nil
	case 1:
		return opts[0], nil
	default:
		return o, errors.Internal.Errorf("router: %d PublishOptions are given; merge them into one", len(opts))
	}
}

// encode makes the message that all receivers share.
func (r *Router) encode(ctx context.Context, topic, typ string, payload any, o PublishOptions) (m pubsub.Message, err error) {
	if err := r.checkEvent(typ, payload); err != nil {
		return m, err
	}
	if o.Overflow > OverflowLatestOnly {
		return m, errors.Internal.Errorf("router: PublishOptions.Overflow is %d; use OverflowDisconnect, OverflowDropOldest, OverflowDropNewest or OverflowLatestOnly", o.Overflow)
	}
	m.Topic, m.Overflow = topic, uint8(o.Overflow)
	switch {
	case o.Overflow == OverflowLatestOnly && len(o.Key) <= maxKeyLength:
		m.Key = latestKey(topic, typ, o.Key)
	case o.Key != "" && o.Overflow != OverflowLatestOnly:
		return m, errors.Internal.Errorf("router: PublishOptions.Key is set without OverflowLatestOnly; set Overflow, or leave Key empty")
	case o.Key != "":
		return m, errors.InvalidArgument.Errorf("PublishOptions.Key has at most %d bytes, this one %d", maxKeyLength, len(o.Key))
	}
	b := frame.New()
	defer b.Free()
	if err := appendEvent(b, typ, payload, r.publishMeta(ctx, o.Meta)); err != nil {
		return m, err
	}
	if err := r.errTooLarge(b.Len() - wire.HeaderRoom); err != nil {
		return m, err
	}
	m.Frame = append([]byte(nil), b.Bytes()[wire.HeaderRoom:]...)
	return m, nil
}

// maxKeyLength bounds PublishOptions.Key, in bytes.
const maxKeyLength = 256

// latestKey is different for each combination of topic, type and key. Every queued message has
// one, so a long one is replaced by its hash.
func latestKey(topic, typ, key string) string {
	b := make([]byte, 0, 8+len(topic)+len(typ)+len(key))
	b = append(strconv.AppendInt(b, int64(len(topic)), 10), ' ')
	b = append(strconv.AppendInt(b, int64(len(typ)), 10), ' ')
	b = append(append(append(b, topic...), typ...), key...)
	if len(b) > 2*sha256.Size {
		sum := sha256.Sum256(b)
		b = append(b[:0], '#')
		b = append(b, sum[:]...)
	}
	return string(b)
}

// overflowOf is the policy of a message. One that this version does not know, because other processes have a later one,
// must not close connections, and it is not known which older messages it may take the place of: it drops the message.
func overflowOf(m pubsub.Message) wire.Overflow {
	if m.Overflow > uint8(OverflowLatestOnly) {
		return wire.DropNewest
	}
	return wire.Overflow(m.Overflow)
}

// deliver hands a message to the members of its topic in this process. With later,
// which is locked, flushing is left to it. It returns how many members these are. t.mu is held, for
// reading at least.
func (t *topic) deliver(m pubsub.Message, later *deferredFlush) (n int64) {
	if len(t.members) == 0 {
		return 0
	}
	shared := frame.Share(m.Frame)
	n = t.send(&shared, overflowOf(m), m.Key, m.Except, later)
	t.members[0].conn.router.stats.delivered.Add(n)
	return n
}

// send queues a message for the members, but for the connection except, and returns how many these
// are. t.mu is held, for reading at least.
func (t *topic) send(message *frame.Shared, overflow wire.Overflow, key, except string, later *deferredFlush) (n int64) {
	for _, member := range t.members {
		c := member.conn
		if except != "" && c.id == except {
			continue
		}
		// A member that is closing, or that this message makes too slow, is
		// dealt with by its outbox: no concern of the others.
		first, err := c.stream.Out.AppendShared(message.Frame(c.deflate), overflow, key)
		if err != nil {
			continue
		}
		n++
		if c.traced.Load() {
			c.trace(true, message.Payload)
		}
		switch {
		case later == nil:
			c.stream.Out.Flush()
		case first:
			later.add(c)
		}
	}
	return n
}

// Publish sends an event to all subscribers of a topic, this connection too if it
// is one; it need not be. payload is encoded as in [Conn.Send]. At most one
// PublishOptions may be given.
//
// An error means that not all subscribers will get it: the topic's name has not 1
// to 256 bytes or is reserved (INVALID_ARGUMENT), the type is not a type name or is reserved,
// the payload does not encode, or the broker has failed (UNAVAILABLE). Without an
// error it has been handed on, which does not mean that every client has it.
func (c *Context) Publish(topic, typ string, payload any, opts ...PublishOptions) error {
	c.checkReturned()
	batched := !c.task.Concurrent
	err := c.conn.router.publish(c, c.conn, batched, topic, typ, payload, opts)
	if batched && !c.conn.turn.Batching() {
		c.conn.flushDeferred() // detached meanwhile: no batch ends that would
	}
	return err
}

// Publish sends an event to the subscribers of a topic, from outside of a handler. See
// [Context.Publish]. ctx is passed to the broker.
func (r *Router) Publish(ctx context.Context, topic, typ string, payload any, opts ...PublishOptions) error {
	return r.publish(ctx, nil, false, topic, typ, payload, opts)
}

// errTooLarge says that a message fits no subscriber's queue, not even an empty one: it
// would close them all.
func (r *Router) errTooLarge(size int) error {
	if most := r.opts.Limits.MaxQueued - wire.HeaderRoom; size > most {
		return errors.Internal.Errorf("router: a message of %d bytes cannot be published: Limits.MaxQueued allows %d", size, most)
	}
	return nil
}

func (ts *topics) deliver(m pubsub.Message, later *deferredFlush) {
	t := ts.find(m.Topic)
	if t == nil {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.deliver(m, later)
}

func (c *Conn) sendShared(s *frame.Shared, overflow wire.Overflow, key string) {
	if c.traced.Load() {
		c.trace(true, s.Payload)
	}
	if _, err := c.stream.Out.AppendShared(s.Frame(c.deflate), overflow, key); err == nil {
		c.stream.Out.Flush()
	}
}
