// Package hub has the topics of a process: their members, what is published to them, and the logs of those that have a
// history.
//
// Needed is what Config has, a Host of each connection, and for more than one process a broker. Promised: a member gets
// what is published after it has joined, in the order of the broker; of a topic with history it gets each message once
// and in the order of the log, or is told that some are missing; a member that reads slowly holds up no other one; the
// subscription of a topic lasts exactly as long as it has members or some wait to become one.
//
// Locks, and which are held together, are in router/locks.go. None is held while a broker or a client is waited for.
// All exported methods may be called from any goroutine.
package hub

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/internal/inspection"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// Config is what a hub needs. It does not change once there are connections.
type Config struct {
	Broker      pubsub.Broker // nil: the members are those of this process
	MaxTopics   int           // of a connection, without reserved ones
	MaxQueued   int           // bytes of frames that are queued for a connection
	EndsCheck   time.Duration // about how often the ends of logs are compared with what was delivered
	TicketRenew time.Duration // how old members' tickets become
	SendGaps    bool          // tell members of topics without history that messages may be lost
	Logger      *slog.Logger
	HistoryOf   func(topic string) *History                                          // nil: it has none
	Turns       Turns                                                                // of replays
	NotPresent  func(p *Peer, topic string, grace time.Duration)                     // a member that was shown (Member.Show) has left
	WasReset    func(reason pubsub.Loss)                                             // members could not be given all
	OnLost      func(topics []string)                                                // messages of topics without history may be lost; nil: nobody asks
	OnDelivery  func(topic string, m pubsub.Message) (delivered func(members int64)) // nil, and a nil result: nobody asks
	Touch       Touch                                                                // of the process; nil: there are no others
	// OnTopic is called when a topic of the application has got its first member here, or has lost its last one. Members
	// has the truth: calls may come late, and out of order. No lock is held. nil: it is not called.
	OnTopic func(topic string)
	// Panicked reports a panic of the broker, and returns it as an error. v is nil for runtime.Goexit.
	Panicked func(where string, v any) error
}

// Turns shares the processor between replays and the rest. Both methods wait.
type Turns interface {
	Await() // for a first turn
	Again() // for another one
}

// Touch says whether all revocations of other processes have been carried out here. Until then nothing that others
// publish is delivered: messages of topics without history are lost, and logs are read later.
type Touch interface {
	Holds() bool
	Lost()                           // the broker may have lost messages
	Await(ctx context.Context) error // returns when Holds is true
}

func (h *Hub) awaitTouch(ctx context.Context) error {
	if h.Touch == nil {
		return nil
	}
	return h.Touch.Await(ctx)
}

// Hub has the topics of a process.
type Hub struct {
	Config
	Counts Counts

	table table
	gaps  gaps
	ends  ends
	pages atomic.Int64 // bytes that clients that resume share
	logs  outage.Reporter
}

// Counts are the figures of a hub.
type Counts struct {
	Delivered    atomic.Int64 // messages that were queued for members
	Dropped      atomic.Int64 // messages of the broker that no hub has published
	Lost         atomic.Int64 // losses that the broker has reported
	Recovered    atomic.Int64 // messages that were read from a log
	ReadFailures atomic.Int64
	Revoked      atomic.Int64 // memberships that Peer.Revoke has ended
	Behind       atomic.Int64 // messages of logs that were not delivered when the ends were looked at last
}

// Init prepares a hub that has its Config.
func (h *Hub) Init() {
	h.table.m = make(map[string]*topic)
	h.table.historyOf = h.HistoryOf
	h.logs = outage.Reporter{
		Component: "history", Failing: "wskit: the logs of topics cannot be read",
		Working: "wskit: the logs of topics can be read again", Log: h.Logger,
	}
}

// Each calls f with each member of a topic, which is locked: f does not wait, and does not call the hub.
func (h *Hub) Each(topic string, f func(*Peer)) {
	t := h.table.find(topic)
	if t == nil {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, m := range t.members {
		f(m.peer)
	}
}

// Members is how many connections of this process are members of a topic.
func (h *Hub) Members(topic string) int {
	t := h.table.find(topic)
	if t == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.members)
}

// Topics is how many topics are held, reserved ones too.
func (h *Hub) Topics() int {
	h.table.mu.RLock()
	defer h.table.mu.RUnlock()
	return len(h.table.m)
}

// List returns the first topics of the application in the order of their names, most at most, and how many there are.
func (h *Hub) List(match func(name string) bool, most int) (list []inspection.Topic, n int) {
	var found []*topic
	h.table.mu.RLock()
	for name, t := range h.table.m {
		if !IsReserved(name) && match(name) {
			found = append(found, t)
		}
	}
	h.table.mu.RUnlock()
	slices.SortFunc(found, func(a, b *topic) int { return cmp.Compare(a.name, b.name) })
	for _, t := range found[:min(most, len(found))] {
		list = append(list, t.inspect())
	}
	return list, len(found)
}

func (t *topic) inspect() inspection.Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i := inspection.Topic{Name: t.name, Members: len(t.members)}
	if in := t.subscription; in != nil && in.log != nil {
		i.Position = in.log.at.String()
	}
	return i
}
