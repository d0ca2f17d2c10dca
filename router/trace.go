package router

import (
	"bytes"
	"context"
	"maps"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
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

// beginDelivery returns what is called with the number of members for which a message of the broker was queued; nil
// unless hooks ask for it. No lock is held then.
func (r *Router) beginDelivery(topic string, m pubsub.Message) (delivered func(members int64)) {
	hooks := r.hooks.Load().deliveries
	if len(hooks) == 0 {
		return nil
	}
	d := Delivery{Topic: topic, Began: time.Now(), frame: m.Frame}
	if hub.IsReserved(topic) {
		d.Topic = ""
	}
	return func(members int64) {
		d.Members = int(members)
		callAll(hooks, func(hook func(Delivery)) {
			defer r.containPanic("OnDelivered", nil, "")
			hook(d)
		})
	}
}
