package router

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/cluster"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/rights"
)

// Right is what [Router.Revoke] takes away.
type Right struct {
	Tenant string // as in ingress.Identity
	User   string // likewise; not empty
	Topics string // a topic, or the beginning of names followed by "*", such as "room:*"
}

// Revoke takes a right away, in all processes that share the Backend: it ends the memberships of the user in the
// topics, with their presence, and sends $ws:unsubscribed for each. When it has returned nil, nothing of these topics
// reaches the user: nothing that was queued, no page of a resume under way, and no resume with a ticket of before. What
// the kernel has taken is sent. What handlers answer is not of a topic.
//
// The right is given back when the application subscribes the user again. What it had decided before does not do that:
// a handler whose message came before the revocation, and an OnOpen that was called before, get PERMISSION_DENIED from
// Subscribe. So let them ask what the application stores, and store the change before Revoke is called.
//
// A client that does not take within 2 s what is queued for it is disconnected for that, with 4008, and comes back
// without the topics.
//
// The error is INVALID_ARGUMENT for a right that makes no sense, and UNAVAILABLE if the backend fails or a process does
// not answer in AddressingOptions.Timeout, or before the end of ctx; it says how many. Then the revocation is kept,
// unless it could not be stored: a process that was cut off or stopped carries it out before it delivers what others
// publish, and before it resumes anything, when it is back. Revoke may be called again. It needs [AddressingOptions],
// as a [Target] does, and a Backend.Broker that is a [pubsub.Log]. Of more than 10,000 revocations in twice
// ResumeOptions.MaxAge, the oldest are forgotten, and tickets of before them refused.
func (r *Router) Revoke(ctx context.Context, right Right) error {
	prefix, wild := strings.CutSuffix(right.Topics, "*")
	if prefix != "" || !wild {
		if err := hub.CheckTopic(prefix); err != nil {
			return err
		}
	}
	t := r.User(right.Tenant, right.User)
	if err := t.check(); err != nil {
		return err
	}
	if r.rights.Log == nil {
		return errors.Internal.Errorf("router: rights cannot be revoked, since Backend.Broker is %T and not a pubsub.Log; set it to redis.NewBroker, or leave it out for one process", r.opts.Backend.Broker)
	}
	ctx, cancel := detached(ctx) // which may be of a connection that is concerned
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, r.opts.Addressing.Timeout)
	defer stop()
	at, err := r.rights.Revoke(ctx, rights.Right{User: t.name.Topic, Topics: right.Topics})
	if err == nil && r.cluster != nil {
		err = r.cluster.Revoke(ctx, cluster.Target{Topic: t.name.Topic}, at)
	}
	return err
}

// initRights prepares the revocations of a router. Without a broker they are its own.
func (r *Router) initRights() {
	log, _ := r.opts.Backend.Broker.(pubsub.Log)
	if r.opts.Backend.Broker == nil {
		log = memory.NewBroker()
	}
	r.rights.Config = rights.Config{
		Log: log, Topic: hub.ReservedTopics + "rights", Keep: r.tickets.maxAge, Carry: r.carryRevocation, Logger: r.opts.Logger,
	}
}

// revokedTimeout is how long a client of which a right was revoked may take for what is queued.
const revokedTimeout = 2 * time.Second

// carryRevocation ends the memberships of a right, and returns what waits until all has left that is queued for the
// user: it is not known of which topic it is.
func (r *Router) carryRevocation(right rights.Right) (await func()) {
	var conns []*Conn
	r.hub.Each(right.User, func(p *hub.Peer) { conns = append(conns, connectionOf(p)) })
	var waiting []*Conn
	for _, c := range conns {
		c.peer.Revoke(right.Covers)
		if c.stream.Out.Flush(); c.stream.Out.Queued() > 0 {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return func() {
		var all sync.WaitGroup
		for _, c := range waiting {
			all.Go(func() { c.stream.Out.AwaitSent(revokedTimeout) })
		}
		all.Wait()
	}
}

// terms are those of a membership in a topic that the application has decided on: in a handler after its message came,
// and in OnOpen.
func (c *Conn) terms(ctx context.Context, topic string, until time.Time) hub.Terms {
	t := hub.Terms{Until: until}
	if k, ok := ctx.Value(selfKey{}).(*Context); ok {
		t.Revoked = c.revokedSince(topic, k.rights)
	} else if !c.life.Announced() {
		t.Revoked = c.revokedSince(topic, c.rights)
	}
	return t
}

// revokedSince is hub.Terms.Revoked for what was decided at a mark.
func (c *Conn) revokedSince(topic string, m *rights.Mark) func() bool {
	id := c.Identity()
	if id.User == "" {
		return nil
	}
	return func() bool {
		all := &c.router.rights
		return all.Any() && all.RevokedSince(userTopic(id.Tenant, id.User), topic, m)
	}
}
