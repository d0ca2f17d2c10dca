package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/follow"
)

// lossy is a log whose subscriptions lose, repeat and swap messages.
type lossy struct {
	memory.Broker
	mu   sync.Mutex
	rand *rand.Rand
	held map[string]pubsub.Message
}

func (l *lossy) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	return l.Broker.Subscribe(ctx, topic, func(m pubsub.Message) {
		l.mu.Lock()
		held, swap := l.held[topic]
		delete(l.held, topic)
		n := l.rand.IntN(10)
		if n == 0 {
			l.held[topic] = m
		}
		l.mu.Unlock()
		switch n {
		case 0, 1: // it comes after the next, or never
		case 2:
			deliver(m)
			deliver(m)
		default:
			deliver(m)
		}
		if swap {
			deliver(held)
		}
	})
}

func withHistory(l pubsub.Log, kept int) Config {
	h := &History{Log: l, Kept: pubsub.History{Messages: kept, Bytes: 1 << 20, Age: time.Hour}}
	return Config{Broker: l, HistoryOf: func(topic string) *History {
		if IsReserved(topic) {
			return nil
		}
		return h
	}}
}

// positions returns the position of each event that has come.
func (c *client) positions(t *testing.T) (all []pubsub.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.got {
		if m.Type != "n" {
			continue
		}
		at, err := pubsub.ParsePosition(m.Meta.Pos)
		if err != nil || m.Meta.Topic != "a" {
			t.Errorf("%+v has no position of the topic", m)
		}
		all = append(all, at)
	}
	return all
}

// Whatever a broker loses, repeats or swaps on the way, each member gets what is published after it has joined, once
// and in order; and clients that come back at any time with a position get all after that.
func TestNothingIsLostAndNothingComesTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			l := &lossy{
				Broker: memory.NewBroker(), rand: rand.New(rand.NewPCG(seed, 1)), held: make(map[string]pubsub.Message),
			}
			h := newHub(withHistory(l, 10_000))
			stays := newClient(t, h)
			mustSubscribe(t, stays, "a")
			const n = 500
			publish := func(from, to int) {
				for i := from; i <= to; i++ {
					mustPublish(t, h, event("a", i), PublishOptions{History: h.HistoryOf("a")})
					if i%7 > 3 || i == to {
						synctest.Wait()
					}
				}
			}
			publish(1, n/2)
			time.Sleep(time.Minute) // the end of the log has been looked at
			if got := stays.events(); !slices.Equal(got, numbers(1, n/2)) {
				t.Fatalf("seed %d: the member got %d: %v", seed, len(got), got)
			}
			at := stays.positions(t)
			var all sync.WaitGroup
			returning := make([]*client, 5)
			since := make([]int, len(returning))
			for i := range returning {
				returning[i], since[i] = newClient(t, h), rand.IntN(n/2)
				all.Go(func() {
					if err := returning[i].SubscribeFrom(context.Background(), "a", at[since[i]], Terms{}); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			publish(n/2+1, n)
			all.Wait()
			time.Sleep(time.Minute)
			for i, c := range returning {
				if got := c.events(); !slices.Equal(got, numbers(since[i]+2, n)) {
					t.Errorf("seed %d: who came back after %d got %d: %v", seed, since[i]+1, len(got), got)
				}
			}
			if got := stays.events(); !slices.Equal(got, numbers(1, n)) {
				t.Errorf("seed %d: the member got %d", seed, len(got))
			}
			if h.Counts.Recovered.Load() == 0 {
				t.Errorf("seed %d: nothing was lost", seed)
			}
		})
	}
}

// dropping is a log whose subscriptions lose what the test says.
type dropping struct {
	memory.Broker
	drop atomic.Bool
}

func (l *dropping) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	return l.Broker.Subscribe(ctx, topic, func(m pubsub.Message) {
		if !l.drop.Load() {
			deliver(m)
		}
	})
}

// What was lost comes with the next message at once, and without one when the end of the log is looked at.
func TestWhenALossIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &dropping{Broker: memory.NewBroker()}
		h := newHub(withHistory(l, 10))
		c := newClient(t, h)
		mustSubscribe(t, c, "a")
		for n := 1; n <= 4; n++ {
			l.drop.Store(n%2 == 0)
			mustPublish(t, h, event("a", n), PublishOptions{History: h.HistoryOf("a")})
			synctest.Wait()
		}
		if got := c.events(); !slices.Equal(got, numbers(1, 3)) {
			t.Errorf("without a wait %v came", got)
		}
		time.Sleep(h.EndsCheck * 5 / 4)
		if got := c.events(); !slices.Equal(got, numbers(1, 4)) {
			t.Errorf("after a look at the end of the log %v came", got)
		}
		if n := h.Counts.Recovered.Load(); n != 3 { // 2 and 3 in one page, then 4
			t.Errorf("%d are counted as recovered", n)
		}
	})
}

// A client that has missed as many messages as may be replayed gets them; one that has missed more is told so.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := withHistory(memory.NewBroker(), 100)
		config.HistoryOf("a").Replay = 5
		h := newHub(config)
		stays := newClient(t, h)
		mustSubscribe(t, stays, "a")
		for n := 1; n <= 20; n++ {
			mustPublish(t, h, event("a", n), PublishOptions{History: h.HistoryOf("a")})
		}
		stays.events()
		for after, want := range map[int][]int{15: numbers(16, 20), 14: nil} {
			c := newClient(t, h)
			_, _, err := c.Resume(context.Background(), "a", stays.positions(t)[after-1], Terms{})
			reset, _ := errors.AsType[*Reset](err)
			if got := c.events(); !slices.Equal(got, want) || (reset == nil) != (want != nil) || reset != nil && reset.Reason != follow.LossTooFar {
				t.Errorf("after %d: %v, %v", after, got, err)
			}
		}
	})
}

// A client that comes back for messages that are not kept any more is told so, and gets what is published from then on.
func TestWhatIsNotKeptIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(withHistory(memory.NewBroker(), 10))
		of := h.HistoryOf("a")
		stays := newClient(t, h)
		mustSubscribe(t, stays, "a")
		for n := 1; n <= 30; n++ {
			mustPublish(t, h, event("a", n), PublishOptions{History: of})
		}
		stays.events()
		for _, c := range []struct {
			after int
			lost  pubsub.Loss
		}{{5, pubsub.LossTrimmed}, {20, ""}, {30, ""}} {
			p := newClient(t, h)
			replayed, _, err := p.Resume(context.Background(), "a", stays.positions(t)[c.after-1], Terms{})
			want, types := 30-c.after, []string(nil)
			if c.lost != "" {
				want, types = 0, append(types, typeReset)
			}
			reset, _ := errors.AsType[*Reset](err)
			if (reset != nil) != (c.lost != "") || reset != nil && reset.Reason != c.lost || replayed != want {
				t.Errorf("after %d: %d came, %v", c.after, replayed, err)
			}
			if got := p.types(); !slices.Equal(got[:len(types)], types) || len(got) != len(types)+want {
				t.Errorf("after %d: %v", c.after, got)
			}
			p.End(false)
		}
	})
}

// A connection that the server has subscribed already goes back to where its client was, once: it gets $ws:subscribed and
// then all that its client has missed, in order. What others publish meanwhile is neither lost nor sent twice, and it leaves
// as any member.
func TestAMemberGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(withHistory(memory.NewBroker(), 200))
		of := h.HistoryOf("a")
		stays := newClient(t, h)
		mustSubscribe(t, stays, "a")
		publish := func(from, to int) {
			for n := from; n <= to; n++ {
				mustPublish(t, h, event("a", n), PublishOptions{History: of})
			}
		}
		publish(1, 20)
		stays.events()
		at := stays.positions(t)
		p := newClient(t, h)
		mustSubscribe(t, p, "a")
		publish(21, 23)
		var publishing sync.WaitGroup
		publishing.Go(func() { publish(24, 100) })
		replayed, _, err := p.Resume(context.Background(), "a", at[9], Terms{})
		publishing.Wait()
		time.Sleep(time.Minute)
		if err != nil || replayed < 13 {
			t.Errorf("%d were sent, %v", replayed, err)
		}
		want := append(numbers(21, 23), numbers(11, 100)...)
		if got := p.events(); !slices.Equal(got, want) {
			t.Errorf("it got %v", got)
		}
		if _, _, err := p.Resume(context.Background(), "a", at[9], Terms{}); err == nil {
			t.Error("it went back twice")
		}
		if err := p.SubscribeFrom(context.Background(), "a", at[9], Terms{}); err == nil {
			t.Error("SubscribeFrom lets a member go back")
		}
		p.Unsubscribe("a", false)
		publish(101, 101)
		time.Sleep(time.Minute)
		if got := p.events(); !slices.Equal(got, want) {
			t.Errorf("after it left it got %v", got)
		}
		if got := stays.events(); !slices.Equal(got, numbers(1, 101)) {
			t.Errorf("the other member got %v", got)
		}
		stays.Unsubscribe("a", false)
		if n := h.Topics(); n > 0 {
			t.Errorf("the hub keeps %d topics", n)
		}
	})
}

// A member is told where it begins before the first event, gets a ticket with what it has joined with, and is told when
// it leaves by itself. The same message twice is one.
func TestWhatAMemberOfALogIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(withHistory(memory.NewBroker(), 10))
		c := newClient(t, h)
		mustSubscribe(t, c, "a")
		c.Member("a").Remember([]byte("me"))
		for range 2 {
			mustPublish(t, h, event("a", 1), PublishOptions{History: h.HistoryOf("a"), ID: "same"})
		}
		c.Unsubscribe("a", false)
		if got := c.types(); !slices.Equal(got, []string{typeSubscribed, typeSubscribed, "n", typeUnsubscribed}) {
			t.Errorf("%v came", got)
		}
		for i, ticket := range []string{"a|", "a|me"} {
			if got := string(c.got[i].Payload); got != fmt.Sprintf(`{"topic":"a","pos":"%s","ticket":"%s"}`, posOf(got), ticket) {
				t.Errorf("message %d: %s", i, got)
			}
		}
		if err := h.Publish(context.Background(), event("a", 2), PublishOptions{History: h.HistoryOf("a"), ID: "other"}); err != nil {
			t.Error(err)
		}
		big := pubsub.Message{Topic: "a", Frame: []byte(`{"type":"n","payload":"` + string(make([]byte, h.MaxQueued)) + `"}`)}
		if err := h.Publish(context.Background(), big, PublishOptions{History: h.HistoryOf("a")}); err == nil {
			t.Error("a message was published that no client can get")
		}
	})
}

// posOf cuts the position out of a $ws:subscribed.
func posOf(payload string) string {
	var at string
	_, _ = fmt.Sscanf(payload, `{"topic":"a","pos":%q`, &at)
	return at
}
