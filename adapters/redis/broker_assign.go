package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// How a topic gets to Redis: enqueue puts it into unassigned; assign, a goroutine,
// finds its node and gives it to the node's link; the link sends the command; what
// Redis answers comes back through confirmed, refuse or linkEnded.

// refusedFor is how long a topic waits that Redis has refused, or whose node could
// not be found.
const refusedFor = 200 * time.Millisecond

// enqueue has a topic assigned to a link. b.mu is held.
func (b *broker) enqueue(t *topic) {
	t.state, t.link = queued, nil
	b.unassigned = append(b.unassigned, t)
	signal(b.wake)
}

// signal leaves a token, if there is none yet.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (b *broker) assign() {
	retry := time.NewTicker(refusedFor)
	defer retry.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wake:
			for _, t := range b.takeUnassigned() {
				b.assignOne(t)
			}
		case <-retry.C:
			b.retryRefused()
		}
	}
}

func (b *broker) takeUnassigned() []*topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	topics := b.unassigned
	b.unassigned = nil
	return topics
}

func (b *broker) retryRefused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.refused) > 0 {
		b.unassigned = append(b.unassigned, b.refused...)
		b.refused = nil
		signal(b.wake)
	}
}

func (b *broker) assignOne(t *topic) {
	ctx, cancel := context.WithTimeout(b.ctx, b.opts.Timeout)
	defer cancel()
	n, err := b.nodes.find(ctx, t.channel)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ctx.Err() != nil:
	case len(t.subs) == 0:
		b.forget(t)
	case err != nil:
		t.notify(err)
		b.refused = append(b.refused, t)
	default:
		l := b.links[n.name()]
		if l == nil {
			l = newLink(b, n, t.name, backoff(b.failures[n.name()]))
			b.links[n.name()] = l
			b.wg.Go(l.run)
		}
		t.state, t.link = joining, l
		l.todo = append(l.todo, t)
		signal(l.wake)
	}
}

// backoff is how long to wait before the next attempt after so many failures.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	const most = time.Second
	d := min(most, 50*time.Millisecond<<min(failures-1, 10))
	return d/2 + rand.N(d/2)
}

// unneeded is for a topic that has lost its last subscription. b.mu is held.
func (b *broker) unneeded(t *topic) {
	b.markFound(t)
	switch t.state {
	case idle:
		b.forget(t)
	case joined:
		t.state = leaving
		t.link.todo = append(t.link.todo, t)
		signal(t.link.wake)
	}
	// In all other states something is under way, and what comes of it looks.
}

func (b *broker) forget(t *topic) {
	b.markFound(t)
	t.state, t.link = idle, nil
	delete(b.topics, t.channel)
}

// confirmed is called for Redis's answer to a command of the link's, or for a slot
// that has left the node.
func (b *broker) confirmed(l *link, channel string, subscribed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[channel]
	if t == nil || t.link != l {
		return
	}
	switch {
	case subscribed && t.state == joining:
		t.state = joined
		if t.lost {
			for _, s := range t.subs {
				if s.confirmed == nil { // it is not a new one
					s.reportLoss()
				}
			}
		}
		b.markFound(t)
		t.notify(nil)
		if len(t.subs) == 0 {
			b.unneeded(t)
		}
	case !subscribed && t.state == leaving:
		if len(t.subs) == 0 {
			b.forget(t)
			return
		}
		b.enqueue(t)
	case !subscribed && t.state == joined:
		b.nodes.changed()
		b.stats.lost.Add(1)
		b.markLost(t)
		b.enqueue(t)
		b.subscription.Failed(errMoved, "topics", 1)
	}
}

// refuse is called for topics whose command Redis has answered with an error.
func (b *broker) refuse(l *link, topics []*topic, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes.changed()
	for _, t := range topics {
		if t.link != l || t.state == joined {
			continue
		}
		if !transient(err) {
			t.notify(withRemedy(err))
		}
		t.state, t.link = queued, nil
		b.refused = append(b.refused, t)
	}
}

// transient reports whether an error of Redis is to be waited out.
func transient(err error) bool {
	for _, prefix := range []string{"MOVED ", "ASK ", "CLUSTERDOWN ", "TRYAGAIN ", "LOADING ", "MASTERDOWN ", "READONLY "} {
		if goredis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// linkEnded is called when a link has ended. Its topics need another.
func (b *broker) linkEnded(l *link, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.links, l.node.name())
	if b.ctx.Err() != nil {
		return
	}
	b.nodes.changed()
	b.failures[l.node.name()]++
	err = withRemedy(err)
	b.failed = err
	_, answer := errors.AsType[goredis.Error](err)
	refused := answer && !transient(err)
	lost := 0
	for _, t := range b.topics {
		if t.link != l {
			continue
		}
		if t.state == joined {
			b.markLost(t)
			lost++
		} else if refused { // waiting would not help
			t.notify(err)
		}
		if len(t.subs) == 0 {
			b.forget(t)
			continue
		}
		b.enqueue(t)
	}
	if lost > 0 {
		b.stats.lost.Add(1)
	}
	if lost > 0 || refused {
		b.subscription.Failed(err, "topics", lost)
	}
}

// withRemedy says what to do about an error of Redis that only its administrator can mend.
func withRemedy(err error) error {
	if goredis.HasErrorPrefix(err, "NOPERM ") {
		return fmt.Errorf("%w; the package comment of adapters/redis has the rights that a user of Redis needs", err)
	}
	return err
}

// proven is called when a message has come back through a link.
func (b *broker) proven(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failures, l.node.name())
	b.failed = nil
	if b.lostTopics == 0 {
		b.subscription.Works()
	}
}

// markLost and markFound keep account of the topics that have to be subscribed to again.

func (b *broker) markLost(t *topic) {
	if !t.lost {
		t.lost = true
		b.lostTopics++
	}
}

func (b *broker) markFound(t *topic) {
	if !t.lost {
		return
	}
	t.lost = false
	if b.lostTopics--; b.lostTopics == 0 {
		b.subscription.Works()
	}
}
