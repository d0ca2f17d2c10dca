package redis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// Presence is a [pubsub.Presence] on Redis: the members of a topic, in all processes that
// share a Redis and a prefix.
//
// The members of a process that was killed are gone from Members, and reported as left, within
// PresenceOptions.ProcessTimeout, and at once when it closes its Presence. A process that cannot reach Redis for
// half of that counts as gone for the others, until it can. Its own list always has its own members.
//
// # Changes
//
// Whatever changes the members of a topic publishes the change in the same step, so a watcher (see
// [pubsub.PresenceWatcher]) has the changes in the order of Redis. Changes are numbered: a watcher that
// misses one, and one whose subscription was lost, reads the list again at once, and reports the
// members that have joined. A member that has disappeared from the list is reported as left if it
// is still missing a quarter of ProcessTimeout later. So members that Redis has lost, in a restart without its data
// or under a clock that was set forward, are not reported: their process writes them again within a
// sixth of ProcessTimeout. Every sixth each watcher looks for processes that are gone, and whether it
// has missed the last change; the first that finds a process gone removes it. So members of a
// process that was killed are reported as left after 11/12 of ProcessTimeout at the latest: 1/2 until Redis forgets
// them, 1/6 until that is seen, and 1/4.
//
// # In Redis
//
// Each topic has a set of the processes with members in it, and for each of these a
// hash of its members, which expires after half of ProcessTimeout. Each process renews its hashes
// every sixth of ProcessTimeout, by one command for each of its topics, and writes anew what
// has been lost or has come out different, so that a Redis that starts empty is
// filled again by then. No command looks at more than one topic.
type Presence interface {
	pubsub.PresenceWatcher
	pubsub.SharedPresence

	// Stats returns the figures.
	Stats() PresenceStats
	// Close takes all members of this process out of their topics. It waits for Redis
	// for as long as PresenceOptions.Timeout; what could not be written runs out.
	// Closing twice is harmless. The error is always nil.
	Close() error
}

type presence struct {
	client     goredis.UniversalClient
	where      topology
	reads      *lanes[reading]
	opts       PresenceOptions
	self       string // names this process
	publishing string // the command that publishes
	ctx        context.Context
	cancel     context.CancelFunc
	wake       chan struct{} // holds a token while there is something to write
	done       chan struct{} // closed when all has been written for the last time
	stats      presenceCounters

	outage outage.Reporter // of writing

	mu      sync.Mutex
	closed  bool
	rooms   map[string]*room
	watches map[*watch]struct{}
	events  *broker // carries changes; made by the first watch
}

type presenceCounters struct{ failed, repaired, ignored atomic.Int64 }

// NewPresence returns a Presence on a client of any kind, which stays the caller's:
// it is to be closed after the Presence. For calls to end when their context does,
// the client needs ContextTimeoutEnabled. NewPresence panics when an option is
// invalid.
func NewPresence(client goredis.UniversalClient, options ...PresenceOptions) Presence {
	opts := given.Must("redis", "NewPresence", options)
	opts, err := opts.withDefaults()
	if err != nil {
		panic(err.Error())
	}
	p := &presence{
		client: client, where: topologyOf("NewPresence", client), opts: opts, self: rand.Text(), rooms: make(map[string]*room),
		watches: make(map[*watch]struct{}),
		wake:    make(chan struct{}, 1), done: make(chan struct{}),
		outage: outage.Reporter{
			Component: "presence", Name: opts.Prefix, Log: opts.Logger, Hook: opts.OnOutage,
			Failing: "wskit: redis: presence cannot be written; trying again",
			Working: "wskit: redis: presence is written again",
		},
	}
	p.reads = newLanes(batch.Options{OnCaller: p.where.keepsDeadlines(), ReuseContext: true}, p.readTrip)
	p.publishing = "publish"
	if _, ok := client.(*goredis.ClusterClient); ok {
		p.publishing = "spublish"
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.keep()
	return p
}

// Join implements [pubsub.Presence]. It fails for a member that Member.Check
// refuses, for a topic's name that is too long, when Redis does not answer within
// PresenceOptions.Timeout, and with [pubsub.ErrClosed].
func (p *presence) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	written := make(chan error, 1)
	if !p.put(topic, &m, written) {
		return pubsub.ErrClosed
	}
	timeout := time.NewTimer(p.opts.Timeout)
	defer timeout.Stop()
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = fmt.Errorf("no answer in %v", p.opts.Timeout)
	case <-p.ctx.Done():
	}
	if p.ctx.Err() != nil {
		return pubsub.ErrClosed
	}
	if err != nil {
		p.remove(topic, m.ID, &m)
		return fmt.Errorf("redis: joining: %w", err)
	}
	return nil
}

// Leave implements [pubsub.Presence]. It is written to Redis as soon as possible; if it is not
// within half of ProcessTimeout, the member has expired by then.
func (p *presence) Leave(topic, id string) { p.remove(topic, id, nil) }

// processes is the key of the set of a topic's processes.
func (p *presence) processes(topic string) string { return key(p.opts.Prefix, "processes", topic) }

// members is the key of the hash of a process's members in a topic.
func (p *presence) members(topic, process string) string {
	return key(p.opts.Prefix, "members", topic) + ":" + process
}

// version is the key of the hash of a topic's epoch and the number of its last change.
func (p *presence) version(topic string) string { return key(p.opts.Prefix, "version", topic) }

// channel is where the changes of a topic are published.
func (p *presence) channel(topic string) string { return key(p.opts.Prefix, presenceKind, topic) }

const presenceKind = "presence"

// A member is kept as its user, after its length as a uvarint, and its data.

func encodeMember(m *pubsub.Member) []byte {
	b := make([]byte, 0, binary.MaxVarintLen32+len(m.User)+len(m.Data))
	b = append(binary.AppendUvarint(b, uint64(len(m.User))), m.User...)
	return append(b, m.Data...)
}

func decodeMember(id, value string) (m pubsub.Member, ok bool) {
	user, data, ok := cutLabel(value)
	m = pubsub.Member{ID: id, User: user, Data: []byte(data)}
	return m, ok && m.Check() == nil
}

// Shared implements [pubsub.SharedPresence]: it is true.
func (p *presence) Shared() bool { return true }

func (p *presence) Stats() PresenceStats {
	s := PresenceStats{Failed: p.stats.failed.Load(), Repaired: p.stats.repaired.Load(), Ignored: p.stats.ignored.Load()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rooms {
		if len(r.members) > 0 {
			s.Topics++
			s.Members += len(r.members)
		}
	}
	return s
}

func (p *presence) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, r := range p.rooms {
		for id := range r.members {
			delete(r.members, id)
			r.changed[id] = struct{}{}
		}
	}
	events := p.events
	for w := range p.watches {
		w.closed.Store(true)
	}
	clear(p.watches)
	p.mu.Unlock()
	p.cancel()
	<-p.done
	if events != nil {
		return events.Close()
	}
	return nil
}
