package router_test

import (
	"context"
	stderrors "errors"
	"sync"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// stage is a broker whose messages the test delivers itself.
type stage struct {
	mu      sync.Mutex
	deliver func(pubsub.Message)
	closed  int
}

func (s *stage) Publish(context.Context, pubsub.Message) error { return nil }

func (s *stage) Subscribe(_ context.Context, _ string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver = deliver
	return s, nil
}

func (s *stage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// heard is a message of the topic room, as its publisher encoded it.
func heard(text string, more bool) pubsub.Message {
	return pubsub.Message{Topic: "room", Frame: []byte(`{"type":"heard","payload":{"text":"` + text + `"}}`), More: more}
}

// What a broker has at the same time leaves together; nothing waits for what does not come.
func TestMessagesOfABrokerLeaveTogether(t *testing.T) {
	t.Parallel()
	broker := new(stage)
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{
		Backend: adapters.Backend{Broker: broker},
		OnOpen:  func(c *router.Conn) error { conns <- c; return nil },
	}, subscribing)
	p := s.dial()
	c := <-conns
	p.write(join1("room"))
	p.expect("reply j room")

	eventually(t, "the reply has left", func() bool { return c.Queued() == 0 })
	broker.deliver(heard("a", true))
	broker.deliver(heard("b", true))
	if c.Queued() == 0 {
		t.Error("a message of which more follow leaves at once")
	}
	broker.deliver(heard("c", false))
	p.expect(`heard {"text":"a"}`, `heard {"text":"b"}`, `heard {"text":"c"}`)

	// The subscription ends before the next comes.
	eventually(t, "they have left", func() bool { return c.Queued() == 0 })
	broker.deliver(heard("d", true))
	if c.Unsubscribe("room"); broker.closed != 1 {
		t.Errorf("after Unsubscribe the subscription is closed %d times", broker.closed)
	}
	p.expect(`heard {"text":"d"}`)

	// One that was on its way by then reaches no connection.
	late := broker.deliver
	if err := c.Subscribe(context.Background(), "room"); err != nil {
		t.Fatal(err)
	}
	late(heard("e", true))
	broker.deliver(heard("f", false))
	p.expect(`heard {"text":"f"}`)
	p.bye()
	s.recovered()
}

// failing is a broker that carries nothing.
type failing struct{ stage }

func (*failing) Publish(context.Context, pubsub.Message) error {
	return stderrors.New("dial tcp 10.1.2.3: connection refused")
}

func TestPublishingToABrokerThatFails(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{
		Backend: adapters.Backend{Broker: new(failing)},
		OnError: func(f router.Fault) { t.Errorf("a fault of the server's: %v", f.Err) },
	}, func(r *router.Router) {
		router.RPC(r, "say", func(c *router.Context, _ struct{}) (struct{}, error) {
			return struct{}{}, c.Publish("room", "heard", nil)
		})
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		if f := c.Request("say", nil).ExpectError(errors.Unavailable); f.Message != "publishing failed" || !f.Retryable {
			t.Errorf("%+v", f)
		}
	})
}
