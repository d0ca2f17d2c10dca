package router

import (
	"context"
	"crypto/sha256"
	"strconv"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/hub"
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
	//
	// Default: none: the latest message of a type.
	Key string
	// Except leaves out the connection with this id: Except: c.Conn().ID() leaves out the client that publishes. A
	// topic with history refuses it, since it would make gaps.
	//
	// Default: none.
	Except string
	// LocalOnly delivers to the subscribers in this process alone, without Backend.Broker. The
	// order of messages with it and without it is not defined.
	//
	// Default: false.
	LocalOnly bool
	// ID makes it safe to publish again to a topic with history. Set it to retry a publish whose outcome is unknown: a
	// second message with the same ID within two minutes changes nothing, whatever process it comes from. At most 128
	// bytes.
	//
	// Default: none.
	ID string
	// Meta is put into the event's meta.
	//
	// Default: none.
	Meta Meta
}

// publish encodes a message once and hands it to the hub. batch is the publisher, whose messages leave together; nil:
// none.
func (r *Router) publish(ctx context.Context, batch *hub.Peer, topic, typ string, payload any, opts []PublishOptions) error {
	if err := hub.CheckTopic(topic); err != nil {
		return err
	}
	o, err := given.Options("router", "the call", opts)
	if err != nil {
		return err
	}
	h := r.historyOf(topic)
	if err := checkAppend(h != nil, o); err != nil {
		return err
	}
	if err := r.beforePublish(ctx, topic); err != nil {
		return err
	}
	m, err := r.encode(ctx, topic, typ, payload, o)
	if err != nil {
		return err
	}
	if r.opts.Backend.Broker != nil {
		ctx = lasting(ctx)
	}
	how := hub.PublishOptions{History: h, ID: o.ID, LocalOnly: o.LocalOnly, Batch: batch}
	return r.countPublished(r.hub.Publish(ctx, m, how))
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

// encode makes the message that all receivers share.
func (r *Router) encode(ctx context.Context, topic, typ string, payload any, o PublishOptions) (m pubsub.Message, err error) {
	if err := r.checkEvent(typ, payload); err != nil {
		return m, err
	}
	if !wire.Overflow(o.Overflow).Known() {
		return m, errors.Internal.Errorf("router: PublishOptions.Overflow is %d; use OverflowDisconnect, OverflowDropOldest, OverflowDropNewest or OverflowLatestOnly", o.Overflow)
	}
	m.Topic, m.Overflow, m.Except = topic, uint8(o.Overflow), o.Except
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
	if err := r.hub.ErrTooLarge(b.Len() - wire.HeaderRoom); err != nil {
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

// Publish sends an event to all subscribers of a topic, this connection too if it
// is one; it need not be. payload is encoded as in [Conn.Send]. At most one
// PublishOptions may be given.
//
// An error means that not all subscribers will get it: the topic's name has not 1
// to 256 bytes or is reserved (INVALID_ARGUMENT), the type is not a type name or is reserved,
// the payload does not encode, a hook has refused it ([Hooks].BeforePublish), or the broker has
// failed (UNAVAILABLE). Without an
// error it has been handed on, which does not mean that every client has it. It is also
// published when the connection has ended before, or the client has aborted the request.
func (c *Context) Publish(topic, typ string, payload any, opts ...PublishOptions) error {
	c.checkReturned()
	var batch *hub.Peer
	if !c.task.Concurrent {
		batch = &c.conn.peer
	}
	err := c.conn.router.publish(c, batch, topic, typ, payload, opts)
	if batch != nil && !c.conn.turn.Batching() {
		c.conn.peer.FlushBatch() // detached: no batch ends that would
	}
	return err
}

// Publish sends an event to the subscribers of a topic, from outside of a handler. See
// [Context.Publish]. ctx is passed to the broker. One that was cancelled because its connection has ended, as that
// of a Conn is in OnClose, does not stop the message.
func (r *Router) Publish(ctx context.Context, topic, typ string, payload any, opts ...PublishOptions) error {
	return r.publish(ctx, nil, topic, typ, payload, opts)
}
