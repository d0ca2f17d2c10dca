package router

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
)

// A router with Options.Addressing and a broker has a list of the other processes of its fleet: each says
// several times in AddressingOptions.ProcessTimeout, on a topic of all, that it is there. So a
// query that all have to answer (see query) finds out about a process that did not get it:
//
//   - one that has lost its subscription, or was killed, is known, and does not answer;
//   - one that has just begun is counted as a receiver by the broker, and answers;
//   - one that is stopped is both.
//
// A process is forgotten when it says that it ends, or when nothing was heard of it for its
// ProcessTimeout, while this process heard itself: time in which the broker is away does not count.

// topicFleet is the topic of all processes.
const topicFleet = reservedTopics + "fleet"

// processTopic is the topic of one process.
func processTopic(process string) string { return reservedTopics + "process:" + process }

// processLength is the length of the name of a process, with which the ids of its connections begin.
const processLength = 16

func newProcess() string { return rand.Text()[:processLength] }

func isProcess(name string) bool {
	return len(name) == processLength && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// processOf is the process of a connection, or not ok if the id has none.
func processOf(id string) (process string, ok bool) {
	process, _, ok = strings.Cut(id, "-")
	return process, ok && isProcess(process)
}

// fleet is a router's list of the processes that share its broker.
type fleet struct {
	r        *Router
	broker   pubsub.ReceiverCounter
	process  string        // this one
	timeout  time.Duration // AddressingOptions.ProcessTimeout
	begin    sync.Once
	ready    chan struct{} // closed when this process is subscribed and known to the others
	ended    chan struct{} // closed when run has returned
	answers  chan struct{} // holds a token for each answer under way
	toTarget envelope.Peeker

	mu      sync.Mutex
	peers   map[string]known
	heard   time.Time     // when this process heard itself last
	since   time.Time     // from when on it did so without a gap
	settled chan struct{} // closed when it has heard itself for long enough to know the others
	queries map[uint64]*query
	last    uint64 // the name of the last query
}

// known is another process that was heard.
type known struct {
	at      time.Time
	timeout time.Duration
}

const (
	// maxPeers bounds how many processes are known.
	maxPeers = 10_000
	// maxPeerTimeout bounds for how long a process is known that is not heard any more.
	maxPeerTimeout = 10 * time.Minute
	// maxAnswers bounds how many answers are under way.
	maxAnswers = 64
	// fleetPause is the time after which subscribing is tried again.
	fleetPause = 200 * time.Millisecond
	// leaveTimeout is how long the end of a process is being sent.
	leaveTimeout = time.Second
)

func newFleet(r *Router) *fleet {
	f := &fleet{
		r: r, process: newProcess(), timeout: r.opts.Addressing.ProcessTimeout,
		ready: make(chan struct{}), ended: make(chan struct{}), answers: make(chan struct{}, maxAnswers),
		peers: make(map[string]known), settled: make(chan struct{}), queries: make(map[uint64]*query),
	}
	f.broker, _ = r.opts.Broker.(pubsub.ReceiverCounter)
	return f
}

// interval is the time between two messages that say that this process is there.
func (f *fleet) interval() time.Duration { return f.timeout / 4 }

// settleTime is for how long a process has to receive its own messages until its list of the others is complete: more than an
// interval, in which each of them is heard.
func (f *fleet) settleTime() time.Duration { return f.interval() * 3 / 2 }

// awaitReady returns when this process is subscribed and known to the others.
func (f *fleet) awaitReady(ctx context.Context) error {
	f.begin.Do(func() { go f.run() })
	select {
	case <-f.ready:
		return nil
	case <-f.ended:
		return errShutDown
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errShutDown = errors.New("the router has been shut down")

// run subscribes and says that this process is there, until the router has been shut down.
func (f *fleet) run() {
	defer close(f.ended)
	ctx := f.r.ctx
	var subs []pubsub.Subscription
	defer func() {
		for _, s := range subs {
			_ = s.Close()
		}
	}()
	for _, t := range []struct {
		topic   string
		deliver func(pubsub.Message)
	}{{processTopic(f.process), f.deliverToProcess}, {topicFleet, f.deliverToFleet}} {
		for {
			s, err := f.broker.Subscribe(ctx, t.topic, t.deliver)
			if err == nil {
				subs = append(subs, s)
				break
			}
			if !f.sleep(fleetPause) {
				return
			}
		}
	}
	isReady := false
	for {
		err := f.publish(ctx, topicFleet, fleetMessage{Kind: kindAlive, Timeout: f.timeout.Milliseconds()})
		f.forget()
		pause := f.interval()
		switch {
		case err != nil:
			pause = min(pause, fleetPause)
		case !isReady:
			isReady = true
			close(f.ready)
		}
		if !f.sleep(pause) {
			leaving, cancel := context.WithTimeout(context.Background(), leaveTimeout)
			_ = f.publish(leaving, topicFleet, fleetMessage{Kind: kindLeft})
			cancel()
			return
		}
	}
}

// sleep reports false when the router has been shut down.
func (f *fleet) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.r.ctx.Done():
		return false
	}
}

// leave is called when the router has been shut down. It waits until the others know.
func (f *fleet) leave(ctx context.Context) {
	f.begin.Do(func() { close(f.ended) })
	select {
	case <-f.ended:
	case <-ctx.Done():
	}
}

func (f *fleet) publish(ctx context.Context, topic string, m fleetMessage) error {
	_, err := f.publishCounted(ctx, topic, m)
	return err
}

func (f *fleet) publishCounted(ctx context.Context, topic string, m fleetMessage) (receivers int, err error) {
	m.From = f.process
	frame, err := m.encode()
	if err != nil {
		return 0, err
	}
	return f.broker.PublishCounted(ctx, pubsub.Message{Topic: topic, Frame: frame})
}

// hear notes a process that has sent a message.
func (f *fleet) hear(process string, timeout time.Duration) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if process != f.process {
		if _, ok := f.peers[process]; ok || len(f.peers) < maxPeers {
			f.peers[process] = known{now, min(timeout, maxPeerTimeout)}
		}
		return
	}
	if f.since.IsZero() || !f.hearsItself(now) {
		f.unsettle(now)
	}
	f.heard = now
	if !f.isSettled() && now.Sub(f.since) >= f.settleTime() {
		close(f.settled)
	}
}

// lose takes note that messages of the topic of all may have been lost.
func (f *fleet) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.since.IsZero() {
		f.unsettle(time.Now())
	}
}

// unsettle has the time begin again in which this process receives its own messages. f.mu is held, as in what
// follows.
func (f *fleet) unsettle(now time.Time) {
	if f.isSettled() {
		f.settled = make(chan struct{})
	}
	f.since = now
}

func (f *fleet) isSettled() bool {
	select {
	case <-f.settled:
		return true
	default:
		return false
	}
}

// hearsItself reports whether what this process sends to all came back to it until now.
func (f *fleet) hearsItself(now time.Time) bool { return now.Sub(f.heard) <= 2*f.interval() }

// isKnown reports whether a process counts as being there.
func (f *fleet) isKnown(process string) bool {
	p, ok := f.peers[process]
	if !ok {
		return false
	}
	if p.at.Before(f.since) {
		p.at = f.since
	}
	now := time.Now()
	return now.Sub(p.at) <= p.timeout || !f.hearsItself(now)
}

// forget removes processes that have sent nothing for too long.
func (f *fleet) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for process := range f.peers {
		if !f.isKnown(process) {
			delete(f.peers, process)
		}
	}
}

// remove is for a process that has said that it ends: it has no connections.
func (f *fleet) remove(process string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.peers, process)
	for _, q := range f.queries {
		q.answered(process, &fleetMessage{})
	}
}

// awaitSettled returns when the list of the others is complete.
func (f *fleet) awaitSettled(ctx context.Context) (since time.Time, err error) {
	if err := f.awaitReady(ctx); err != nil {
		return since, err
	}
	for {
		f.mu.Lock()
		settled, now := f.settled, time.Now()
		if f.isSettled() && f.hearsItself(now) {
			since = f.since
			f.mu.Unlock()
			return since, nil
		}
		if f.isSettled() { // it does not receive its own messages any more
			f.unsettle(now)
			settled = f.settled
		}
		f.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return since, ctx.Err()
		case <-f.ended:
			return since, errShutDown
		}
	}
}
