package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/centrifugal/centrifuge"
)

// openCentrifuge is openPublisher for the broker of centrifuge, with a node for each side, as two processes
// have.
func openCentrifuge(ctx context.Context, s *server, history bool) (*publisher, error) {
	const topic = "room:1"
	p := &publisher{delivered: new(atomic.Int64)}
	out, err := newCentrifuge(s)
	if err != nil {
		return nil, err
	}
	in, err := newCentrifuge(s)
	if err != nil {
		return nil, err
	}
	p.close = func() {
		_ = out.Close(ctx)
		_ = in.Close(ctx)
	}
	if err := in.RegisterBrokerEventHandler(counting{p.delivered}); err != nil {
		return nil, err
	}
	for giveUp := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = in.Subscribe(topic); err == nil {
			break
		}
		if time.Now().After(giveUp) {
			return nil, fmt.Errorf("subscribing: %w", err)
		}
	}
	var o centrifuge.PublishOptions
	if history {
		o.HistorySize, o.HistoryTTL = 1000, time.Hour
	}
	p.publish = func(context.Context) error {
		_, err := out.Publish(topic, frame, o)
		return err
	}
	return p, nil
}

func newCentrifuge(s *server) (*centrifuge.RedisBroker, error) {
	node, err := centrifuge.New(centrifuge.Config{})
	if err != nil {
		return nil, err
	}
	shard, err := centrifuge.NewRedisShard(node, centrifuge.RedisShardConfig{Address: s.addr})
	if err != nil {
		return nil, err
	}
	return centrifuge.NewRedisBroker(node, centrifuge.RedisBrokerConfig{Shards: []*centrifuge.RedisShard{shard}})
}

// counting counts what is delivered.
type counting struct{ delivered *atomic.Int64 }

func (c counting) HandlePublication(_ string, p *centrifuge.Publication, _ centrifuge.StreamPosition, _ bool, _ *centrifuge.Publication) error {
	if len(p.Data) == len(frame) {
		c.delivered.Add(1)
	}
	return nil
}

func (counting) HandleJoin(string, *centrifuge.ClientInfo) error  { return nil }
func (counting) HandleLeave(string, *centrifuge.ClientInfo) error { return nil }
