package router

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/cluster"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/life"
)

// Target is a set of connections: those of a user, one, or all. [Router.User],
// [Router.Connection] and [Router.AllConnections] make it. It is a name, not a list: each call of a
// method is for the connections that are open then, in all processes that share the Backend. With a shared one it
// needs [AddressingOptions]. Its methods may be called from any goroutine.
//
// A connection can be addressed from before Options.OnOpen is called until it is closed. So if
// OnOpen checks whether a user is banned, and the ban is stored before Close is called, then no
// connection of the user stays open.
//
// # Other processes
//
// Send costs a message for each process in which the user has connections, and one for a connection by its id. The
// other methods cost, for a user or for all connections, a message and an answer for each process, and for a connection
// by its id one of each. They wait until every process has answered. If one does not, in AddressingOptions.Timeout or
// before the end of the context, the error is UNAVAILABLE: every running process is included, or the call fails. It
// fails while the broker fails, while a process is stopped, and for Backend.ProcessTimeout after one was killed. Only a
// process that has been cut off from the broker for longer than that, and goes on serving its clients, is left out like
// one that was killed. After the start of a process, and after an outage of the broker, the calls wait for a seventh of
// ProcessTimeout, until the others are known.
//
// A connection counts until its server knows that it has ended: one that its client has left without a close frame
// until the server reads the end, or gets no answer to a ping (see [Liveness]).
type Target struct {
	r    *Router
	name cluster.Target
}

// User returns a Target for all connections of a user, named as in ingress.Identity. If user is empty, the methods of
// the Target fail with INVALID_ARGUMENT.
func (r *Router) User(tenant, user string) Target {
	t := Target{r: r}
	if user != "" {
		t.name.Topic = userTopic(tenant, user)
	}
	return t
}

// Connection returns a Target for the connection with an id, see [Conn.ID], in whatever process it is. If there is
// none, nothing is sent, and the count is 0.
func (r *Router) Connection(id string) Target { return Target{r, cluster.Target{ID: id}} }

// AllConnections returns a Target for every open connection of every process.
func (r *Router) AllConnections() Target { return Target{r, cluster.Target{Topic: topicAll}} }

// Except is the target without one connection: to close all sessions of a user but this one,
//
//	n, err := r.User(c.Identity.Tenant, c.Identity.User).Except(c.Conn().ID()).Close(c, 4001, "signed out")
func (t Target) Except(id string) Target {
	t.name.Except = id
	return t
}

// ConnInfo describes an open connection.
type ConnInfo struct {
	ID     string     `json:"id"`              // as Conn.ID
	Tenant string     `json:"tenant,omitzero"` // of its identity
	User   string     `json:"user,omitzero"`   // empty: not authenticated
	IP     netip.Addr `json:"ip,omitzero"`     // as Conn.IP
	// OpenedAt is when it was opened, by the clock of its process.
	OpenedAt time.Time `json:"openedAt"`
}

// Send sends an event to the connections, as [Router.Publish] does to the subscribers of a topic:
// to each that was open before the call, and perhaps to one that is opened during it. Without a
// connection nothing is sent, and there is no error. What is sent to one target, one after the
// other, arrives in that order. payload is encoded as in [Conn.Send]. At most one
// PublishOptions may be given, without an ID. Its Except is as that of the target; both may not name two connections.
//
// The error is UNAVAILABLE if the broker fails, or if the process of a connection is not reached.
// As with Publish, a process whose subscription is lost, until it is made again, misses what is sent: the
// broker reports that (redis.BrokerOptions.OnOutage).
func (t Target) Send(ctx context.Context, typ string, payload any, opts ...PublishOptions) error {
	if err := t.check(); err != nil {
		return err
	}
	o, err := given.Options("router", "the call", opts)
	if err == nil {
		err = checkAppend(false, o)
	}
	if err != nil {
		return err
	}
	topic := t.name.Topic
	if t.name.ID != "" {
		topic = topicConnection
	}
	m, err := t.r.encode(ctx, topic, typ, payload, o)
	if err != nil {
		return err
	}
	if m.Except != "" && t.name.Except != "" && m.Except != t.name.Except {
		return errors.Internal.Errorf("router: the target and PublishOptions.Except leave out two connections; name one of them")
	}
	m.Except = cmp.Or(m.Except, t.name.Except)
	switch id := t.name.ID; {
	case id == "":
		return t.r.hub.Publish(lasting(ctx), m, hub.PublishOptions{LocalOnly: o.LocalOnly})
	case t.isElsewhere() && !o.LocalOnly && id != m.Except:
		return t.r.cluster.Send(lasting(ctx), id, m)
	default:
		t.r.sendToConnection(id, m)
		return nil
	}
}

// topicConnection stands for the topic of what is sent to one connection.
const topicConnection = hub.ReservedTopics + "connection"

// Count returns how many connections are open. See [Target] for when it fails.
func (t Target) Count(ctx context.Context) (int, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	n := t.r.countLocal(t.name)
	if !t.isElsewhere() {
		return n, nil
	}
	others, err := t.r.cluster.Count(lasting(ctx), t.name)
	if err != nil {
		return 0, err
	}
	return n + others, nil
}

// List describes the connections, in no particular order. More than 10,000 are not listed: the error
// is RESOURCE_EXHAUSTED. See [Target] for when it fails besides.
func (t Target) List(ctx context.Context) ([]ConnInfo, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	list, ok := t.r.listLocal(t.name)
	if ok && t.isElsewhere() {
		others, all, err := t.r.cluster.List(lasting(ctx), t.name)
		if err != nil {
			return nil, err
		}
		list, ok = append(list, others...), all
	}
	if !ok || len(list) > cluster.MaxList {
		return nil, errTooManyListed
	}
	return list, nil
}

var errTooManyListed = errors.ResourceExhausted.Errorf("more than %d connections are not listed", cluster.MaxList)

// Close closes the connections as [Conn.Close] does, and returns how many it has closed. When it
// returns nil, each connection that was open before the call is closed: messages that its
// process reads after that are not handled. Messages that were read before are handled as usual,
// but cannot be answered. After an error, those of this process are closed, and those of others are
// closed or not, or will be: closing again is harmless.
//
// A handler may close its own connection with others, and OnClose those of the same user: only the deadline of ctx
// counts then, not that it is cancelled with its connection.
//
// It panics if the code may not be sent, see errors.CloseCode.Valid.
func (t Target) Close(ctx context.Context, code errors.CloseCode, reason string) (closed int, err error) {
	mustBeValid(code)
	if err := t.check(); err != nil {
		return 0, err
	}
	ctx, cancel := detached(ctx) // which may be of a connection that is closed here
	defer cancel()
	closed = t.r.closeLocal(t.name, code, reason)
	if !t.isElsewhere() {
		return closed, nil
	}
	others, err := t.r.cluster.Close(ctx, t.name, code, truncated(reason, maxCloseReason))
	return closed + others, err
}

// Subscribe makes the connections members of topics, as [Conn.Subscribe] does, and returns how many of them are members
// of all: without an error each that was open before the call. Of those for which it fails, RESOURCE_EXHAUSTED if
// Limits.MaxTopics is reached, some are members of some topics; calling again does no harm. At most 1,000 topics.
func (t Target) Subscribe(ctx context.Context, topics ...string) (subscribed int, err error) {
	ctx, cancel, err := t.checkTopics(ctx, topics)
	defer cancel()
	if err != nil {
		return 0, err
	}
	subscribed, failed := t.r.subscribeLocal(t.name, topics)
	if t.isElsewhere() {
		others, failedThere, err := t.r.cluster.Subscribe(ctx, t.name, topics)
		subscribed, failed = subscribed+others, cmp.Or(failed, failedThere)
		if err != nil {
			return subscribed, err
		}
	}
	if failed != "" {
		return subscribed, failed.New("not all connections could be subscribed; give them fewer topics, or try again")
	}
	return subscribed, nil
}

// Unsubscribe ends the memberships of the connections in topics, with their presence, and returns how many had any. The
// clients get $ws:unsubscribed for each, behind which messages may come that were on their way, and do not resume them.
// When it returns nil, no connection that was open before the call is a member, unless it has been subscribed again
// since: by a handler, or by a client that resumes with a ticket of before. [ResumeOptions].Allow refuses the latter.
// At most 1,000 topics.
func (t Target) Unsubscribe(ctx context.Context, topics ...string) (unsubscribed int, err error) {
	ctx, cancel, err := t.checkTopics(ctx, topics)
	defer cancel()
	if err != nil {
		return 0, err
	}
	unsubscribed = t.r.unsubscribeLocal(t.name, topics)
	if !t.isElsewhere() {
		return unsubscribed, nil
	}
	others, err := t.r.cluster.Unsubscribe(ctx, t.name, topics)
	return unsubscribed + others, err
}

// checkTopics checks the target and topics, and takes the end of a connection from the context.
func (t Target) checkTopics(ctx context.Context, topics []string) (context.Context, context.CancelFunc, error) {
	err := t.check()
	for _, topic := range topics {
		err = cmp.Or(err, hub.CheckTopic(topic))
	}
	if n := len(topics); err == nil && (n == 0 || n > cluster.MaxTopics) {
		err = errors.InvalidArgument.Errorf("%d topics at once; give 1 to %d", n, cluster.MaxTopics)
	}
	ctx, cancel := detached(ctx)
	return ctx, cancel, err
}

// isElsewhere reports whether connections of other processes may be meant.
func (t Target) isElsewhere() bool { return t.r.cluster != nil && t.r.cluster.Elsewhere(t.name) }

func (t Target) check() error {
	switch {
	case t.r == nil:
		return errors.Internal.New("router: the Target is empty; make it with Router.User, Router.Connection or Router.AllConnections")
	case !t.r.opts.Addressing.Enabled && !t.r.opts.isAlone():
		return errors.Internal.New("router: addressing is off, and other processes share the backend; set Options.Addressing.Enabled")
	case t.name.Topic == "" && t.name.ID == "":
		return errors.InvalidArgument.New("the user or the connection has no name")
	}
	t.r.addressAll()
	return nil
}

// eachLocal calls f with each connection of this process, with a topic locked.
func (r *Router) eachLocal(t cluster.Target, f func(*Conn)) {
	each := func(c *Conn) {
		if c != nil && c.peer.ID != t.Except && c.life.State() < life.Closing {
			f(c)
		}
	}
	if t.ID != "" {
		each(r.directory.find(t.ID))
		return
	}
	r.hub.Each(t.Topic, func(p *hub.Peer) { each(connectionOf(p)) })
}

func (r *Router) countLocal(t cluster.Target) (n int) {
	r.eachLocal(t, func(*Conn) { n++ })
	return n
}

// listLocal is not ok where there are too many.
func (r *Router) listLocal(t cluster.Target) (list []ConnInfo, ok bool) {
	if r.countLocal(t) > cluster.MaxList {
		return nil, false
	}
	r.eachLocal(t, func(c *Conn) {
		identity := c.Identity()
		list = append(list, ConnInfo{
			ID: c.peer.ID, Tenant: identity.Tenant, User: identity.User, IP: c.ip, OpenedAt: r.epoch.Add(c.opened).Round(0),
		})
	})
	return list, true
}

func (r *Router) closeLocal(t cluster.Target, code errors.CloseCode, reason string) int {
	conns := r.local(t)
	for _, c := range conns {
		c.Close(code, reason)
	}
	return len(conns)
}

// local lists the connections of this process.
func (r *Router) local(t cluster.Target) (conns []*Conn) {
	r.eachLocal(t, func(c *Conn) { conns = append(conns, c) })
	return conns
}

// subscribeLocal makes connections of this process members of topics.
func (r *Router) subscribeLocal(t cluster.Target, topics []string) (n int, failed errors.Code) {
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Addressing.Timeout)
	defer cancel()
	for _, c := range r.local(t) {
		var err error
		for _, topic := range topics {
			err = cmp.Or(err, c.Subscribe(ctx, topic))
		}
		switch {
		case err == nil:
			n++
		case !c.ended():
			failed = cmp.Or(failed, errors.CodeOf(err))
		}
	}
	return n, failed
}

// unsubscribeLocal ends memberships of connections of this process, and returns how many had one.
func (r *Router) unsubscribeLocal(t cluster.Target, topics []string) (n int) {
	for _, c := range r.local(t) {
		had := false
		for _, topic := range topics {
			had = c.peer.Unsubscribe(topic, true) || had
		}
		if had {
			n++
		}
	}
	return n
}

// sendToConnection sends to a connection of this process.
func (r *Router) sendToConnection(id string, m pubsub.Message) {
	if c := r.directory.find(id); c != nil && id != m.Except {
		message := frame.Share(m.Frame)
		c.peer.Send(&message, m)
	}
}
