package router

import (
	"context"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/life"
)

// LocalSubscribers returns how many connections of this process are subscribed to a topic. [Router.Presence] lists the
// members in all processes.
func (r *Router) LocalSubscribers(topic string) int { return r.hub.Members(topic) }

// Topics lists the topics the connection is a member of, or waits to become one, in no
// particular order.
func (c *Conn) Topics() []string { return c.peer.Topics() }

// IsSubscribed reports whether the connection is a member of a topic: for handlers of what only members may do. After
// another goroutine has called Unsubscribe it is false at once.
func (c *Conn) IsSubscribed(topic string) bool { return !hub.IsReserved(topic) && c.peer.Has(topic) }

// SubscribeOptions configure a membership in a topic.
type SubscribeOptions struct {
	// Until is when the membership ends by itself, for a right that ends at a time: as by Unsubscribe, and the client
	// gets $ws:unsubscribed. A client that resumes the topic on a new connection has it until then, too, and not later.
	// Subscribing again with another Until changes it.
	//
	// Default: the membership does not end by itself.
	Until time.Time
}

// untilOf returns SubscribeOptions.Until.
func untilOf(opts []SubscribeOptions) (time.Time, error) {
	o, err := given.Options("router", "the call", opts)
	if err == nil && !o.Until.IsZero() && !time.Now().Before(o.Until) {
		err = errors.PermissionDenied.New("the right to this topic has ended; set an Until that is to come")
	}
	return o.Until, err
}

// Subscribe makes the connection a member of a topic. See [Context.Subscribe].
// ctx is for the call alone; the membership lasts.
func (c *Conn) Subscribe(ctx context.Context, topic string, opts ...SubscribeOptions) error {
	if err := hub.CheckTopic(topic); err != nil {
		return err
	}
	until, err := untilOf(opts)
	if err != nil {
		return err
	}
	if err := c.router.ticketsReady(ctx, topic); err != nil {
		return err
	}
	return c.peer.Subscribe(ctx, topic, c.terms(ctx, topic, until))
}

// Unsubscribe ends the connection's membership in a topic; a call of Subscribe or Join
// that still waits for it fails with [ErrClosed]. Without a membership it does nothing.
func (c *Conn) Unsubscribe(topic string) { c.peer.Unsubscribe(topic, false) }

// Subscribe makes the connection a member of a topic: it gets what is published there from now on, until it
// unsubscribes or ends, or until SubscribeOptions.Until. A topic is any name of 1 to 256 bytes in UTF-8 that does not
// begin with "$ws:"; it begins with its first member and ends with its last. Subscribing again does nothing, except
// that another Until takes the place of the one before.
//
// The first member of a topic in this process waits for the broker, and so do those
// that subscribe until the broker has answered: until the context is cancelled, the connection ends or
// unsubscribes.
//
// The error is INVALID_ARGUMENT for the name, PERMISSION_DENIED for an Until that has passed, RESOURCE_EXHAUSTED over
// Limits.MaxTopics, and UNAVAILABLE when the broker fails, the context is cancelled, or
// the connection has ended or unsubscribed before that ([ErrClosed]).
func (c *Context) Subscribe(topic string, opts ...SubscribeOptions) error {
	return c.Conn().Subscribe(c, topic, opts...)
}

// Unsubscribe ends the connection's membership in a topic. See [Conn.Unsubscribe].
func (c *Context) Unsubscribe(topic string) { c.Conn().Unsubscribe(topic) }

// newHub makes the hub of a router, whose options are final.
func (r *Router) newHub() *hub.Hub {
	h := &hub.Hub{Config: hub.Config{
		Broker: r.opts.Backend.Broker, MaxTopics: r.opts.Limits.MaxTopics, MaxQueued: r.opts.Limits.MaxQueued,
		EndsCheck: r.opts.HistoryCheck, TicketRenew: r.tickets.maxAge / 4, SendGaps: r.opts.SendGaps, Logger: r.opts.Logger,
		HistoryOf: r.historyOf, Turns: &r.fair, NotPresent: r.notPresent, WasReset: r.wasReset, OnDelivery: r.beginDelivery,
		Panicked: r.panickedOutside,
	}}
	if r.opts.OnLost != nil {
		h.OnLost = r.callOnLost
	}
	h.Init()
	return h
}

// ticketsReady returns when a subscriber of the topic can be given a ticket, if it needs one.
func (r *Router) ticketsReady(ctx context.Context, topic string) error {
	if r.tickets.keys.Load() != nil || r.historyOf(topic) == nil {
		return nil
	}
	return r.tickets.ready(ctx)
}

func (r *Router) notPresent(p *hub.Peer, topic string, grace time.Duration) {
	if grace > 0 {
		r.away.Keep(topic, connectionOf(p).Identity().User, p.ID, grace)
		return
	}
	r.opts.Backend.Presence.Leave(topic, p.ID)
}

func (r *Router) wasReset(reason pubsub.Loss) { r.stats.resets.Add(string(reason)) }

func (r *Router) callOnTopic(topic string) {
	callAll(r.hooks.Load().topics, func(hook func(string)) {
		defer r.containPanic("OnTopic", nil, "")
		hook(topic)
	})
}

func (r *Router) callOnLost(topics []string) {
	defer r.containPanic("OnLost", nil, "")
	r.opts.OnLost(topics)
}

// host is what the hub has of a connection.
type host Conn

func (h *host) Ticket(topic string, joined []byte, grace time.Duration, until time.Time) string {
	c := (*Conn)(h)
	return c.router.tickets.issue(c, ticket{topic, joined, grace, until, c.router.rights.Mark()})
}

func (h *host) Trace(payload []byte) { (*Conn)(h).trace(true, payload) }

func (h *host) Batching() bool { return h.turn.Batching() }

func (h *host) MayReplay() error {
	if h.life.State() != life.Open {
		return h.router.drainError()
	}
	return nil
}

// connectionOf is the connection of a peer.
func connectionOf(p *hub.Peer) *Conn { return (*Conn)(p.Host.(*host)) }
