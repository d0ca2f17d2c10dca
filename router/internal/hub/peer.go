package hub

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/inspection"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/wire"
)

// Which connections are members of which topics is kept under three locks: Peer.mu guards a connection's list of
// members, topic.mu a topic's members and its subscription with the broker, table.mu the table of topics. The first two
// are never held together.
//
// A member is put on its connection's list before it joins its topic, so that the end of the connection finds it.
// Whatever takes it off the list (Unsubscribe, the end of the connection, or the call that failed to join) has it leave
// the topic.

// Peer is what a hub has of a connection. The exported fields but Traced are set before the first use, by Init.
type Peer struct {
	ID      string
	Out     *wire.Outbox
	Host    Host
	Deflate bool        // it gets compressed frames
	ended   bool        // guarded by mu
	Traced  atomic.Bool // Host.Trace is called for what is sent

	hub   *Hub
	batch atomic.Pointer[batch] // nil for those that have not published

	mu      sync.Mutex
	members []*Member
}

// Host is the rest of a connection. Its methods do not wait; locks of the hub may be held.
type Host interface {
	// Ticket makes what a client resumes a topic with.
	Ticket(topic string, joined []byte, grace time.Duration, until time.Time) string
	// Trace records the payload of a frame that is sent.
	Trace(payload []byte)
	// Batching reports whether what is queued is flushed by the goroutine that handles the connection's messages.
	Batching() bool
	// MayReplay is nil as long as messages may be replayed to the client.
	MayReplay() error
}

// Init begins the use of a peer of the hub.
func (p *Peer) Init(h *Hub, id string, out *wire.Outbox, host Host) {
	p.hub, p.ID, p.Out, p.Host = h, id, out, host
}

// Terms are those of a membership.
type Terms struct {
	Until time.Time // when it ends by itself; zero: it does not
	// Revoked reports whether the right was revoked after it was decided that the connection may be a member. It is
	// called when Revoke would find the membership, and before it begins. nil: it was not.
	Revoked func() bool
}

// ErrRevoked is the error of a membership that does not begin because of Terms.Revoked.
var ErrRevoked = errors.PermissionDenied.New("the right to this topic was revoked meanwhile")

// Subscribe makes the connection a member of a topic, of which it gets what is published from now on. It waits for the
// broker for as long as ctx, the connection and the membership last. name is a CheckTopic's or a reserved one.
// Terms.Until, if that is not zero, holds also for a membership that there is.
func (p *Peer) Subscribe(ctx context.Context, name string, terms Terms) error {
	m, err := p.place(ctx, name, terms)
	if m == nil {
		if err == nil && !terms.Until.IsZero() {
			p.Member(name).limit(terms.Until)
		}
		return err
	}
	if err = m.join(ctx); err == nil {
		p.settle(m)
		if m.topic.history != nil {
			p.flushUnlessBatched()
		}
		return nil
	}
	p.takeOff(m)
	if err == ErrClosed {
		return ErrClosed
	}
	return errors.Unavailable.Wrap(err, "subscribing failed")
}

// place puts a new member on the connection's list: from then on the limit counts it,
// whatever the broker does. It returns nil, and no error, where the connection is a
// member already. While another call joins the same topic, it waits for its result.
func (p *Peer) place(ctx context.Context, name string, terms Terms) (*Member, error) {
	for {
		m, settled, err := p.tryPlace(name, terms.Until)
		if settled == nil && err == nil && terms.Revoked != nil && terms.Revoked() {
			if m != nil {
				p.takeOff(m)
			}
			return nil, ErrRevoked
		}
		if settled == nil {
			return m, err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, errors.Unavailable.Wrap(ctx.Err(), "subscribing failed")
		}
	}
}

// tryPlace is place, but returns what is to be waited for.
func (p *Peer) tryPlace(name string, until time.Time) (_ *Member, settled <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, nil, ErrClosed
	}
	if m := p.find(name); m != nil {
		if m.joined {
			return nil, nil, nil
		}
		if m.settled == nil {
			m.settled = make(chan struct{})
		}
		return nil, m.settled, nil
	}
	limit := p.hub.MaxTopics
	if len(p.members) >= limit && !IsReserved(name) && len(p.topics()) >= limit {
		return nil, nil, errors.ResourceExhausted.Errorf("a connection may subscribe to at most %d topics", limit).WithDetails(
			map[string]any{"kind": "topics", "limit": limit})
	}
	m := &Member{peer: p, topic: p.hub.table.acquire(name), index: joining}
	m.ends = m.endAt(until)
	p.members = append(p.members, m)
	return m, nil, nil
}

// find returns the connection's place in a topic, or nil. p.mu is held.
func (p *Peer) find(name string) *Member {
	if i := slices.IndexFunc(p.members, func(m *Member) bool { return m.topic.name == name }); i >= 0 {
		return p.members[i]
	}
	return nil
}

// settle is for a member that has joined.
func (p *Peer) settle(m *Member) {
	p.mu.Lock()
	m.joined = true
	m.settle()
	p.mu.Unlock()
	m.topic.report(p.hub)
}

// takeOff takes a member off the connection's list, and has it leave. It does nothing if something else has.
func (p *Peer) takeOff(m *Member) {
	p.mu.Lock()
	i := slices.Index(p.members, m)
	if i >= 0 {
		p.members = slices.Delete(p.members, i, i+1)
		m.settle()
	}
	p.mu.Unlock()
	if i >= 0 {
		m.leave(false)
	}
}

// Unsubscribe ends the connection's membership in a topic of the application, and reports whether there was one. A call
// of Subscribe that still waits for it fails with ErrClosed. The client gets $ws:unsubscribed for a topic with history,
// since it would resume it, and for others if tell is set.
func (p *Peer) Unsubscribe(name string, tell bool) bool {
	if IsReserved(name) {
		return false
	}
	m := p.Member(name)
	if m == nil {
		return false
	}
	if tell || m.topic.history != nil {
		m.dismiss("") // before another membership can begin, whose $ws:subscribed must come after it
	}
	p.takeOff(m)
	return true
}

// Revoke ends the memberships in topics of the application that are covered, also those that are about to begin, tells
// the client, and reports whether there were any. From then on nothing of them is queued.
func (p *Peer) Revoke(covered func(topic string) bool) (revoked bool) {
	for _, name := range p.Topics() {
		if m := p.Member(name); m != nil && covered(name) {
			m.dismiss(reasonRevoked)
			p.takeOff(m)
			p.hub.Counts.Revoked.Add(1)
			revoked = true
		}
	}
	return revoked
}

// Member is the connection's place in a topic, nil if it has none. It may still be about to join.
func (p *Peer) Member(name string) *Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(name)
}

// Has reports whether the connection is a member of a topic, and not only about to join.
func (p *Peer) Has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.find(name)
	return m != nil && m.joined
}

// Topics lists the topics of the application of which the connection is a member, or waits to become one, in no
// particular order.
func (p *Peer) Topics() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics()
}

// Memberships are the topics with what is known of each.
func (p *Peer) Memberships() []inspection.Membership {
	p.mu.Lock()
	members := slices.DeleteFunc(slices.Clone(p.members), func(m *Member) bool { return IsReserved(m.topic.name) })
	p.mu.Unlock()
	list := make([]inspection.Membership, len(members))
	for i, m := range members {
		list[i] = inspection.Membership{Name: m.topic.name, Until: m.Until()}
	}
	return list
}

// topics is Topics with p.mu held.
func (p *Peer) topics() []string {
	names := make([]string, 0, len(p.members))
	for _, m := range p.members {
		if !IsReserved(m.topic.name) {
			names = append(names, m.topic.name)
		}
	}
	return names
}

// Close has no membership begin any more. End ends those that there are.
func (p *Peer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// End ends all memberships, and returns the topics of the application that the connection had joined. From then on none
// can begin. lost says that the client may come back.
func (p *Peer) End(lost bool) (joined []string) {
	p.mu.Lock()
	members := p.members
	p.members, p.ended = nil, true
	for _, m := range members {
		if m.joined && !IsReserved(m.topic.name) {
			joined = append(joined, m.topic.name)
		}
		m.settle()
	}
	p.mu.Unlock()
	for _, m := range members {
		m.leave(lost)
	}
	return joined
}

// Send sends a message that other connections get as well. It is not sent to a connection that is being closed.
func (p *Peer) Send(s *frame.Shared, m pubsub.Message) {
	if p.Traced.Load() {
		p.Host.Trace(s.Payload)
	}
	if _, err := p.Out.AppendShared(s.Frame(p.Deflate), overflowOf(m), m.Key); err == nil {
		p.Out.Flush()
	}
}

// Queue queues a frame that answers none of the client's, without flushing it.
func (p *Peer) Queue(b *frame.Buffer) error { return p.put(b.Bytes(), (*wire.Outbox).Append) }

// Answer queues a frame that answers one of the client's, without flushing it.
func (p *Peer) Answer(b []byte) error { return p.put(b, (*wire.Outbox).Answer) }

func (p *Peer) put(b []byte, put func(*wire.Outbox, []byte) error) error {
	if p.Traced.Load() {
		p.Host.Trace(b[wire.HeaderRoom:])
	}
	if p.Deflate && len(b)-wire.HeaderRoom >= wire.DeflateThreshold {
		d := frame.New()
		defer d.Free()
		if err := wire.Deflate(&d.Buffer, b[wire.HeaderRoom:]); err != nil {
			return err
		}
		b = wire.PutHeader(d.Bytes(), true)
		return closedError(put(p.Out, b))
	}
	return closedError(put(p.Out, wire.PutHeader(b, false)))
}

// ErrClosed is the error of sending on a connection, and of subscribing it, after it has been closed, or while it is
// being closed because its client reads too slowly.
var ErrClosed = errors.Unavailable.New("connection closed")

func closedError(err error) error {
	if err != nil {
		return ErrClosed
	}
	return nil
}

// flushUnlessBatched sends what is queued, unless it leaves at the end of a batch. What is queued before the turn is
// looked at is flushed by the goroutine that ends the batch.
func (p *Peer) flushUnlessBatched() {
	if !p.Host.Batching() {
		p.Out.Flush()
	}
}
