// Package webhook has other services learn of what happens here, by signed HTTP requests: a topic has got subscribers or
// has lost them all, a user is present in it or has left, a connection is open or closed, and what the application sends.
//
//	hook, err := webhook.New(ctx, r, webhook.Options{
//		URL:     "https://shop.example/realtime",
//		Secrets: []string{os.Getenv("WEBHOOK_SECRET")},
//		Topics:  []string{"orders:*"},
//	})
//
// A request is signed as Standard Webhooks (standardwebhooks.com) are, so that libraries for many languages verify it.
// Its body has up to 100 events:
//
//	{"events": [{"id": "…", "seq": 1764335160000000, "type": "topic.occupied", "time": "…", "topic": "orders:7"}]}
//
// The types are topic.occupied and topic.vacated, member.joined and member.left, connection.opened and
// connection.closed, reset, and those of [Webhook.Send].
//
// # What is promised
//
// Of all processes that share the backend one sends. When it is killed, another one does, within
// Backend.ProcessTimeout. A request is repeated until it is answered 2xx: every event comes at least once, and in the
// order of the requests.
//
// All events but those of Send are states: something is true now, or is not any more. A state that has passed before it
// was sent is left out, so a service that was away gets what is true, and no past. The last event of a topic, a member or
// a connection says what is true, over all processes and however many of them were killed. Each event has a larger seq
// than those that were sent before it: a request of a process that was stopped in the middle of it, and goes on when
// another one sends already, can be told by that.
//
// The states of all processes are lists in the presence of the backend, about 640,000 with the default of MaxMembers
// (redis.PresenceOptions, postgres.Options). With more, some are not known.
//
// Events of Send wait in a log of the backend. One that is sent twice has the same id.
//
// reset says that what was sent before is not known, because the backend is new or has lost its data: all topics count as
// vacated, all members as left and all connections as closed. What is true follows.
package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/internal/shared"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// Event is what a service gets. Its body is an object with a list of them, events.
type Event struct {
	// ID is the same when the event is sent again.
	ID string `json:"id"`
	// Seq is larger than that of every event that was sent before. A process that takes over may send an event that was
	// sent before with another one.
	Seq int64 `json:"seq"`
	// Type is one of the package, or one of [Webhook.Send].
	Type string `json:"type"`
	// Time is when it was found out, and for [Webhook.Send] when that was called.
	Time time.Time `json:"time"`
	// Topic is the topic that it is about.
	Topic string `json:"topic,omitempty"`
	// Tenant and User are of a connection, and User of a member.
	Tenant string `json:"tenant,omitempty"`
	User   string `json:"user,omitempty"`
	// Connection is the id of a connection, and of a member without a user.
	Connection string `json:"connection,omitempty"`
	// Data is that of [Webhook.Send].
	Data json.RawMessage `json:"data,omitempty"`
}

// Webhook sends events to a service. Its methods may be called from any goroutine.
type Webhook struct {
	o      Options
	shared shared.Backend
	names  names
	self   string // names this process among those that share the backend
	post   poster

	local *local
	stats counters
	fails outage.Reporter
	done  sync.WaitGroup
}

// New begins to send events of a router, which has not served a connection yet, until ctx ends. Cancel it before the
// backend is closed: give it the context of [router.Router.Serve]. It fails if an option makes no sense, and if the
// backend of the router cannot share who sends.
func New(ctx context.Context, r *router.Router, o Options) (*Webhook, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b, err := shared.Of("webhook", r.Backend())
	if err != nil {
		return nil, err
	}
	post, err := newPoster(o)
	if err != nil {
		return nil, err
	}
	w := &Webhook{o: o, shared: b, names: namesOf(o.Name), self: rand.Text(), post: post}
	w.fails = outage.Reporter{
		Component: "webhook", Name: o.Name, Log: o.Logger, Hook: o.OnOutage, Attrs: []any{"name", o.Name},
		Failing: "webhook: events cannot be sent; trying again", Working: "webhook: events are sent again",
	}
	w.local = newLocal(w, r)
	w.done.Go(func() { w.local.run(ctx) })
	w.done.Go(func() { w.run(ctx) })
	return w, nil
}

// names are those of what the processes share.
type names struct{ sender, queue, cell, states, facts string }

func namesOf(name string) names {
	const reserved = "$ws:webhook:" // no topic of a client begins like this
	return names{
		sender: reserved + name + ":sender", queue: reserved + name + ":queue", cell: reserved + name + ":cell",
		states: reserved + name + ":states:", facts: reserved + name + ":facts:",
	}
}

// Wait returns when nothing is sent any more, after the context of New has ended.
func (w *Webhook) Wait() { w.done.Wait() }

// entry is an event of Send in the log.
type entry struct {
	Type  string          `json:"type"`
	Topic string          `json:"topic,omitempty"`
	Time  time.Time       `json:"time"`
	Data  json.RawMessage `json:"data,omitempty"`
}

const (
	// maxData bounds the data of an event, in bytes, so that a batch of them has less than 2 MiB.
	maxData = 16 << 10
	maxName = 100
	// maxTopic bounds the topic of an event, as a router does.
	maxTopic = 256
)

// Send sends an event of the application, with data as JSON, such as something that a client did. topic may be empty.
// When it returns nil, the event is in the log of the backend, and comes in the order of the calls. The error is
// INVALID_ARGUMENT for a type that the package has or that is empty, data of more than 16 KiB, or what JSON does not
// have; and UNAVAILABLE if the log fails: then the event may be sent or not.
func (w *Webhook) Send(ctx context.Context, typ, topic string, data any) error {
	if typ == "" || len(typ) > maxName || len(topic) > maxTopic || isState(typ) {
		return errors.InvalidArgument.Errorf("webhook: the event %.100q of the topic %.100q: use a type of 1 to %d bytes "+
			"that the package does not have, and a topic of at most %d", typ, topic, maxName, maxTopic)
	}
	e := entry{Type: typ, Topic: topic, Time: time.Now()}
	var err error
	if e.Data, err = json.Marshal(data); err != nil {
		return errors.InvalidArgument.Wrap(err, "webhook: the data are no JSON; use another type for them")
	}
	if len(e.Data) > maxData {
		return errors.InvalidArgument.Errorf("webhook: data of %d bytes; give at most %d", len(e.Data), maxData)
	}
	frame, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err = w.shared.Log.Append(ctx, pubsub.Message{Topic: w.names.queue, Frame: frame}, w.o.queue(), rand.Text()); err != nil {
		return errors.Unavailable.Wrap(err, "webhook: the event may not be sent")
	}
	return nil
}

// isState reports whether a type is one of the package.
func isState(typ string) bool {
	if typ == reset {
		return true
	}
	return slices.ContainsFunc(kinds, func(k kind) bool { return typ == k.typ(true) || typ == k.typ(false) })
}
