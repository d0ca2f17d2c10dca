package hub

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
)

// touch is a Touch that the test changes.
type touch struct {
	mu    sync.Mutex
	away  bool
	lost  int
	again chan struct{}
}

func (t *touch) Holds() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.away
}

func (t *touch) Lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost++
}

func (t *touch) Await(ctx context.Context) error {
	t.mu.Lock()
	again, away := t.again, t.away
	t.mu.Unlock()
	if !away {
		return nil
	}
	select {
	case <-again:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *touch) set(away bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away = away; away {
		t.again = make(chan struct{})
	} else {
		close(t.again)
	}
}

// end is the end of the log of the topic a.
func end(t *testing.T, l pubsub.Log) pubsub.Position {
	t.Helper()
	at, err := l.Heads(t.Context(), []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	return at[0]
}

// While it is not known what was revoked, nothing of other processes is delivered: of a topic with history it comes later, once,
// and of others it is lost, and reported. A member that was revoked meanwhile gets none of it.
func TestNothingIsDeliveredOutOfTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.NewBroker()
		kept := withHistory(l, 1000).HistoryOf
		now := &touch{}
		var lost []string
		h := newHub(Config{
			Broker: l, Touch: now, OnLost: func(topics []string) { lost = append(lost, topics...) },
			HistoryOf: func(topic string) *History {
				if strings.HasPrefix(topic, "room") {
					return nil
				}
				return kept(topic)
			},
		})
		stays, goes, late := newClient(t, h), newClient(t, h), newClient(t, h)
		publish := func(n int) {
			mustPublish(t, h, event("a", n), PublishOptions{History: h.HistoryOf("a")})
			mustPublish(t, h, event("room", 100+n), PublishOptions{})
		}
		for _, c := range []*client{stays, goes} {
			mustSubscribe(t, c, "a")
			mustSubscribe(t, c, "room")
		}
		publish(1)
		synctest.Wait()
		from := end(t, l)
		now.set(true)
		publish(2)
		returned := make(chan error, 2)
		back := []*client{late, newClient(t, h)}
		for i, at := range []pubsub.Position{from, end(t, l)} { // one has missed a message, the other none
			go func() { returned <- back[i].SubscribeFrom(t.Context(), "a", at, Terms{}) }()
		}
		synctest.Wait()
		if got := late.events(); len(got) > 0 || len(returned) > 0 {
			t.Errorf("a client is sent %v of the log, %d are members", got, len(returned))
		}
		goes.Revoke(all)
		now.set(false)
		publish(3)
		for range back {
			if err := <-returned; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		for _, c := range []struct {
			*client
			want []int
		}{{stays, []int{1, 101, 2, 3, 103}}, {goes, []int{1, 101}}, {late, []int{2, 3}}} {
			got := c.events()
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("a client gets %v, want %v", got, c.want)
			}
		}
		time.Sleep(2 * lossPause)
		synctest.Wait()
		if !slices.Equal(lost, []string{"room"}) {
			t.Errorf("reported as lost: %q", lost)
		}
	})
}

// handed is a broker from which the test delivers to the latest subscription.
type handed struct {
	pubsub.Broker
	deliver func(pubsub.Message)
}

func (b *handed) Subscribe(_ context.Context, _ string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	b.deliver = deliver
	return b, nil
}

func (b *handed) Close() error { return nil }

// Each loss that a broker reports has it found out what was revoked.
func TestLossesAreOutOfTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &handed{}
		now := &touch{}
		h := newHub(Config{Broker: b, Touch: now})
		c := newClient(t, h)
		mustSubscribe(t, c, "room")
		b.deliver(pubsub.Message{Topic: "room", Lost: true})
		if now.lost != 1 {
			t.Errorf("%d losses", now.lost)
		}
		mustSubscribe(t, c, ReservedTopics+"user")
		b.deliver(pubsub.Message{Topic: ReservedTopics + "user", Lost: true})
		if now.lost != 1 {
			t.Error("a loss of what is sent to a user, which no right is for, counts")
		}
	})
}

// The same holds in the midst of what a client is sent of a log.
func TestNothingOfALogIsSentOutOfTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.NewBroker()
		config := withHistory(l, 1000)
		now := &touch{}
		config.Touch = now
		h := newHub(config)
		const n = 5 * atOnce
		for i := range n {
			mustPublish(t, h, event("a", i+1), PublishOptions{History: h.HistoryOf("a")})
		}
		page, err := l.Read(t.Context(), "a", h.HistoryOf("a").Kept, pubsub.ReadOptions{Messages: 1, Bytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, h)
		c.mayReplay = func() {
			c.mayReplay = nil
			now.set(true)
		}
		returned := make(chan error, 1)
		go func() { returned <- c.SubscribeFrom(t.Context(), "a", page.Messages[0].Position, Terms{}) }()
		synctest.Wait()
		if got := c.events(); len(got) > 0 {
			t.Errorf("a client is sent %v", got)
		}
		now.set(false)
		if err := <-returned; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := c.events(); !slices.Equal(got, numbers(2, n)) {
			t.Errorf("a client is sent %v", got)
		}
	})
}
