// Package cluster is what a router knows of the other processes that share its broker, and how it asks all of them.
//
// Each process says several times in its ProcessTimeout, on a topic of all, that it is there. So a query that all
// have to answer finds out about a process that did not get it: one that lost its subscription, or was killed, is
// known, and does not answer; one that has just begun is counted as a receiver by the broker, and answers. A process
// is forgotten when it says that it ends, or when nothing was heard of it for its ProcessTimeout while this one heard
// itself: time in which the broker is away does not count. Needed are the broker and functions that count, list,
// close and send to connections of this process. Promised: no result is without a process that is known. Methods may
// be called from any goroutine; no lock is held while the broker or such a function is called.
package cluster

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// Target says which connections are meant.
type Target struct {
	Topic  string // that they are members of, or
	ID     string // of the connection
	Except string // the id of one that is left out
}

// Config is what a Cluster needs. C describes a connection, and has a form in JSON.
type Config[C any] struct {
	Broker         pubsub.ReceiverCounter
	Timeout        time.Duration   // of a query
	ProcessTimeout time.Duration   // for how long the others know this process when they hear nothing of it
	Stop           context.Context // over when the process ends
	Topics         string          // how the names of its topics begin, and those of targets

	// For the connections of this process. List is not ok where there are too many. Subscribe returns how many are
	// members of all topics, and the code of an error where others are not. Deliver gets an event of another process,
	// one after the other, and fails if it is none.
	Count       func(Target) int
	List        func(Target) (list []C, ok bool)
	Close       func(Target, errors.CloseCode, string) int
	Subscribe   func(t Target, topics []string) (n int, failed errors.Code)
	Unsubscribe func(t Target, topics []string) int
	// Ask asks connections until ctx ends, and returns how many; it is not ok where there are too many, and none is asked.
	// The outcome of each is given to reply. When all have one, done is called.
	Ask func(ctx context.Context, t Target, q Question, reply func(Reply), done func()) (n int, ok bool)
	// Revoke returns when the revocation at a position of the log has been carried out.
	Revoke  func(ctx context.Context, at pubsub.Position) error
	Deliver func(id string, m pubsub.Message) error
	// Back is called before IsWaitedFor is true again: the others may have asked without this process.
	Back func()
	// Refuse is called with what is wrong with a message that is dropped.
	Refuse func(topic string, err error)
}

func (c *Cluster[C]) topicOfAll() string { return c.config.Topics + "fleet" }

// topicOf is the topic of one process.
func (c *Cluster[C]) topicOf(process string) string { return c.config.Topics + "process:" + process }

// processLength is the length of the name of a process, with which the ids of its connections begin.
const processLength = 16

func isProcess(name string) bool {
	return len(name) == processLength && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// processOf is the process of a connection, or not ok if the id has none.
func processOf(id string) (process string, ok bool) {
	process, _, ok = strings.Cut(id, "-")
	return process, ok && isProcess(process)
}

// NewID makes the id of a connection. It begins with the process, for others to find it.
func (c *Cluster[C]) NewID() string { return c.id + "-" + rand.Text() }

// Elsewhere reports whether connections of other processes may be meant.
func (c *Cluster[C]) Elsewhere(t Target) bool {
	process, ok := processOf(t.ID)
	return t.ID == "" || ok && process != c.id
}

// Cluster is a list of the processes that share a broker.
type Cluster[C any] struct {
	config  Config[C]
	id      string // of this process
	begin   sync.Once
	ready   chan struct{} // closed when this process is subscribed and known to the others
	ended   chan struct{} // closed when run has returned
	answers chan struct{} // holds a token for each answer under way

	mu      sync.Mutex
	peers   map[string]known
	heard   time.Time     // when this process heard itself last
	since   time.Time     // from when on it did so without a gap
	settled chan struct{} // closed when it has heard itself for long enough to know the others
	queries map[uint64]*query[C]
	last    uint64                         // the name of the last query, or question
	asks    map[uint64]func(Reply)         // questions of this process
	foreign map[foreign]context.CancelFunc // questions of others that connections of this process are asked

	start     time.Time
	confirmed atomic.Int64  // when the message was sent that this process has last heard of itself, in ms after start
	echoed    chan struct{} // closed when confirmed changes; guarded by mu
}

// known is another process that was heard.
type known struct {
	at      time.Time
	timeout time.Duration
}

const (
	// maxPeers bounds how many processes are known.
	maxPeers = 10_000
	// maxProcessTimeout bounds for how long a process is known that is not heard any more.
	maxProcessTimeout = 10 * time.Minute
	// maxAnswers bounds how many answers are under way.
	maxAnswers = 64
	// pauseAfterFailure is the time after which subscribing is tried again.
	pauseAfterFailure = 200 * time.Millisecond
	// leaveTimeout is how long the end of a process is being sent.
	leaveTimeout = time.Second
)

// New makes a Cluster. It does nothing until it is used.
func New[C any](config Config[C]) *Cluster[C] {
	return &Cluster[C]{
		config: config, id: rand.Text()[:processLength],
		ready: make(chan struct{}), ended: make(chan struct{}), answers: make(chan struct{}, maxAnswers),
		peers: make(map[string]known), settled: make(chan struct{}), queries: make(map[uint64]*query[C]),
		asks: make(map[uint64]func(Reply)), foreign: make(map[foreign]context.CancelFunc),
		start: time.Now(), echoed: make(chan struct{}),
	}
}

// interval is the time between two messages that say that this process is there. A process that has just started waits
// for more than one until it knows the others.
func (c *Cluster[C]) interval() time.Duration { return c.config.ProcessTimeout / 10 }

// settleTime is for how long a process has to receive its own messages until its list of the others is complete: more
// than an interval, in which each of them is heard.
func (c *Cluster[C]) settleTime() time.Duration { return c.interval() * 3 / 2 }

// AwaitReady returns when this process is subscribed and known to the others.
func (c *Cluster[C]) AwaitReady(ctx context.Context) error {
	c.begin.Do(func() { go c.run() })
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		return errShutDown
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errShutDown = errors.New("the router has been shut down")

// run subscribes and says that this process is there, until the router has been shut down.
func (c *Cluster[C]) run() {
	defer close(c.ended)
	ctx := c.config.Stop
	var subs []pubsub.Subscription
	defer func() {
		for _, s := range subs {
			_ = s.Close()
		}
	}()
	for _, t := range []struct {
		topic   string
		deliver func(pubsub.Message)
	}{{c.topicOf(c.id), c.deliverToProcess}, {c.topicOfAll(), c.deliverToAll}} {
		for {
			s, err := c.config.Broker.Subscribe(ctx, t.topic, t.deliver)
			if err == nil {
				subs = append(subs, s)
				break
			}
			if !c.sleep(pauseAfterFailure) {
				return
			}
		}
	}
	isReady := false
	for {
		err := c.sayAlive(ctx)
		c.forget()
		pause := c.interval()
		switch {
		case err != nil:
			pause = min(pause, pauseAfterFailure)
		case !isReady:
			isReady = true
			close(c.ready)
		}
		if !c.sleep(pause) {
			leaving, cancel := context.WithTimeout(context.Background(), leaveTimeout)
			_ = c.publish(leaving, c.topicOfAll(), message[C]{Kind: kindLeft})
			cancel()
			return
		}
	}
}

func (c *Cluster[C]) sayAlive(ctx context.Context) error {
	alive := message[C]{Kind: kindAlive, Timeout: c.config.ProcessTimeout.Milliseconds(), N: c.sinceStart()}
	return c.publish(ctx, c.topicOfAll(), alive)
}

func (c *Cluster[C]) sinceStart() int { return int(time.Since(c.start).Milliseconds()) }

// IsWaitedFor reports whether a query of another process is not complete without an answer of this one. The others
// forget a process of which no message comes. So it is derived from when this process has sent the last message that
// has come back, with a margin for clocks that go faster.
func (c *Cluster[C]) IsWaitedFor() bool {
	age := time.Since(c.start) - time.Duration(c.confirmed.Load())*time.Millisecond
	return age < c.config.ProcessTimeout*9/10
}

// Renew returns when IsWaitedFor is true.
func (c *Cluster[C]) Renew(ctx context.Context) error {
	if err := c.AwaitReady(ctx); err != nil {
		return err
	}
	since := int64(c.sinceStart())
	for c.confirmed.Load() < since {
		c.mu.Lock()
		echoed := c.echoed
		c.mu.Unlock()
		if err := c.sayAlive(ctx); err != nil {
			return err
		}
		select {
		case <-echoed:
		case <-time.After(pauseAfterFailure): // it was lost on the way
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// confirm is for a message by which this process has said that it is there, and which has come back.
func (c *Cluster[C]) confirm(sent int) {
	if int64(sent) <= c.confirmed.Load() {
		return
	}
	if !c.IsWaitedFor() {
		c.config.Back()
	}
	c.confirmed.Store(int64(sent))
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.echoed)
	c.echoed = make(chan struct{})
}

// sleep reports false when the router has been shut down.
func (c *Cluster[C]) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.config.Stop.Done():
		return false
	}
}

// Leave is called when the router has been shut down. It waits until the others know.
func (c *Cluster[C]) Leave(ctx context.Context) {
	c.begin.Do(func() { close(c.ended) })
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}

func (c *Cluster[C]) publish(ctx context.Context, topic string, m message[C]) error {
	_, err := c.publishCounted(ctx, topic, m)
	return err
}

func (c *Cluster[C]) publishCounted(ctx context.Context, topic string, m message[C]) (receivers int, err error) {
	m.From = c.id
	frame, err := m.encode()
	if err != nil {
		return 0, err
	}
	return c.config.Broker.PublishCounted(ctx, pubsub.Message{Topic: topic, Frame: frame})
}

// hear is for a process that has sent a message.
func (c *Cluster[C]) hear(process string, timeout time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if process != c.id {
		if _, ok := c.peers[process]; ok || len(c.peers) < maxPeers {
			c.peers[process] = known{now, min(timeout, maxProcessTimeout)}
		}
		return
	}
	if c.since.IsZero() || !c.hearsItself(now) {
		c.unsettle(now)
	}
	c.heard = now
	if !c.isSettled() && now.Sub(c.since) >= c.settleTime() {
		close(c.settled)
	}
}

// lose is called when messages of the topic of all may have been lost.
func (c *Cluster[C]) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		c.unsettle(time.Now())
	}
}

// unsettle has the time begin again in which this process receives its own messages. c.mu is held, as in what
// follows.
func (c *Cluster[C]) unsettle(now time.Time) {
	if c.isSettled() {
		c.settled = make(chan struct{})
	}
	c.since = now
}

func (c *Cluster[C]) isSettled() bool {
	select {
	case <-c.settled:
		return true
	default:
		return false
	}
}

// hearsItself reports whether what this process sends to all came back to it until now.
func (c *Cluster[C]) hearsItself(now time.Time) bool { return now.Sub(c.heard) <= 2*c.interval() }

// isKnown reports whether a process counts as being there.
func (c *Cluster[C]) isKnown(process string) bool {
	p, ok := c.peers[process]
	if !ok {
		return false
	}
	if p.at.Before(c.since) {
		p.at = c.since
	}
	now := time.Now()
	return now.Sub(p.at) <= p.timeout || !c.hearsItself(now)
}

// forget removes processes that have sent nothing for too long.
func (c *Cluster[C]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for process := range c.peers {
		if !c.isKnown(process) {
			delete(c.peers, process)
		}
	}
}

// remove is for a process that has said that it ends: it has no connections.
func (c *Cluster[C]) remove(process string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.peers, process)
	for _, q := range c.queries {
		q.answered(process, &message[C]{})
	}
}

// awaitSettled returns when the list of the others is complete.
func (c *Cluster[C]) awaitSettled(ctx context.Context) (since time.Time, err error) {
	if err := c.AwaitReady(ctx); err != nil {
		return since, err
	}
	for {
		c.mu.Lock()
		settled, now := c.settled, time.Now()
		if c.isSettled() && c.hearsItself(now) {
			since = c.since
			c.mu.Unlock()
			return since, nil
		}
		if c.isSettled() { // it does not receive its own messages any more
			c.unsettle(now)
			settled = c.settled
		}
		c.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return since, ctx.Err()
		case <-c.ended:
			return since, errShutDown
		}
	}
}
