package memory_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestBroker(t *testing.T) {
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		b := memory.NewBroker()
		// A topic without subscriptions leaves nothing behind.
		t.Cleanup(func() {
			if n := memory.TopicsOf(b); n != 0 {
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

func TestBrokerLog(t *testing.T) {
	pubsubtest.RunLog(t, func(_ *testing.T, n int) []pubsub.Log {
		b := memory.NewBroker()
		logs := make([]pubsub.Log, n)
		for i := range logs {
			logs[i] = b
		}
		return logs
	}, pubsubtest.LogFaults{
		LoseTail: func(_ *testing.T, l pubsub.Log, topic string, n int) { memory.LoseTail(l, topic, n) },
		LoseLog:  func(_ *testing.T, l pubsub.Log, topic string) { memory.LoseLog(l, topic) },
	})
}

func TestTopicsReturnToZero(t *testing.T) {
	b := memory.NewBroker()
	if n := memory.TopicsOf(b); n != 0 {
		t.Fatalf("a new broker has %d topics", n)
	}
	if err := b.Publish(ctx, pubsub.Message{Topic: "empty"}); err != nil || memory.TopicsOf(b) != 0 {
		t.Errorf("publishing without a subscriber: %v, %d topics", err, memory.TopicsOf(b))
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
	if n := memory.TopicsOf(b); n != 100 {
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
	if n := memory.TopicsOf(b); n != 0 {
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

// A subscriber that was away reads what it missed, and then goes on with what is delivered.
func ExampleBroker_Append() {
	b := memory.NewBroker()
	history := pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: time.Hour}
	say := func(frame string) pubsub.Position {
		p, _ := b.Append(ctx, pubsub.Message{Topic: "room:a", Frame: []byte(frame)}, history, "")
		return p
	}
	seen := say("hello")
	say("is anyone here?")
	say("bye")

	page, _ := b.Read(ctx, "room:a", history, pubsub.ReadOptions{From: seen, Messages: 100, Bytes: 64 << 10})
	for _, m := range page.Messages {
		fmt.Printf("%d: %s\n", m.Position.Offset, m.Frame)
	}
	fmt.Println("more:", page.More)
	// Output:
	// 2: is anyone here?
	// 3: bye
	// more: false
}
