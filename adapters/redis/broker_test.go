package redis_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

var ctx = context.Background()

func TestBroker(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		brokers := make([]pubsub.Broker, n)
		for i := range brokers {
			b := newBroker(t, s, redis.BrokerOptions{})
			// A topic without subscriptions leaves nothing behind.
			t.Cleanup(func() {
				stats := b.Stats()
				stats.Failed = 0 // the suite also publishes with a context that is over
				if stats != (redis.BrokerStats{}) {
					t.Errorf("after all subscriptions were closed: %+v", stats)
				}
			})
			brokers[i] = b
		}
		return brokers
	})
	eventually(t, "Redis has no channels", func() bool { return len(channels(s)) == 0 })
}

// channels are those with subscribers.
func channels(s *redistest.Server) []any {
	all, _ := s.Do("PUBSUB", "CHANNELS").([]any)
	return all
}

// topics are the channels of topics.
func topics(s *redistest.Server) (names []string) {
	for _, c := range channels(s) {
		if name, ok := c.(string); ok && strings.Contains(name, ":topic:") {
			names = append(names, name)
		}
	}
	return names
}

func newBroker(t *testing.T, s *redistest.Server, opts redis.BrokerOptions) redis.Broker {
	t.Helper()
	return brokerOn(t, &goredis.Options{Addr: s.Addr}, opts)
}

func brokerOn(t *testing.T, client *goredis.Options, opts redis.BrokerOptions) redis.Broker {
	t.Helper()
	client.ContextTimeoutEnabled = true
	c := goredis.NewClient(client)
	t.Cleanup(func() { _ = c.Close() })
	return openBroker(t, c, opts)
}

// openBroker makes a Broker. Without a Timeout in opts, it waits long for Redis.
func openBroker(t *testing.T, client goredis.UniversalClient, opts redis.BrokerOptions) redis.Broker {
	t.Helper()
	opts.Timeout = cmp.Or(opts.Timeout, patience/2)
	b := redis.NewBroker(client, opts)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// inbox is a subscriber that keeps what it gets, and counts the reports of losses.
type inbox struct {
	mu     sync.Mutex
	got    []pubsub.Message
	losses int
}

func (i *inbox) deliver(m pubsub.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m.Lost {
		i.losses++
		return
	}
	i.got = append(i.got, m)
}

// lost is how many losses have been reported.
func (i *inbox) lost() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.losses
}

// count is how often a frame came.
func (i *inbox) count(frame string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.got {
		if string(m.Frame) == frame {
			n++
		}
	}
	return n
}

func (i *inbox) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.got)
}

func subscribe(t *testing.T, b pubsub.Broker, topic string) *inbox {
	t.Helper()
	in := new(inbox)
	subscribeTo(t, b, topic, in.deliver)
	return in
}

func subscribeTo(t *testing.T, b pubsub.Broker, topic string, deliver func(pubsub.Message)) pubsub.Subscription {
	t.Helper()
	sub, err := b.Subscribe(ctx, topic, deliver)
	if err != nil {
		t.Fatalf("Subscribe to %q: %v", topic, err)
	}
	return sub
}

func publish(t *testing.T, b pubsub.Broker, topic, frame string) {
	t.Helper()
	if err := b.Publish(ctx, pubsub.Message{Topic: topic, Frame: []byte(frame)}); err != nil {
		t.Fatalf("Publish to %q: %v", topic, err)
	}
}

// newLog returns a logger and what it has logged.
func newLog() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var buf bytes.Buffer
	return slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return buf.Write(p)
		}), nil)), func() string {
			mu.Lock()
			defer mu.Unlock()
			return buf.String()
		}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestOneSubscriptionAtRedisPerTopicAndProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	if n := s.Calls("subscribe"); n != 0 {
		t.Errorf("%d SUBSCRIBE before the first subscription", n)
	}
	var inboxes [50]inbox
	subs := make([]pubsub.Subscription, len(inboxes))
	var wg sync.WaitGroup
	for i := range inboxes {
		wg.Go(func() { subs[i], _ = b.Subscribe(ctx, "room", inboxes[i].deliver) })
	}
	wg.Wait()
	if n := s.Calls("subscribe"); n != 2 {
		t.Errorf("%d SUBSCRIBE for 50 subscriptions of a topic; one for it, and one for the broker's own channel", n)
	}
	publish(t, b, "room", "hello")
	for i := range inboxes {
		eventually(t, "every subscription has the message", func() bool { return inboxes[i].count("hello") == 1 })
	}
	if got := topics(s); len(got) != 1 || got[0] != "wskit:topic:{room}" {
		t.Errorf("Redis has the topics %q", got)
	}
	for _, sub := range subs[1:] {
		_ = sub.Close()
	}
	publish(t, b, "room", "last")
	eventually(t, "the last subscription has the message", func() bool { return inboxes[0].count("last") == 1 })
	if n := s.Calls("unsubscribe"); n != 0 {
		t.Errorf("%d UNSUBSCRIBE while there is a subscription", n)
	}
	_ = subs[0].Close()
	eventually(t, "Redis has no topics", func() bool { return len(topics(s)) == 0 })
	eventually(t, "the topic is forgotten", func() bool { return b.Stats() == (redis.BrokerStats{}) })
}

func TestTopicsGoWithTheProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr})
	defer client.Close()
	b := redis.NewBroker(client)
	in := subscribe(t, b, "room")
	b.Close()
	b.Close()
	eventually(t, "Redis has no channels", func() bool { return len(channels(s)) == 0 })
	other := newBroker(t, s, redis.BrokerOptions{})
	publish(t, other, "room", "late")
	if in.len() != 0 {
		t.Error("a message came after Close")
	}
	if err := b.Publish(ctx, pubsub.Message{Topic: "room"}); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Publish after Close: %v", err)
	}
	if _, err := b.Subscribe(ctx, "room", in.deliver); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Subscribe after Close: %v", err)
	}
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{Timeout: patience})
	s.Kill()
	failed := make(chan error)
	go func() {
		_, err := b.Subscribe(ctx, "room", func(pubsub.Message) {})
		failed <- err
	}()
	eventually(t, "it waits", func() bool { return b.Stats().Missing == 1 })
	b.Close()
	if err := <-failed; !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Subscribe while Close: %v", err)
	}
}

func TestTopicNamesAreBoundedAndEscaped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{Prefix: "app/1"})
	for _, name := range []string{"", strings.Repeat("x", 1025)} {
		if err := b.Publish(ctx, pubsub.Message{Topic: name}); err == nil || !strings.Contains(err.Error(), "1 to 1024 bytes") {
			t.Errorf("Publish to a topic of %d bytes: %v", len(name), err)
		}
		if _, err := b.Subscribe(ctx, name, func(pubsub.Message) {}); err == nil || !strings.Contains(err.Error(), "1 to 1024 bytes") {
			t.Errorf("Subscribe to a topic of %d bytes: %v", len(name), err)
		}
	}
	for _, name := range []string{"a*", "{b}%", strings.Repeat("x", 1024)} {
		in := subscribe(t, b, name)
		publish(t, b, name, "hello")
		eventually(t, "the message is there", func() bool { return in.count("hello") == 1 })
	}
	for _, c := range channels(s) {
		if name := c.(string); !strings.HasPrefix(name, "app/1:") || strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 {
			t.Errorf("channel %q; it has the prefix, and one pair of braces for the hash slot", name)
		}
	}
	if n := s.Calls("psubscribe"); n != 0 {
		t.Errorf("%d PSUBSCRIBE", n)
	}
}

func TestPrefixesKeepApart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := newBroker(t, s, redis.BrokerOptions{Prefix: "a"}), newBroker(t, s, redis.BrokerOptions{Prefix: "b"})
	inA, inB := subscribe(t, a, "room"), subscribe(t, b, "room")
	publish(t, a, "room", "to a")
	publish(t, b, "room", "to b")
	eventually(t, "both have theirs", func() bool { return inA.count("to a") == 1 && inB.count("to b") == 1 })
	if inA.len() != 1 || inB.len() != 1 {
		t.Errorf("%d and %d messages", inA.len(), inB.len())
	}
}

// What others write to a channel is not believed.
func TestForeignMessagesAreIgnoredAndCounted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{MaxFrame: 1000})
	in := subscribe(t, b, "room")
	foreign := []string{
		"", "hello", "\x01", "\x02\x00\x00\x00x", "\x01\x00\xff\xff\xff\xff\x7f", "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\x01\x00\x05a", "\x01\x00\x00\x05a", "\x01\x00\x00\x00" + strings.Repeat("x", 1001), strings.Repeat("\xff", 1<<20),
	}
	for _, payload := range foreign {
		s.Do("PUBLISH", "wskit:topic:{room}", payload)
	}
	publish(t, b, "room", "genuine")
	eventually(t, "the genuine message is there", func() bool { return in.count("genuine") == 1 })
	if n := b.Stats().Ignored; n != int64(len(foreign)) || in.len() != 1 {
		t.Errorf("%d of %d ignored, %d delivered", n, len(foreign), in.len())
	}
	if err := b.Publish(ctx, pubsub.Message{Topic: "room", Frame: make([]byte, 1001)}); err == nil || !strings.Contains(err.Error(), "MaxFrame") {
		t.Errorf("publishing more than MaxFrame: %v", err)
	}
}

// One slow consumer delays no other, and what waits for it is bounded.
func TestSlowSubscriberLosesItsOwnMessagesAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const fit = 10
	b := newBroker(t, s, redis.BrokerOptions{MaxBuffered: fit * (128 + 4)})
	entered, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := new(inbox)
	subscribeTo(t, b, "room", func(m pubsub.Message) {
		once.Do(func() { close(entered); <-goOn })
		slow.deliver(m)
	})
	quick := subscribe(t, b, "room")
	publish(t, b, "room", "0000")
	<-entered // it counts for as long as it takes
	const messages = 100
	for i := 1; i < messages; i++ {
		frame := fmt.Sprintf("%04d", i)
		publish(t, b, "room", frame)
		eventually(t, "the quick subscriber has it", func() bool { return quick.count(frame) == 1 })
	}
	if n := b.Stats().Dropped; n != messages-fit {
		t.Errorf("%d dropped of %d, %d fit", n, messages, fit)
	}
	other := subscribe(t, b, "other")
	publish(t, b, "other", "hello")
	eventually(t, "other topics go on", func() bool { return other.count("hello") == 1 })
	close(goOn)
	eventually(t, "the slow subscriber has what fit", func() bool { return slow.len() == fit })
	for i, m := range slow.got {
		if want := fmt.Sprintf("%04d", i); string(m.Frame) != want {
			t.Errorf("message %d is %s", i, m.Frame)
		}
	}
	publish(t, b, "room", "more")
	eventually(t, "the slow subscriber gets messages again", func() bool { return slow.count("more") == 1 })
}

// However many subscribers are blocked at the same time, the others get their messages.
func TestBlockedSubscribersDelayNoOther(t *testing.T) {
	t.Parallel()
	b := newBroker(t, redistest.Start(t), redis.BrokerOptions{})
	const blocked = 20
	entered, goOn := make(chan struct{}, blocked), make(chan struct{})
	var slow inbox
	for i := range blocked {
		subscribeTo(t, b, fmt.Sprint("slow", i), func(m pubsub.Message) {
			entered <- struct{}{}
			<-goOn
			slow.deliver(m)
		})
	}
	quick := subscribe(t, b, "quick")
	for i := range blocked {
		publish(t, b, fmt.Sprint("slow", i), "wait")
	}
	for range blocked {
		<-entered
	}
	for i := range 3 {
		publish(t, b, "quick", "go")
		eventually(t, "the quick subscriber has it", func() bool { return quick.len() == i+1 })
	}
	close(goOn)
	eventually(t, "the others have theirs", func() bool { return slow.len() == blocked })
}

// A backlog says that more follows, and its last message does not.
func TestMoreFollows(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	entered, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	in := new(inbox)
	subscribeTo(t, b, "room", func(m pubsub.Message) {
		once.Do(func() { close(entered); <-goOn })
		in.deliver(m)
	})
	quick := subscribe(t, b, "room")
	publish(t, b, "room", "first")
	<-entered
	for range 3 {
		publish(t, b, "room", "more")
	}
	eventually(t, "they are here", func() bool { return quick.len() == 4 })
	close(goOn)
	eventually(t, "all are delivered", func() bool { return in.len() == 4 })
	for i, more := range []bool{false, true, true, false} {
		if in.got[i].More != more {
			t.Errorf("message %d: More is %v", i, in.got[i].More)
		}
	}
}

func TestBrokerOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	client := goredis.NewClient(&goredis.Options{})
	defer client.Close()
	ring := goredis.NewRing(&goredis.RingOptions{})
	defer ring.Close()
	for says, f := range map[string]func(){
		"BrokerOptions.Prefix":        func() { redis.NewBroker(client, redis.BrokerOptions{Prefix: "a{b}"}) },
		"BrokerOptions.Timeout":       func() { redis.NewBroker(client, redis.BrokerOptions{Timeout: -1}) },
		"BrokerOptions.HealthTimeout": func() { redis.NewBroker(client, redis.BrokerOptions{HealthTimeout: time.Millisecond}) },
		"BrokerOptions.MaxBuffered":   func() { redis.NewBroker(client, redis.BrokerOptions{MaxBuffered: -1}) },
		"BrokerOptions.MaxFrame":      func() { redis.NewBroker(client, redis.BrokerOptions{MaxFrame: -1}) },
		"Ring":                        func() { redis.NewBroker(ring) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "redis: ") || !strings.Contains(text, says) {
					t.Errorf("%s: the panic says %q", says, text)
				}
			}()
			f()
		}()
	}
}

func TestBrokerAndPresenceOfAnAddress(t *testing.T) {
	t.Parallel()
	s, c := redistest.Start(t), redistest.StartCluster(t, 3)
	b := redis.NewBroker(openClient(t, s.URL()))
	in := subscribe(t, b, "room")
	publish(t, b, "room", "hello")
	eventually(t, "it arrives", func() bool { return in.count("hello") == 1 })
	b.Close()
	b.Close()

	p := redis.NewPresence(openClient(t, c.Nodes[0].URL()))
	join(t, p, "room", "a")
	become(t, p, "room", "a")
	p.Close()
	p.Close()

	s.Kill()
	for _, address := range []string{s.URL(), "nonsense"} {
		if _, err := redis.OpenStore(ctx, address); err == nil || !strings.HasPrefix(err.Error(), "redis: ") {
			t.Errorf("Open(%q): %v", address, err)
		}
	}
}

// openClient is the client of a store at an address.
func openClient(t *testing.T, address string) goredis.UniversalClient {
	t.Helper()
	return openStore(t, address).Client()
}

// openStore opens a store of which no call fails because Redis, or this process, does not run for a second.
func openStore(t *testing.T, address string) (s redis.Store) {
	t.Helper()
	query := "?"
	if strings.Contains(address, "?") {
		query = "&"
	}
	address += query + "dial_timeout=1m&read_timeout=1m&write_timeout=1m&pool_timeout=1m"
	eventually(t, "Redis answers within the second that OpenStore waits", func() (answers bool) {
		var err error
		s, err = redis.OpenStore(ctx, address)
		if timeout := net.Error(nil); err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { _ = s.Close() })
	return s
}
