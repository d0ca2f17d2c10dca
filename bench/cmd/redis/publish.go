package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/bench/stats"
	"github.com/wskit/wskit/pubsub"
)

// A publisher is a contender that publishes to one topic, with one subscriber that counts. Both
// have clients of their own, in this process.
type publisher struct {
	publish   func(ctx context.Context) error
	delivered *atomic.Int64
	close     func()
}

// frame is what is published.
var frame = []byte(`{"type":"chat.message","meta":{"topic":"room:1"},"payload":{"from":"ann","text":"Hello, how are you today?"}}`)

// openPublisher makes a contender ready. The rival bare is a loop of PUBLISH and SUBSCRIBE, with history or without.
func openPublisher(ctx context.Context, s *server, contender string, history bool) (*publisher, error) {
	if contender == theirs {
		return openCentrifuge(ctx, s, history)
	}
	options := goredis.Options{Addr: s.addr, ContextTimeoutEnabled: true}
	out, in := goredis.NewClient(&options), goredis.NewClient(&options)
	p := &publisher{delivered: new(atomic.Int64)}
	const topic = "room:1"
	if contender != ours {
		sub := in.Subscribe(ctx, topic)
		_, err := sub.Receive(ctx)
		if err != nil {
			return nil, err
		}
		go func() {
			for {
				m, err := sub.ReceiveMessage(context.WithoutCancel(ctx))
				if err != nil {
					return
				}
				if len(m.Payload) == len(frame) {
					p.delivered.Add(1)
				}
			}
		}()
		p.publish = func(ctx context.Context) error { return out.Publish(ctx, topic, frame).Err() }
		p.close = func() { _, _, _ = sub.Close(), in.Close(), out.Close() }
		if contender == socket {
			err = p.overSocket(s.addr, topic)
		}
		return p, err
	}
	to, from := redis.NewBroker(out), redis.NewBroker(in, redis.BrokerOptions{MaxBuffered: 64 << 20})
	_, err := from.Subscribe(ctx, topic, func(m pubsub.Message) {
		if len(m.Frame) == len(frame) {
			p.delivered.Add(1)
		}
	})
	if err != nil {
		return nil, err
	}
	p.close = func() {
		to.Close()
		from.Close()
		_, _ = in.Close(), out.Close()
	}
	m := pubsub.Message{Topic: topic, Frame: frame}
	p.publish = func(ctx context.Context) error { return to.Publish(ctx, m) }
	if history {
		h := pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: time.Hour}
		p.publish = func(ctx context.Context) error {
			_, err := to.Append(ctx, m, h, "")
			return err
		}
	}
	return p, nil
}

// overSocket has the contender publish over a socket, and do nothing else.
func (p *publisher) overSocket(addr, topic string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	command := fmt.Appendf(nil, "*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(topic), topic, len(frame), frame)
	answers := bufio.NewReader(conn)
	p.publish = func(context.Context) error {
		if _, err := conn.Write(command); err != nil {
			return err
		}
		answer, err := answers.ReadSlice('\n')
		if err == nil && answer[0] != ':' {
			err = fmt.Errorf("PUBLISH is answered %q", answer)
		}
		return err
	}
	others := p.close
	p.close = func() {
		_ = conn.Close()
		others()
	}
	return nil
}

// publishing counts what is delivered while a number of callers publish, each one message
// after the other.
func publishing(callers int, history bool) func(context.Context, *server, string, settings) (float64, string, error) {
	return func(ctx context.Context, s *server, contender string, o settings) (float64, string, error) {
		if err := s.fresh(ctx); err != nil {
			return 0, "", err
		}
		p, err := openPublisher(ctx, s, contender, history)
		if err != nil {
			return 0, "", err
		}
		defer p.close()
		decide := func(ctx context.Context, _ string) (bool, error) { return true, p.publish(ctx) }
		if _, _, err := drive(ctx, decide, names(1), callers, o.duration/4); err != nil {
			return 0, "", err
		}
		before := p.delivered.Load()
		start := time.Now()
		sent, _, err := drive(ctx, decide, names(1), callers, o.duration)
		if err != nil {
			return 0, "", err
		}
		// What was published is to be delivered, too.
		for giveUp := time.Now().Add(10 * time.Second); p.delivered.Load()-before < sent; time.Sleep(100 * time.Microsecond) {
			if time.Now().After(giveUp) {
				return 0, "", fmt.Errorf("%d of %d messages delivered", p.delivered.Load()-before, sent)
			}
		}
		return float64(sent) / time.Since(start).Seconds(), "", nil
	}
}

// lonePublish is a quantile of the time of a publish by one caller, in µs.
func lonePublish(quantile float64) func(context.Context, *server, string, settings) (float64, string, error) {
	return func(ctx context.Context, s *server, contender string, o settings) (float64, string, error) {
		if err := s.fresh(ctx); err != nil {
			return 0, "", err
		}
		p, err := openPublisher(ctx, s, contender, false)
		if err != nil {
			return 0, "", err
		}
		defer p.close()
		var took []float64
		for end := time.Now().Add(o.duration); time.Now().Before(end); {
			start := time.Now()
			if err := p.publish(ctx); err != nil {
				return 0, "", err
			}
			took = append(took, float64(time.Since(start).Nanoseconds())/1e3)
			time.Sleep(200 * time.Microsecond)
		}
		slices.Sort(took)
		return stats.Quantile(took, quantile), "", nil
	}
}
