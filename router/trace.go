package router

import (
	"bytes"
	"context"
	"maps"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
)

// Delivery is a message that the broker has delivered to this process, see [Hooks].
type Delivery struct {
	// Topic is the topic; empty for what is sent to users and to all connections.
	Topic string
	// Members is how many members of the topic in this process it was queued for.
	Members int
	// Began is when the broker delivered it.
	Began time.Time

	frame []byte
}

// Type is the message's type. It is parsed from the message by each call.
func (d Delivery) Type() string {
	var p envelope.Peeker
	e, _ := p.PeekAll(d.frame) // it has been read as valid
	return string(e.Type)
}

// Meta decodes a member of the message's meta into v, a pointer. It returns false, and does not change
// v, if there is none. Only an application's own members can be read, see router.Meta.
func (d Delivery) Meta(name string, v any) (bool, error) {
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil || !bytes.Contains(d.frame, quoted) {
		return false, err
	}
	var p envelope.Peeker
	if _, err := p.PeekAll(d.frame); err != nil {
		return false, err
	}
	return p.DecodeMember(name, v)
}

// publishMeta returns the meta of a message that is published: own, with what the hooks add to it.
func (r *Router) publishMeta(ctx context.Context, own Meta) Meta {
	hooks := r.hooks.Load().publishes
	if len(hooks) == 0 {
		return own
	}
	all := make(Meta)
	callAll(hooks, func(hook func(context.Context) Meta) {
		defer r.containPanic("PublishMeta", nil, "")
		maps.Copy(all, hook(ctx))
	})
	if len(all) == 0 {
		return own
	}
	maps.Copy(all, own)
	if _, err := all.encode(); err != nil { // no room, or a hook's fault: the message goes out without it
		return own
	}
	return all
}

// watchDelivery begins to watch how the broker's message is delivered. The result is nil unless hooks want to
// know.
func (in *subscription) watchDelivery(m pubsub.Message) *Delivery {
	if len(in.router.hooks.Load().deliveries) == 0 || m.Frame == nil {
		return nil
	}
	d := &Delivery{Topic: in.topic.name, Began: time.Now(), frame: m.Frame}
	if isReservedTopic(d.Topic) {
		d.Topic = ""
	}
	return d
}

// delivered calls the hooks for a message that was queued for members. No lock is held.
func (in *subscription) delivered(d *Delivery, members int64) {
	if d == nil || members == 0 {
		return
	}
	d.Members = int(members)
	callAll(in.router.hooks.Load().deliveries, func(hook func(Delivery)) {
		defer in.router.containPanic("OnDelivered", nil, "")
		hook(*d)
	})
}
