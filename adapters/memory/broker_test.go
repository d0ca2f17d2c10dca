package memory_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestBroker(t *testing.T) {
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		b := memory.NewBroker()
		// A topic without subscriptions leaves nothing behind.
		t.Cleanup(func() {
			if n := b.Topics(); n != 0 {
				t.Errorf("%d topics are left after all subscriptions were closed", n)
			}
		})
		brokers := make([]pubsub.Broker, n)
		for i := range brokers {
			brokers[i] = b
		}
		return brokers
	})
}

func TestTopicsReturnToZero(t *testing.T) {
	var b memory.Broker // the zero Broker is ready
	if n := b.Topics(); n != 0 {
		t.Fatalf("a new broker has %d topics", n)
	}
	if err := b.Publish(ctx, pubsub.Message{Topic: "empty"}); err != nil || b.Topics() != 0 {
		t.Errorf("publishing without a subscriber: %v, %d topics", err, b.Topics())
	}
	var subs []pubsub.Subscription
	for i := range 100 {
		for range 2 {
			sub, err := b.Subscribe(ctx, fmt.Sprint(i), func(pubsub.Message) {})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
	}
	if n := b.Topics(); n != 100 {
		t.Errorf("%d topics, subscribed to 100", n)
	}
	var wg sync.WaitGroup
	for _, sub := range subs {
		wg.Go(func() {
			_ = sub.Close()
			_ = sub.Close()
		})
	}
	wg.Wait()
	if n := b.Topics(); n != 0 {
		t.Errorf("%d topics are left after all subscriptions were closed", n)
	}
}

func TestDeliveryIsSynchronous(t *testing.T) {
	b := memory.NewBroker()
	delivered := 0 // without a lock: it is this goroutine that delivers
	for range 3 {
		sub, err := b.Subscribe(ctx, "topic", func(pubsub.Message) { delivered++ })
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
	}
	for i := range 10 {
		if err := b.Publish(ctx, pubsub.Message{Topic: "topic"}); err != nil {
			t.Fatal(err)
		}
		if delivered != 3*(i+1) {
			t.Fatalf("Publish %d returned after %d deliveries, there are 3 subscriptions", i+1, delivered)
		}
	}
}

func TestBrokerPublishAllocatesNothing(t *testing.T) {
	b := memory.NewBroker()
	sub, err := b.Subscribe(ctx, "topic", func(pubsub.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	m := pubsub.Message{Topic: "topic", Frame: []byte("f")}
	if n := testing.AllocsPerRun(100, func() { _ = b.Publish(ctx, m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func ExampleBroker() {
	b := memory.NewBroker()
	sub, _ := b.Subscribe(ctx, "room:a", func(m pubsub.Message) {
		fmt.Printf("%s: %s\n", m.Topic, m.Frame)
	})
	_ = b.Publish(ctx, pubsub.Message{Topic: "room:a", Frame: []byte("hello")})
	_ = b.Publish(ctx, pubsub.Message{Topic: "room:b", Frame: []byte("without a subscriber")})
	_ = sub.Close()
	_ = b.Publish(ctx, pubsub.Message{Topic: "room:a", Frame: []byte("too late")})
	// Output: room:a: hello
}
