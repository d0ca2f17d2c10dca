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
	"github.com/wskit/wskit/pubsub"
)

// What is published at the same time shares round trips, two at a time for each server.
// So the Broker takes two connections of the client's pool however much is
// published, and leaves the others to the other users of the client.

// Publish implements [pubsub.Broker]. It returns when Redis has taken the message.
// It fails when Redis does not within BrokerOptions.Timeout, when the topic's name
// or the frame is too long, and with [pubsub.ErrClosed]. While Redis is known not to
// answer it fails at once, but for one message in a second that tries.
func (b *Broker) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := b.PublishCounted(ctx, m)
	return err
}

// PublishCounted implements [pubsub.ReceiverCounter]. It counts the connections that Redis has
// sent the message to, of which each process has one.
func (b *Broker) PublishCounted(ctx context.Context, m pubsub.Message) (receivers int, err error) {
	receivers, err = b.publish(ctx, m)
	if err != nil {
		b.stats.failed.Add(1)
	}
	return receivers, err
}

func (b *Broker) publish(ctx context.Context, m pubsub.Message) (receivers int, err error) {
	switch {
	case b.ctx.Err() != nil:
		return 0, pubsub.ErrClosed
	case len(m.Frame) > b.opts.MaxFrame:
		return 0, fmt.Errorf("redis: the message has %d bytes, BrokerOptions.MaxFrame allows %d", len(m.Frame), b.opts.MaxFrame)
	}
	if err := checkTopic(m.Topic); err != nil {
		return 0, err
	}
	within, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	channel := key(b.opts.Prefix, b.kind, m.Topic)
	server, err := b.where.server(within, channel)
	if err == nil {
		receivers, err = b.outlet(server).publish(within, publication{channel: channel, payload: seal(b.opts.Keys).close(channel, encode(m))})
	}
	if err == nil {
		b.publishing.Works()
		return receivers, nil
	}
	if ctx.Err() == nil && b.ctx.Err() == nil && err != errNotPublished {
		b.publishing.Failed(err)
	}
	return 0, fmt.Errorf("redis: publishing: %w", err)
}

// A publication is a message on its way out.
type publication struct {
	channel   string
	payload   []byte
	receivers int // the answer
}

// outlet is the way to one server.
type outlet struct {
	lane    *batch.Batcher[publication]
	breaker *gobreaker.CircuitBreaker[struct{}]
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

func (b *Broker) outlet(server any) *outlet {
	if o, ok := b.outlets.Load(server); ok {
		return o.(*outlet)
	}
	// Half of the time is for the round trip before.
	o := &outlet{timeout: b.opts.Timeout / 2}
	o.lane = batch.New(func(ctx context.Context, batch []*batch.Item[publication]) {
		b.publishTrip(ctx, o, server, batch)
	}, batch.Options{OnCaller: b.where.keepsDeadlines(), Slack: 2})
	o.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: publishBreakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return o.stalled.Load() || c.ConsecutiveFailures >= publishBreakAfter
		},
		IsSuccessful: func(err error) bool { return isAnswer(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrFull) },
	})
	kept, _ := b.outlets.LoadOrStore(server, o)
	return kept.(*outlet)
}

var errNotPublished = errors.New("the last messages had no answer; one in a second tries again")

// publish publishes one message once.
func (o *outlet) publish(ctx context.Context, p publication) (receivers int, err error) {
	_, err = o.breaker.Execute(func() (struct{}, error) {
		item := o.lane.Item()
		item.Value = p
		err := o.lane.Do(batch.WithTimeout(ctx, o.timeout), item)
		if err == nil {
			receivers = item.Value.receivers
			item.Value = publication{}
			o.lane.Free(item)
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return 0, errNotPublished
	}
	return receivers, err
}

// publishTrip publishes a batch, so many bytes at a time.
func (b *Broker) publishTrip(ctx context.Context, o *outlet, server any, items []*batch.Item[publication]) {
	start := time.Now()
	answered := false
	for from := 0; from < len(items); {
		to, size := from, 0
		for to < len(items) && (to == from || size+len(items[to].Value.payload) <= publishedAtOnce) {
			size += len(items[to].Value.payload)
			to++
		}
		sent := make([]goredis.Cmder, 0, to-from)
		for _, it := range items[from:to] {
			sent = append(sent, onlyOnce{goredis.NewIntCmd(ctx, b.nodes.publishing(), it.Value.channel, it.Value.payload)})
		}
		b.where.run(ctx, server, sent)
		for i, it := range items[from:to] {
			it.Err, it.Value.receivers = sent[i].Err(), int(sent[i].(onlyOnce).Val())
			answered = answered || isAnswer(it.Err)
		}
		from = to
	}
	o.stalled.Store(false)
	for _, it := range items {
		if err := it.Err; err != nil && !isAnswer(err) {
			late, left := lateness(ctx, err, time.Since(start))
			if late {
				o.stalled.Store(true)
				it.Err = fmt.Errorf("no answer within %v: %w", o.timeout, err)
			}
			if !answered && !left {
				it.Err = batch.NotAnswered(it.Err)
			}
		}
	}
}

// send publishes once, as the messages that a link sends to itself are.
func (b *Broker) send(ctx context.Context, channel string, payload []byte) error {
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
