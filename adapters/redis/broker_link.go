package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/pubsub"
)

var (
	errMoved       = errors.New("the topic's slot has moved to another node")
	errReconnected = errors.New("the connection broke and was replaced")
	errNoEcho      = errors.New("a message that was published did not come back")
)

// link is one connection to a node, from its making to its first failure. The
// client would reconnect by itself without a notice; so a link that has failed is
// closed, and its topics get another.
//
// Three goroutines serve it: one sends commands, one reads, one proves that what
// is published comes back.
type link struct {
	b      *broker
	node   node
	probe  string // the channel of the messages to itself
	delay  time.Duration
	wake   chan struct{}          // holds a token while there is something to do
	up     chan struct{}          // closed when Redis has confirmed the probe's channel
	echo   chan string            // what has come back
	gone   chan error             // holds the first failure
	doubts chan struct{}          // holds a token when new connections lead elsewhere
	where  atomic.Pointer[string] // it leads to, when Sentinels name the server
	ctx    context.Context        // over when the link is
	stop   context.CancelFunc
	todo   []*topic // joining or leaving, and their command not sent; b.mu guards it

	mu      sync.Mutex // held while writing: commands are sent in the order of pending
	conn    *goredis.PubSub
	pending []*request // sent and not answered
}

// request is what an answer of Redis belongs to. Topics are answered one by one,
// unless the command fails.
type request struct {
	topics []*topic // none: the probe's, or a ping
	left   int
	ping   bool
}

// newLink makes a link that connects after a while. Its probe is in the slot of the
// topic, which is one of the node's.
func newLink(b *broker, n node, topic string, delay time.Duration) *link {
	l := &link{
		b: b, node: n, delay: delay, probe: key(b.opts.Prefix, "probe:"+rand.Text(), topic),
		wake: make(chan struct{}, 1), up: make(chan struct{}), echo: make(chan string, 1), gone: make(chan error, 1),
		doubts: make(chan struct{}, 1),
	}
	l.ctx, l.stop = context.WithCancel(context.WithValue(b.ctx, linkKey{}, l))
	return l
}

func (l *link) run() {
	err := l.serve()
	l.b.linkEnded(l, err)
}

func (l *link) serve() error {
	defer l.stop()
	select {
	case <-l.ctx.Done():
		return l.ctx.Err()
	case <-time.After(l.delay):
	}
	l.conn = l.node.open(l.ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.conn.Close()
	defer l.stop()
	if err := l.send(&request{left: 1}, func() error { return l.node.subscribe(l.ctx, l.conn, l.probe) }); err != nil {
		return err
	}
	serving.Go(l.read)
	serving.Go(l.prove)
	for {
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case err := <-l.gone:
			return err
		case <-l.wake:
			if err := l.settle(); err != nil {
				return err
			}
		}
	}
}

// fail ends the link.
func (l *link) fail(err error) {
	select {
	case l.gone <- err:
	default:
	}
}

func (l *link) send(c *request, write func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, c)
	return write()
}

// settle sends the commands for the topics that are to come and go.
func (l *link) settle() error {
	l.b.mu.Lock()
	todo := l.todo
	l.todo = nil
	var join, leave []*topic
	for _, t := range todo {
		if t.state == joining {
			join = append(join, t)
		} else {
			leave = append(leave, t)
		}
	}
	l.b.mu.Unlock()
	if err := l.sendAll(join, l.node.subscribe); err != nil {
		return err
	}
	return l.sendAll(leave, l.node.unsubscribe)
}

func (l *link) sendAll(topics []*topic, write func(context.Context, *goredis.PubSub, ...string) error) error {
	for len(topics) > 0 {
		n := min(len(topics), l.node.batch())
		c := &request{topics: topics[:n:n], left: n}
		topics = topics[n:]
		channels := make([]string, n)
		for i, t := range c.topics {
			channels[i] = t.channel
		}
		if err := l.send(c, func() error { return write(l.ctx, l.conn, channels...) }); err != nil {
			return err
		}
	}
	return nil
}

// read takes what comes. Silence is a failure: prove makes Redis speak.
func (l *link) read() {
	up := false
	for {
		got, err := l.conn.ReceiveTimeout(l.ctx, l.b.opts.HealthTimeout)
		if err != nil {
			if _, ok := errors.AsType[goredis.Error](err); !ok {
				l.fail(err)
				return
			}
			c := l.answered(nil)
			if c == nil || len(c.topics) == 0 {
				l.fail(err)
				return
			}
			l.b.refuse(l, c.topics, err)
			continue
		}
		switch got := got.(type) {
		case *goredis.Message:
			if got.Channel == l.probe {
				l.returned(got.Payload)
			} else {
				l.b.received(got.Channel, got.Payload)
			}
		case *goredis.Pong:
			l.answered(func(c *request) bool { return c.ping })
		case *goredis.Subscription:
			l.answered(func(c *request) bool { return c.about(got.Channel, l.probe) })
			subscribed := got.Kind == "subscribe" || got.Kind == "ssubscribe"
			switch {
			case got.Channel != l.probe:
				l.b.confirmed(l, got.Channel, subscribed)
			case subscribed && !up:
				up = true
				close(l.up)
			case subscribed: // again: the client has reconnected by itself
				l.fail(errReconnected)
				return
			default:
				l.fail(errMoved)
				return
			}
		}
	}
}

// answered records an answer to the oldest command, if it is one to it.
func (l *link) answered(matches func(*request) bool) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return nil
	}
	c := l.pending[0]
	if matches != nil && !matches(c) {
		return nil
	}
	if c.left--; c.left == 0 || matches == nil {
		l.pending = l.pending[1:]
	}
	return c
}

func (c *request) about(channel, probe string) bool {
	if len(c.topics) == 0 {
		return !c.ping && channel == probe
	}
	for _, t := range c.topics {
		if t.channel == channel {
			return true
		}
	}
	return false
}

func (l *link) returned(payload string) {
	select {
	case l.echo <- payload:
	default:
	}
}

// prove publishes to the link's own channel, the way messages are published, again
// and again. If that fails nothing is proven; if it works and the message does not
// come back, neither do others.
func (l *link) prove() {
	select {
	case <-l.ctx.Done():
		return
	case <-l.up:
	}
	every := l.b.opts.HealthTimeout / 4
	if l.b.sentinels {
		every = min(every, proveEvery)
	}
	interval := time.NewTicker(every)
	defer interval.Stop()
	for {
		if err := l.send(&request{left: 1, ping: true}, func() error { return l.conn.Ping(l.ctx) }); err != nil {
			l.fail(err)
			return
		}
		text := rand.Text()
		if l.b.send(l.ctx, l.probe, []byte(text)) == nil && !l.comesBack(text) {
			return
		}
		select {
		case <-l.ctx.Done():
			return
		case <-interval.C:
		case <-l.doubts:
			signal(l.doubts) // for comesBack
		}
	}
}

// comesBack waits for what was published.
func (l *link) comesBack(text string) bool {
	within := l.b.opts.HealthTimeout
	start := time.Now()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case got := <-l.echo:
			if got == text {
				l.b.proven(l)
				return true
			}
		case <-l.doubts:
			within = min(within, time.Since(start)+proveWithin)
			timeout.Reset(within - time.Since(start))
		case <-timeout.C:
			l.fail(fmt.Errorf("%w in %v", errNoEcho, within.Round(time.Millisecond)))
			return false
		case <-l.ctx.Done():
			return false
		}
	}
}

// received hands a message to the topic's subscriptions in this process.
func (b *broker) received(channel, payload string) {
	b.mu.RLock()
	t := b.topics[channel]
	if t == nil || t.state == leaving {
		b.mu.RUnlock()
		return // it was on its way when the topic was left; subscriptions that there are have been made since
	}
	subs := t.subs
	b.mu.RUnlock()
	from := reader{seal: b.opts.Keys, channel: channel, topic: t.name, maxFrame: b.opts.MaxFrame}
	if from.each(payload, func(m pubsub.Message) {
		for _, s := range subs {
			if !s.push(m, b.opts.MaxBuffered) {
				b.stats.dropped.Add(1)
			}
		}
	}) {
		return
	}
	b.ignored(t.name, len(payload))
	if payload != "" && (payload[0] == severalLayout || payload[0] == appendedLayout) {
		for _, s := range subs {
			s.reportLoss()
		}
	}
}

// ignored counts a message that is not one of ours.
func (b *broker) ignored(topic string, bytes int) {
	if b.stats.ignored.Add(1) == 1 {
		b.opts.Logger.Warn("wskit: redis: a message that no Broker with our options has published was dropped; further ones are counted only",
			"topic", topic, "bytes", bytes)
	}
}
