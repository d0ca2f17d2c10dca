package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// What is published at the same time shares round trips, two at a time for each server, and messages of
// one topic share a PUBLISH. So the Broker takes two connections of the client's pool however much is
// published, and leaves the others to the other users of the client.

// Publish implements [pubsub.Broker]. It returns when Redis has taken the message. It fails when
// Redis does not within BrokerOptions.Timeout, when the topic's name or the frame is too long, and
// with [pubsub.ErrClosed]. While Redis does not answer it fails at once, except for one message a
// second, which is sent to find out.
func (b *broker) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := b.PublishCounted(ctx, m)
	return err
}

// PublishCounted implements [pubsub.ReceiverCounter]. It counts the connections that Redis has
// sent the message to, of which each process has one.
func (b *broker) PublishCounted(ctx context.Context, m pubsub.Message) (receivers int, err error) {
	receivers, err = b.publish(ctx, m)
	if err != nil {
		b.stats.failed.Add(1)
	}
	return receivers, err
}

func (b *broker) publish(ctx context.Context, m pubsub.Message) (receivers int, err error) {
	if err := b.check(m); err != nil {
		return 0, err
	}
	m.Position = pubsub.Position{}
	o, item, err := b.item(ctx, m)
	if err == nil {
		err = through(ctx, o, o.lane, item)
	}
	b.report(ctx, &b.publishing, err)
	if err != nil {
		return 0, fmt.Errorf("redis: publishing: %w", err)
	}
	receivers = item.Value.receivers
	o.lane.Free(item)
	return receivers, nil
}

// item returns a message ready to be published, and the outlet of its server.
func (b *broker) item(ctx context.Context, m pubsub.Message) (*outlet, *batch.Item[publication], error) {
	o := b.only()
	if o == nil {
		within, cancel := context.WithTimeout(ctx, b.opts.Timeout)
		defer cancel()
		server, err := b.where.server(within, key(b.opts.Prefix, b.kind, m.Topic))
		if err != nil {
			return nil, nil, err
		}
		o = b.outlet(server)
	}
	item := o.lane.Item()
	item.Timeout, item.Wait = o.timeout, b.opts.Timeout
	last := item.Value // often of the same topic
	if last.channel == "" || last.topic != m.Topic {
		last.channel, last.alone = key(b.opts.Prefix, b.kind, m.Topic), nil
	}
	room := last.payload[:0]
	if cap(room) > maxSpare {
		room = nil
	}
	plain := appendPlain(room, m)
	if len(b.opts.Keys) > 0 {
		plain = seal(b.opts.Keys).close(last.channel, plain)
	}
	item.Value = publication{topic: m.Topic, channel: last.channel, payload: plain, alone: last.alone}
	return o, item, nil
}

// check refuses what no subscriber would accept.
func (b *broker) check(m pubsub.Message) error {
	switch {
	case b.ctx.Err() != nil:
		return pubsub.ErrClosed
	case len(m.Frame) > b.opts.MaxFrame:
		return fmt.Errorf("redis: the message has %d bytes, BrokerOptions.MaxFrame allows %d", len(m.Frame), b.opts.MaxFrame)
	case len(m.Key) > maxLabel || len(m.Except) > maxLabel:
		return fmt.Errorf("redis: Key and Except of the message have %d and %d bytes, at most %d are allowed", len(m.Key), len(m.Except), maxLabel)
	}
	return checkTopic(m.Topic)
}

// hand calls do with the outlet of a key's server, and reports the outcome.
func (b *broker) hand(ctx context.Context, to *outage.Reporter, key string, do func(context.Context, *outlet) error) error {
	within, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	server, err := b.where.server(within, key)
	if err == nil {
		err = do(within, b.outlet(server))
	}
	b.report(ctx, to, err)
	return err
}

// report reports the outcome of a call.
func (b *broker) report(ctx context.Context, to *outage.Reporter, err error) {
	switch {
	case err == nil:
		to.Works()
	case ctx.Err() == nil && b.ctx.Err() == nil && err != errNotPublished:
		to.Failed(err)
	}
}

// outlet is the way to one server.
type outlet struct {
	lane    *batch.Batcher[publication]
	reads   *batch.Batcher[[]*logCall]
	breaker *gobreaker.CircuitBreaker[struct{}]
	failing atomic.Bool // the breaker is asked: something has failed since a message was last answered
	stalled atomic.Bool // what was sent last had no answer in time
	timeout time.Duration
}

const (
	// The breaker of an outlet opens when the server does not answer in time, or after this many
	// failures in a row.
	publishBreakAfter = 5
	// publishBreakFor is how long nothing is published then, before one message tries.
	publishBreakFor = time.Second
	// publishedAtOnce is how many bytes are sent before they are waited for.
	publishedAtOnce = 1 << 20
)

// only is the outlet of the one server that there is, or nil if the topic decides.
func (b *broker) only() *outlet {
	if t, ok := b.where.(single); ok {
		return b.outlet(t.client)
	}
	return nil
}

func (b *broker) outlet(server any) *outlet {
	if o, ok := b.outlets.Load(server); ok {
		return o.(*outlet)
	}
	// Half of the time is for the round trip before.
	o := &outlet{timeout: b.opts.Timeout / 2}
	o.lane = batch.New(func(ctx context.Context, batch []*batch.Item[publication]) {
		b.publishTrip(ctx, o, server, batch)
	}, batch.Options{OnCaller: b.where.keepsDeadlines(), ReuseContext: true, Slack: 2})
	o.reads = batch.New(func(ctx context.Context, batch []*batch.Item[[]*logCall]) {
		b.readTrip(ctx, o, server, batch)
	}, batch.Options{OnCaller: b.where.keepsDeadlines(), ReuseContext: true, Slack: 2})
	o.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: publishBreakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return o.stalled.Load() || c.ConsecutiveFailures >= publishBreakAfter
		},
		IsSuccessful: isAnswer,
		IsExcluded:   isOfCaller,
	})
	kept, _ := b.outlets.LoadOrStore(server, o)
	return kept.(*outlet)
}

var errNotPublished = errors.New("the last messages had no answer; one in a second tries again")

// isOfCaller reports whether an error says nothing of the server.
func isOfCaller(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrFull)
}

// through has an item answered in a flush, unless the breaker is open. The breaker costs nothing while
// nothing fails. After an error the item is not the caller's any more.
func through[T any](ctx context.Context, o *outlet, lane *batch.Batcher[T], item *batch.Item[T]) error {
	if !o.failing.Load() {
		err := lane.Do(ctx, item)
		if !isAnswer(err) && !isOfCaller(err) {
			o.failing.Store(true)
			if o.breaker.State() == gobreaker.StateClosed {
				_, _ = o.breaker.Execute(func() (struct{}, error) { return struct{}{}, err })
			}
		}
		return err
	}
	sent := false
	_, err := o.breaker.Execute(func() (struct{}, error) {
		sent = true
		return struct{}{}, lane.Do(ctx, item)
	})
	switch {
	case !sent:
		lane.Free(item)
		return errNotPublished
	case isAnswer(err) && o.breaker.State() == gobreaker.StateClosed:
		o.failing.Store(false)
	}
	return err
}

// maxSpare is the size of the largest payload whose room is used again.
const maxSpare = 4 << 10

// send publishes once, as the messages that a link sends to itself are.
func (b *broker) send(ctx context.Context, channel string, payload []byte) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	return b.client.Process(ctx, onlyOnce{goredis.NewIntCmd(ctx, b.nodes.publishing(), channel, payload)})
}

// onlyOnce is a command that the client does not send again when it is unclear what
// has become of it: a message must not be delivered twice.
type onlyOnce struct{ *goredis.IntCmd }

func (onlyOnce) NoRetry() bool { return true }

// Clone keeps that.
func (o onlyOnce) Clone() goredis.Cmder { return onlyOnce{o.IntCmd.Clone().(*goredis.IntCmd)} }
