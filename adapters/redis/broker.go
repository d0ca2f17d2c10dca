package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// Broker is a [pubsub.Broker] on Redis pub/sub: whatever is published through one
// Broker reaches the subscriptions of all that share a Redis and a prefix. In a
// cluster it is sharded pub/sub, so that each node carries its own topics only.
//
// It is a [pubsub.Log], too: the log of a topic is one hash. A script appends to it
// and publishes, in one step.
//
// A process subscribes to a topic at Redis once, however many subscriptions it has, and
// only while it has any. Each of its subscriptions has a buffer of its own, so one
// that is slow delays neither the others nor the reading from Redis; a message that does not
// fit its buffer is dropped (BrokerStats.Dropped).
//
// # When Redis fails
//
// A publisher gets an error. A subscriber misses what is published until its
// topics are subscribed to again, which the Broker does by itself: after a restart,
// a failover, when Redis has closed the connection, and when a cluster's slots move. The loss and the
// return are each logged once; BrokerStats has the current state.
//
// A subscriber gets a message with Lost before the first message after each time in which some may
// have been lost: when its topic is subscribed to again, and after messages that did not fit its buffer.
//
// The Broker also detects a connection that is open and delivers nothing, because its server is
// stalled, has lost the subscriptions or is no longer the one that publishers use: it sends itself
// a message through Redis four times in BrokerOptions.HealthTimeout, and replaces the connection on
// which it does not come back in that time. When Sentinels name a new master, that takes half a
// second at most. What is published until then is lost, and is reported when the topic is subscribed
// to again.
//
// Nothing is ever sent twice: a message whose publishing failed is not tried
// again. One that failed with a timeout may still arrive, and later than those
// that were published after it.
//
// What happens to logs is in the package comment.
type Broker interface {
	pubsub.Replacer
	pubsub.ReceiverCounter

	// Stats returns the figures.
	Stats() BrokerStats
	// Close ends all subscriptions and the connections that carry them. It waits for
	// these, which takes as long as the client's DialTimeout or ReadTimeout if Redis
	// does not answer, but not for calls of deliver that are running. Closing twice is
	// harmless. The error is always nil.
	Close() error
}

type broker struct {
	client     goredis.UniversalClient
	opts       BrokerOptions
	kind       string // of its channels
	nodes      nodes
	where      topology
	outlets    sync.Map        // by server
	sentinels  bool            // name the server
	ctx        context.Context // cancelled by Close
	cancel     context.CancelFunc
	wake       chan struct{} // holds a token while there are topics to assign
	wg         sync.WaitGroup
	stats      brokerCounters
	evictions  evictions
	deliveries deliveries

	mu         sync.RWMutex
	topics     map[string]*topic // by channel
	links      map[string]*link  // by node
	failures   map[string]int    // of a node's links, one after the other
	unassigned []*topic          // to be assigned to a link
	refused    []*topic          // to be assigned in a while
	lostTopics int               // how many topics had been subscribed to and are not now
	failed     error             // why the last link ended; nil: one has worked since

	subscription, publishing, reading outage.Reporter
}

// BrokerStats are figures of a Broker: Topics and Missing as they are now, the
// others since it was made.
type BrokerStats struct {
	// Topics is how many topics have subscriptions in this process.
	Topics int
	// Missing is how many of these Redis does not deliver at the moment. While
	// it stays above 0 the Broker is not healthy.
	Missing int
	// Lost is how often topics had to be subscribed to again because their
	// connection failed, or their slots moved: what was published to them
	// meanwhile has been missed.
	Lost int64
	// Failed is how many messages could not be published or appended.
	Failed int64
	// Dropped is how many messages did not fit the buffer of a subscription.
	Dropped int64
	// Ignored is how many messages on the Broker's channels were not published by a
	// Broker, or were larger than MaxFrame.
	Ignored int64
	// Evicted is how many keys the servers have deleted because their memory was full, since the Broker
	// first used a log: logs among them are lost. The figure is read about every 10 s. Keys of other
	// applications on the same server count as well.
	Evicted int64
}

type brokerCounters struct{ lost, failed, dropped, ignored atomic.Int64 }

// NewBroker returns a Broker on a client of a single server, of Sentinel or of a cluster, which has
// to be of Redis 7 or later. The client stays the caller's: it is to be closed after the Broker. Of
// its pooled connections the Broker uses two for each server, two more if it reads logs, and one
// for each server by which it checks its subscriptions. Nothing is sent to Redis before the first
// call.
//
// For calls to end when their context does, the client needs ContextTimeoutEnabled;
// otherwise they may take as long as its ReadTimeout.
//
// NewBroker panics when an option is invalid, and with a Ring: its clients do not
// agree on which server has a channel while servers come and go.
func NewBroker(client goredis.UniversalClient, options ...BrokerOptions) Broker {
	return newBroker(client, given.Must("redis", "NewBroker", options))
}

func newBroker(client goredis.UniversalClient, opts BrokerOptions) *broker {
	opts, err := opts.withDefaults()
	if err != nil {
		panic(err.Error())
	}
	b := &broker{
		client: client, opts: opts, kind: "topic", nodes: nodesOf(client), where: topologyOf("NewBroker", client), wake: make(chan struct{}, 1),
		topics: make(map[string]*topic), links: make(map[string]*link), failures: make(map[string]int),
		subscription: outage.Reporter{
			Component: "subscription", Name: opts.Prefix, Log: opts.Logger, Hook: opts.OnOutage,
			Failing: "wskit: redis: subscriptions are lost; subscribing again",
			Working: "wskit: redis: all topics are subscribed to again",
		},
		publishing: outage.Reporter{
			Component: "publish", Name: opts.Prefix, Log: opts.Logger, Hook: opts.OnOutage, Settle: time.Second,
			Failing: "wskit: redis: publishing fails",
			Working: "wskit: redis: publishing works again",
		},
		reading: outage.Reporter{
			Component: "log", Name: opts.Prefix, Log: opts.Logger, Hook: opts.OnOutage, Settle: time.Second,
			Failing: "wskit: redis: logs of topics cannot be read",
			Working: "wskit: redis: logs of topics are read again",
		},
	}
	b.evictions.log, b.evictions.start, b.evictions.every = opts.Logger, time.Now(), lookEvery
	b.evictions.means = "logs of topics are lost"
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.watchMaster()
	b.wg.Go(b.assign)
	return b
}

// Subscribe implements [pubsub.Broker]. It returns when Redis has confirmed the
// subscription, at once if this process already has one of the topic. It fails when
// Redis does not confirm within BrokerOptions.Timeout or before ctx is over, when
// the topic's name is too long, and with [pubsub.ErrClosed].
func (b *broker) Subscribe(ctx context.Context, name string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	if err := checkTopic(name); err != nil {
		return nil, err
	}
	s, confirmed, err := b.subscribe(name, deliver)
	if err != nil || confirmed == nil {
		return s, err
	}
	timeout := time.NewTimer(b.opts.Timeout)
	defer timeout.Stop()
	select {
	case err = <-confirmed:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = b.unconfirmed()
	case <-b.ctx.Done():
		err = pubsub.ErrClosed
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("redis: subscribing: %w", err)
	}
	return s, nil
}

// unconfirmed is the error of a subscription that was not confirmed in time, with why the last connection ended if none
// has worked since.
func (b *broker) unconfirmed() error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.failed != nil {
		return fmt.Errorf("no confirmation in %v: %w", b.opts.Timeout, b.failed)
	}
	return fmt.Errorf("no confirmation in %v", b.opts.Timeout)
}

// subscribe adds a subscription. The channel receives once, when Redis
// has confirmed or refused it; it is nil if there is nothing to wait for.
func (b *broker) subscribe(name string, deliver func(pubsub.Message)) (*subscription, <-chan error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return nil, nil, pubsub.ErrClosed
	}
	channel := key(b.opts.Prefix, b.kind, name)
	t := b.topics[channel]
	if t == nil {
		t = &topic{name: name, channel: channel}
		b.topics[channel] = t
	}
	s := &subscription{broker: b, topic: t, deliver: deliver}
	t.subs = append(slices.Clip(t.subs), s)
	if t.state == joined {
		return s, nil, nil
	}
	if t.state == idle {
		b.enqueue(t)
	}
	confirmed := make(chan error, 1)
	s.confirmed = confirmed
	return s, confirmed, nil
}

// unsubscribe takes a subscription off its topic, and the topic off Redis with its
// last. It waits for nothing.
func (b *broker) unsubscribe(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := s.topic
	i := slices.Index(t.subs, s)
	if i < 0 {
		return
	}
	t.subs = slices.Delete(slices.Clone(t.subs), i, i+1)
	if len(t.subs) == 0 {
		b.unneeded(t)
	}
}

func (b *broker) Stats() BrokerStats {
	s := BrokerStats{
		Lost: b.stats.lost.Load(), Failed: b.stats.failed.Load(),
		Dropped: b.stats.dropped.Load(), Ignored: b.stats.ignored.Load(),
		Evicted: b.evictions.count.Load(),
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, t := range b.topics {
		if len(t.subs) == 0 {
			continue
		}
		s.Topics++
		if t.state != joined {
			s.Missing++
		}
	}
	return s
}

func (b *broker) Close() error {
	b.mu.Lock()
	b.cancel()
	for _, t := range b.topics {
		for _, s := range t.subs {
			s.end()
		}
		t.subs = nil
	}
	b.mu.Unlock()
	b.wg.Wait()
	return nil
}
