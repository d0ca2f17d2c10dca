package router_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// publishers are the ways from a publisher to the members of a topic in the same process.
func publishers(t *testing.T, test func(t *testing.T, opts router.Options, register func(*router.Router))) {
	for _, name := range []string{"without a broker", "over a broker", "with a history"} {
		t.Run(name, func(t *testing.T) {
			var opts router.Options
			if name != "without a broker" {
				opts.Backend.Broker = memory.NewBroker()
			}
			test(t, opts, func(r *router.Router) {
				subscribing(r)
				if name == "with a history" {
					r.History("room:a")
				}
			})
		})
	}
}

// joined waits for the answer to join1, after $ws:subscribed where there is a history.
func (p *peer) joined() {
	p.t.Helper()
	for f := p.next(); !strings.HasPrefix(f, "reply j"); f = p.next() {
		if !strings.HasPrefix(f, "$ws:subscribed") {
			p.t.Fatalf("got %s", f)
		}
	}
}

// sayTo serves a router with the event "say", whose handler publishes texts to a topic with one member. say has the
// publisher send it. next is called with the member's connection before each text but the first.
func sayTo(
	t *testing.T, opts router.Options, register func(*router.Router), next func(*router.Conn),
) (s *socketServer, member, publisher *peer, say func(texts ...string)) {
	t.Helper()
	var first atomic.Pointer[router.Conn]
	opts.OnOpen = func(c *router.Conn) error { first.CompareAndSwap(nil, c); return nil }
	texts := make(chan []string, 1)
	s = serveSocket(t, opts, func(r *router.Router) {
		register(r)
		router.On(r, "say", func(c *router.Context, _ said) error {
			for i, text := range <-texts {
				if i > 0 {
					next(first.Load())
				}
				if err := c.Publish("room:a", "heard", said{text}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	member = s.dial()
	member.write(join1("room:a"))
	member.joined()
	publisher = s.dial()
	return s, member, publisher, func(all ...string) {
		// The goroutine that writes what came last would take along what comes before it is through.
		eventually(t, "the last frame to have left", func() bool { return first.Load().Queued() == 0 })
		texts <- all
		publisher.write(textFrame(`{"type":"say","payload":{"text":""}}`))
	}
}

// What a handler publishes leaves when it returns, in one write, also over a broker.
func TestWhatABatchPublishesLeavesTogether(t *testing.T) {
	t.Parallel()
	publishers(t, func(t *testing.T, opts router.Options, register func(*router.Router)) {
		held := 0
		s, p, publisher, say := sayTo(t, opts, register, func(c *router.Conn) {
			if c.Queued() > 0 {
				held++
			}
		})
		release := router.HoldWatchdog(s.r)
		for range 10 {
			say("a", "b", "c")
			p.expect(`heard {"text":"a"}`, `heard {"text":"b"}`, `heard {"text":"c"}`)
		}
		release()
		if held != 20 {
			t.Errorf("of 20 messages, %d were held back until the handler returned", held)
		}
		p.bye()
		publisher.bye()
		s.recovered()
	})
}

// However much a handler publishes, only a part of Limits.MaxQueued is held back until it returns: a client
// that reads is never too slow.
func TestABatchIsNotTooMuchForItsReaders(t *testing.T) {
	t.Parallel()
	const most, n = 4 << 10, 1000
	publishers(t, func(t *testing.T, opts router.Options, register func(*router.Router)) {
		opts.Limits.MaxQueued = most
		s, p, publisher, say := sayTo(t, opts, register, func(c *router.Conn) {
			poll.Until(t, "the client has read what is held back", func() bool { return c.Queued() <= most/2 })
		})
		release := router.HoldWatchdog(s.r)
		defer release()
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprint(i)
		}
		say(all...)
		for _, text := range all {
			p.expect(fmt.Sprintf(`heard {"text":"%s"}`, text))
		}
		p.bye()
		publisher.bye()
	})
}

// courier is a broker that delivers in a way of its own.
type courier struct {
	stage
	publish func(deliver func(pubsub.Message), m pubsub.Message) error
}

func (c *courier) Publish(_ context.Context, m pubsub.Message) error {
	c.mu.Lock()
	deliver := c.deliver
	c.mu.Unlock()
	return c.publish(deliver, m)
}

// Whenever and however a broker delivers what a handler publishes, it leaves without another message.
func TestWhatABrokerDeliversLeaves(t *testing.T) {
	t.Parallel()
	late := make(chan func(), 1)
	for name, c := range map[string]struct {
		copies  int
		publish func(deliver func(pubsub.Message), m pubsub.Message) error
	}{
		"in the call":       {1, func(deliver func(pubsub.Message), m pubsub.Message) error { deliver(m); return nil }},
		"twice in the call": {2, func(deliver func(pubsub.Message), m pubsub.Message) error { deliver(m); deliver(m); return nil }},
		"as a copy": {1, func(deliver func(pubsub.Message), m pubsub.Message) error {
			m.Frame = bytes.Clone(m.Frame)
			deliver(m)
			return nil
		}},
		"after the call": {1, func(deliver func(pubsub.Message), m pubsub.Message) error { late <- func() { deliver(m) }; return nil }},
		"in the call, which fails": {1, func(deliver func(pubsub.Message), m pubsub.Message) error {
			deliver(m)
			return errors.New("unknown outcome")
		}},
		"in the call, which panics": {1, func(deliver func(pubsub.Message), m pubsub.Message) error { deliver(m); panic("after the delivery") }},
		"in the call, which exits":  {1, func(deliver func(pubsub.Message), m pubsub.Message) error { deliver(m); runtime.Goexit(); return nil }},
		"on another goroutine": {1, func(deliver func(pubsub.Message), m pubsub.Message) error {
			done := make(chan struct{})
			go func() { defer close(done); deliver(m) }()
			<-done
			return nil
		}},
		"in the call and after it": {2, func(deliver func(pubsub.Message), m pubsub.Message) error {
			deliver(m)
			late <- func() { deliver(m) }
			return nil
		}},
	} {
		for _, concurrent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, concurrent %v", name, concurrent), func(t *testing.T) {
				s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: &courier{publish: c.publish}}, OnError: func(router.Fault) {}}, func(r *router.Router) {
					subscribing(r)
					router.On(r, "say", func(c *router.Context, m said) error { return c.Publish("room", "heard", m) },
						router.RouteOptions{Concurrent: concurrent})
				})
				p := s.dial()
				p.write(join1("room"))
				p.joined()
				for i := range 3 {
					publisher := s.dial() // after runtime.Goexit the connection is closed
					publisher.write(textFrame(fmt.Sprintf(`{"type":"say","payload":{"text":"%d"}}`, i)))
					for k := range c.copies {
						if strings.Contains(name, "after") && k == c.copies-1 {
							(<-late)()
						}
						p.expect(fmt.Sprintf(`heard {"text":"%d"}`, i))
					}
					publisher.hangUp()
				}
				p.bye()
				s.recovered()
			})
		}
	}
}
