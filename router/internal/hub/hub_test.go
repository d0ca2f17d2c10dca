package hub

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/wire"
)

// turns gives each its turn at once.
type turns struct{}

func (turns) Await() {}
func (turns) Again() {}

// newHub makes a hub of its own, for which what is not set is set.
func newHub(c Config) *Hub {
	c.MaxTopics, c.MaxQueued, c.EndsCheck, c.TicketRenew = 100, 1<<20, time.Second, time.Hour
	c.Turns, c.Logger = turns{}, slog.New(slog.DiscardHandler)
	c.WasReset = func(pubsub.Loss) {}
	c.Panicked = func(where string, v any) error { return fmt.Errorf("%s: %v", where, v) }
	if c.HistoryOf == nil {
		c.HistoryOf = func(string) *History { return nil }
	}
	h := &Hub{Config: c}
	h.Init()
	return h
}

// client is a connection, and what its client has got.
type client struct {
	Peer
	stream *wire.Stream

	batching  atomic.Bool
	mayReplay func() // called by MayReplay, or nil
	mu        sync.Mutex
	got       []message
}

type message struct {
	Type string
	Meta struct{ Topic, Pos string }
	// Payload is a number in events of these tests.
	Payload json.RawMessage
}

var ids atomic.Int64

func newClient(t *testing.T, h *Hub) *client {
	t.Helper()
	there, here := net.Pipe()
	c := &client{stream: wire.NewStream(here, nil, time.Now())}
	c.stream.Out.Configure(h.MaxQueued, time.Minute, c)
	c.Init(h, fmt.Sprint("conn", ids.Add(1)), &c.stream.Out, c)
	go c.read(there)
	t.Cleanup(func() { c.End(false); _ = here.Close(); _ = there.Close() })
	return c
}

func (c *client) Ticket(topic string, joined []byte, _ time.Duration, _ time.Time) string {
	return topic + "|" + string(joined)
}
func (c *client) Trace([]byte)      {}
func (c *client) Batching() bool    { return c.batching.Load() }
func (c *client) SlowConsumer()     {}
func (c *client) FramesDropped(int) {}
func (c *client) BeforeWait()       {}

func (c *client) MayReplay() error {
	if c.mayReplay != nil {
		c.mayReplay()
	}
	return nil
}

// read keeps what comes. No frame of these tests has 64 KiB.
func (c *client) read(from net.Conn) {
	r := bufio.NewReader(from)
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		n := int(head[1])
		if n == 126 {
			_, _ = io.ReadFull(r, head)
			n = int(head[0])<<8 | int(head[1])
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(r, payload); err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(payload, &m); err != nil {
			panic(err)
		}
		c.mu.Lock()
		c.got = append(c.got, m)
		c.mu.Unlock()
	}
}

// events returns the numbers of the events that have come, when nothing else happens any more.
func (c *client) events() (numbers []int) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.got {
		if m.Type == "n" {
			var n int
			_ = json.Unmarshal(m.Payload, &n)
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// types returns the types of all that has come.
func (c *client) types() (types []string) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.got {
		types = append(types, m.Type)
	}
	return types
}

func event(topic string, n int) pubsub.Message {
	return pubsub.Message{Topic: topic, Frame: fmt.Appendf(nil, `{"type":"n","payload":%d}`, n)}
}

func numbers(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func mustSubscribe(t *testing.T, c *client, topic string) {
	t.Helper()
	if err := c.Subscribe(context.Background(), topic, Terms{}); err != nil {
		t.Fatal(err)
	}
}

func mustPublish(t *testing.T, h *Hub, m pubsub.Message, o PublishOptions) {
	t.Helper()
	if err := h.Publish(context.Background(), m, o); err != nil {
		t.Fatal(err)
	}
}

// brokers are the ways in which messages reach members: without a broker and with one.
func brokers(t *testing.T, test func(t *testing.T, broker pubsub.Broker)) {
	t.Helper()
	t.Parallel()
	t.Run("without a broker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, nil) })
	})
	t.Run("with a broker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, memory.NewBroker()) })
	})
}

// A member gets what is published between its joining and its leaving, once and in order; nobody else does.
func TestMembersGetWhatIsPublished(t *testing.T) {
	brokers(t, func(t *testing.T, broker pubsub.Broker) {
		h := newHub(Config{Broker: broker})
		first, second, other := newClient(t, h), newClient(t, h), newClient(t, h)
		mustSubscribe(t, first, "a")
		mustSubscribe(t, other, "b")
		for n := 1; n <= 9; n++ {
			if n == 4 {
				mustSubscribe(t, second, "a")
			}
			if n == 7 {
				first.Unsubscribe("a", false)
			}
			m := event("a", n)
			if n == 5 {
				m.Except = second.ID
			}
			mustPublish(t, h, m, PublishOptions{})
		}
		if got := first.events(); !slices.Equal(got, numbers(1, 6)) {
			t.Errorf("the first got %v", got)
		}
		if got := second.events(); !slices.Equal(got, []int{4, 6, 7, 8, 9}) {
			t.Errorf("the second got %v", got)
		}
		if got := other.events(); got != nil {
			t.Errorf("a member of another topic got %v", got)
		}
		if n := h.Counts.Delivered.Load(); n != 6+5 {
			t.Errorf("%d are counted as delivered", n)
		}
	})
}

// A connection that has ended is a member of nothing, becomes none, and was shown to have left.
func TestTheEndEndsMemberships(t *testing.T) {
	brokers(t, func(t *testing.T, broker pubsub.Broker) {
		var left []string
		h := newHub(Config{Broker: broker, NotPresent: func(_ *Peer, topic string, _ time.Duration) { left = append(left, topic) }})
		c := newClient(t, h)
		mustSubscribe(t, c, "a")
		mustSubscribe(t, c, "b")
		mustSubscribe(t, c, ReservedTopics+"c")
		if !c.Member("b").Show(0) {
			t.Error("a member cannot be shown")
		}
		joined := c.End(false)
		slices.Sort(joined)
		if !slices.Equal(joined, []string{"a", "b"}) {
			t.Errorf("it was a member of %v", joined)
		}
		if err := c.Subscribe(context.Background(), "a", Terms{}); err != ErrClosed {
			t.Errorf("subscribing after the end: %v", err)
		}
		if h.Members("a") != 0 || h.Topics() != 0 || len(c.Topics()) > 0 {
			t.Errorf("topics are left: %d", h.Topics())
		}
		if !slices.Equal(left, []string{"b"}) {
			t.Errorf("left the presence of %v", left)
		}
	})
}

// The limit counts the topics of the application alone, and what was refused takes no place.
func TestMaxTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(Config{})
		c := newClient(t, h)
		mustSubscribe(t, c, ReservedTopics+"x")
		for i := range h.MaxTopics {
			mustSubscribe(t, c, fmt.Sprint(i))
		}
		for range 2 {
			if err := c.Subscribe(context.Background(), "more", Terms{}); errors.CodeOf(err) != errors.ResourceExhausted {
				t.Errorf("one topic more: %v", err)
			}
		}
		mustSubscribe(t, c, "5") // is a member
		mustSubscribe(t, c, ReservedTopics+"y")
		c.Unsubscribe("5", false)
		mustSubscribe(t, c, "more")
	})
}

// What a batch publishes leaves when it ends, also if a broker delivers it at once; or when it is too much.
func TestABatchLeavesTogether(t *testing.T) {
	brokers(t, func(t *testing.T, broker pubsub.Broker) {
		h := newHub(Config{Broker: broker})
		from, to := newClient(t, h), newClient(t, h)
		mustSubscribe(t, to, "a")
		for n := 1; n <= 3; n++ {
			mustPublish(t, h, event("a", n), PublishOptions{Batch: &from.Peer})
		}
		if got := to.events(); got != nil {
			t.Errorf("%v left before the end of the batch", got)
		}
		from.FlushBatch()
		if got := to.events(); !slices.Equal(got, numbers(1, 3)) {
			t.Errorf("after it %v came", got)
		}
		for n := 4; n <= 2000; n++ {
			mustPublish(t, h, event("a", n), PublishOptions{Batch: &from.Peer})
		}
		if got := to.events(); len(got) < 1000 {
			t.Errorf("of 2,000 messages %d came before the end of the batch", len(got))
		}
		from.FlushBatchConcurrently()
		if got := to.events(); !slices.Equal(got, numbers(1, 2000)) {
			t.Errorf("%d messages came", len(got))
		}
	})
}

// slowBroker answers a subscription when it is told to.
type slowBroker struct {
	pubsub.Broker
	answers chan error
	open    atomic.Int64
	calls   atomic.Int64
	deaf    bool // to the end of contexts
}

func (b *slowBroker) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	b.calls.Add(1)
	if b.deaf {
		ctx = context.Background()
	}
	select {
	case err := <-b.answers:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.open.Add(1)
	sub, err := b.Broker.Subscribe(ctx, topic, deliver)
	return &closing{sub, b}, err
}

type closing struct {
	pubsub.Subscription
	b *slowBroker
}

func (c *closing) Close() error {
	c.b.open.Add(-1)
	return c.Subscription.Close()
}

// All that join while the broker is asked share one question. There is a subscription as long as there are members, and
// none after them, however they leave.
func TestOneSubscriptionAsLongAsThereAreMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &slowBroker{Broker: memory.NewBroker(), answers: make(chan error)}
		h := newHub(Config{Broker: b})
		clients := make([]*client, 5)
		results := make([]error, len(clients))
		var all sync.WaitGroup
		for i := range clients {
			clients[i] = newClient(t, h)
			all.Go(func() {
				ctx := context.Background()
				if i == 4 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				results[i] = clients[i].Subscribe(ctx, "a", Terms{})
			})
		}
		synctest.Wait()
		clients[3].Unsubscribe("a", false) // it still waits
		time.Sleep(2 * time.Second)
		b.answers <- nil
		all.Wait()
		if b.calls.Load() != 1 || b.open.Load() != 1 {
			t.Errorf("the broker was asked %d times, %d subscriptions are open", b.calls.Load(), b.open.Load())
		}
		for i, err := range results {
			if joined := err == nil; joined != (i < 3) {
				t.Errorf("client %d: %v", i, err)
			}
		}
		if h.Members("a") != 3 || results[3] != ErrClosed || errors.CodeOf(results[4]) != errors.Unavailable {
			t.Errorf("%d members; unsubscribed: %v; out of time: %v", h.Members("a"), results[3], results[4])
		}
		for _, c := range clients {
			c.End(false)
		}
		if b.open.Load() != 0 || h.Topics() != 0 {
			t.Errorf("%d subscriptions of %d topics are left", b.open.Load(), h.Topics())
		}
		// The broker fails: nobody is a member, and the next call asks again.
		c := newClient(t, h)
		go func() { b.answers <- errors.New("not reachable") }()
		if err := c.Subscribe(context.Background(), "a", Terms{}); errors.CodeOf(err) != errors.Unavailable || h.Topics() != 0 {
			t.Errorf("the broker has failed: %v, %d topics", err, h.Topics())
		}
		go func() { b.answers <- nil }()
		mustSubscribe(t, c, "a")
	})
}

// A member that comes when all others have given up, and the broker has not answered yet, gets the subscription.
func TestASubscriptionIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &slowBroker{Broker: memory.NewBroker(), answers: make(chan error), deaf: true}
		h := newHub(Config{Broker: b})
		first, second := newClient(t, h), newClient(t, h)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := first.Subscribe(ctx, "a", Terms{}); errors.CodeOf(err) != errors.Unavailable {
			t.Errorf("out of time: %v", err)
		}
		joined := make(chan error)
		go func() { joined <- second.Subscribe(context.Background(), "a", Terms{}) }()
		synctest.Wait()
		b.answers <- nil
		if err := <-joined; err != nil || b.calls.Load() != 1 {
			t.Errorf("%v; the broker was asked %d times", err, b.calls.Load())
		}
		mustPublish(t, h, event("a", 1), PublishOptions{})
		if got := second.events(); !slices.Equal(got, []int{1}) {
			t.Errorf("%v came", got)
		}
		second.End(false)
		if h.Topics() != 0 || b.open.Load() != 0 {
			t.Errorf("%d topics and %d subscriptions are left", h.Topics(), b.open.Load())
		}
	})
}

// Topics of the application are listed by name, up to a number.
func TestTopicsAreListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(Config{})
		c := newClient(t, h)
		for _, topic := range []string{"c", "a", "b", "x", ReservedTopics + "a"} {
			mustSubscribe(t, c, topic)
		}
		list, n := h.List(func(name string) bool { return name != "x" }, 2)
		if n != 3 || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" || list[0].Members != 1 {
			t.Errorf("%d: %v", n, list)
		}
	})
}

// A broker's panic, or runtime.Goexit, is the error of those that wait, and is reported once.
func TestABrokerThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(Config{Broker: panicking{}})
		reports := 0
		h.Panicked = func(where string, v any) error { reports++; return fmt.Errorf("%s: %v", where, v) }
		c := newClient(t, h)
		if err := c.Subscribe(context.Background(), "a", Terms{}); errors.CodeOf(err) != errors.Unavailable || reports != 1 || h.Topics() != 0 {
			t.Errorf("%v, reported %d times, %d topics are left", err, reports, h.Topics())
		}
	})
}

type panicking struct{ pubsub.Broker }

func (panicking) Subscribe(context.Context, string, func(pubsub.Message)) (pubsub.Subscription, error) {
	panic("broken")
}

// A message that no hub publishes does not reach members, and one with an overflow policy of a later version is dropped
// at clients that are too slow.
func TestMessagesOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBroker()
		h := newHub(Config{Broker: b})
		c := newClient(t, h)
		mustSubscribe(t, c, "a")
		for _, frame := range []string{
			"", "{", `{"type":"$ws:reset"}`, `{"type":"ERROR"}`, `{"type":"n","meta":{"correlationId":"1"}}`, "{\"type\":\"\xff\"}",
			`{"type":"n","payload":"` + string(make([]byte, h.MaxQueued)) + `"}`,
		} {
			_ = b.Publish(context.Background(), pubsub.Message{Topic: "a", Frame: []byte(frame)})
		}
		if types := c.types(); types != nil || h.Counts.Dropped.Load() != 7 {
			t.Errorf("%d are counted as dropped, %v came", h.Counts.Dropped.Load(), types)
		}
	})
	if o := overflowOf(pubsub.Message{Overflow: uint8(wire.LatestOnly)}); o != wire.LatestOnly {
		t.Errorf("latest only is taken as %d", o)
	}
	if o := overflowOf(pubsub.Message{Overflow: 255}); o != wire.DropNewest {
		t.Errorf("a policy that is not known is taken as %d", o)
	}
}

// Losses that the broker reports of topics without history are reported together, once: to the application and to
// members.
func TestLossesAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan []string, 4)
		b := &reporting{Broker: memory.NewBroker(), deliver: make(map[string]func(pubsub.Message))}
		h := newHub(Config{Broker: b, SendGaps: true, OnLost: func(topics []string) { reports <- topics }})
		both, one, none := newClient(t, h), newClient(t, h), newClient(t, h)
		for _, topic := range []string{"a", "b", ReservedTopics + "c"} {
			mustSubscribe(t, both, topic)
		}
		mustSubscribe(t, one, "b")
		mustSubscribe(t, none, "d")
		for _, topic := range []string{"b", "a", "b", ReservedTopics + "c"} {
			b.deliver[topic](pubsub.Message{Topic: topic, Lost: true})
		}
		synctest.Wait()
		if len(reports) > 0 {
			t.Errorf("%v are reported before more can come", <-reports)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(reports); n != 1 || h.Counts.Lost.Load() != 4 {
			t.Fatalf("%d reports, %d counted", n, h.Counts.Lost.Load())
		}
		if lost := <-reports; !slices.Equal(lost, []string{"a", "b"}) {
			t.Errorf("reported: %v", lost)
		}
		for c, want := range map[*client]string{both: `{"topics":["a","b"]}`, one: `{"topics":["b"]}`, none: ""} {
			types := c.types()
			if want == "" && types == nil {
				continue
			}
			if !slices.Equal(types, []string{typeGap}) || string(c.got[0].Payload) != want {
				t.Errorf("%v came, want one gap of %q", types, want)
			}
		}
	})
}

// Members get a gap also where the application has no use for losses.
func TestLossesAreReportedToMembersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &reporting{Broker: memory.NewBroker(), deliver: make(map[string]func(pubsub.Message))}
		h := newHub(Config{Broker: b, SendGaps: true})
		c := newClient(t, h)
		mustSubscribe(t, c, "a")
		b.deliver["a"](pubsub.Message{Topic: "a", Lost: true})
		time.Sleep(time.Second)
		synctest.Wait()
		if types := c.types(); !slices.Equal(types, []string{typeGap}) {
			t.Errorf("%v came", types)
		}
	})
}

// reporting is a broker through which the test delivers.
type reporting struct {
	pubsub.Broker
	deliver map[string]func(pubsub.Message)
}

func (b *reporting) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	b.deliver[topic] = deliver
	return b.Broker.Subscribe(ctx, topic, deliver)
}

// Whoever watches a topic by a member is told once that the member has left.
func TestAWatcherIsToldOfLeaving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(Config{})
		c := newClient(t, h)
		mustSubscribe(t, c, "a")
		m := c.Member("a")
		told := 0
		leave := func() { told++ }
		if first, ok := m.Watch(leave); !first || !ok {
			t.Error("not the first")
		}
		if first, ok := m.Watch(leave); first || !ok || m.HasLeft() {
			t.Error("the first again")
		}
		c.Unsubscribe("a", false)
		c.Unsubscribe("a", false)
		c.End(false)
		if told != 1 || !m.HasLeft() || m.Show(0) {
			t.Errorf("told %d times", told)
		}
		if _, ok := m.Watch(leave); ok {
			t.Error("a member that has left is watched")
		}
	})
}

// The names of topics that an application may use.
func TestNamesOfTopics(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "": false, "räume:日": true, strings.Repeat("x", 256): true, strings.Repeat("x", 257): false,
		ReservedTopics: false, ReservedTopics + "all": false, "$ws": true, "a\xff": false, "\xed\xa0\x80": false, "a\x00b": true,
	} {
		if err := CheckTopic(name); (err == nil) != ok || err != nil && errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%q: %v", name, err)
		}
	}
}
