package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// cutBroker is one process's way to a broker, which can be cut.
type cutBroker struct {
	memory.Broker

	mu    sync.Mutex
	mute  bool                           // it cannot publish
	subs  map[string]pubsub.Subscription // by topic
	calls int
}

func newCutBroker(shared memory.Broker) *cutBroker {
	return &cutBroker{Broker: shared, subs: make(map[string]pubsub.Subscription)}
}

func (b *cutBroker) Subscribe(ctx context.Context, topic string, deliver func(pubsub.Message)) (pubsub.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	sub, err := b.Broker.Subscribe(ctx, topic, deliver)
	b.subs[topic] = sub
	return sub, err
}

func (b *cutBroker) Publish(ctx context.Context, m pubsub.Message) error {
	_, err := b.PublishCounted(ctx, m)
	return err
}

func (b *cutBroker) PublishCounted(ctx context.Context, m pubsub.Message) (int, error) {
	b.mu.Lock()
	b.calls++
	mute := b.mute
	b.mu.Unlock()
	if mute {
		return 0, errors.New("not reachable")
	}
	return b.Broker.PublishCounted(ctx, m)
}

// cut has the process publish nothing any more.
func (b *cutBroker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = true
}

const testProcessTimeout = 6 * time.Second

// cutRouters runs a test in a bubble with n processes, each with a connection of ann.
func cutRouters(t *testing.T, n int, test func(t *testing.T, routers []*router.Router, brokers []*cutBroker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared := memory.NewBroker()
		var routers []*router.Router
		var brokers []*cutBroker
		for range n {
			b := newCutBroker(shared)
			r := router.New(router.Options{
				Backend: adapters.Backend{Broker: b, ProcessTimeout: testProcessTimeout}, Authenticate: asUser,
				Addressing: router.AddressingOptions{Enabled: true, Timeout: 4 * time.Second},
				Liveness:   router.Liveness{PingInterval: -1},
			})
			routertest.New(t, r).Dial(routertest.DialOptions{Header: http.Header{"X-Tenant": {"acme"}, "X-User": {"ann"}}})
			routers, brokers = append(routers, r), append(brokers, b)
		}
		test(t, routers, brokers)
	})
}

// counts counts until the number is there; until then it is unknown, or one of those that are right.
func counts(t *testing.T, r *router.Router, what string, want int, right ...int) {
	t.Helper()
	eventually(t, what, func() bool {
		n, err := r.User("acme", "ann").Count(context.Background())
		if err != nil {
			if errors.CodeOf(err) != errors.Unavailable {
				t.Fatal(err)
			}
			return false
		}
		if n != want && !slices.Contains(right, n) {
			t.Fatalf("%s: %d are counted, want %d", what, n, want)
		}
		return n == want
	})
}

// What is published at the topics of processes by others is counted and ignored.
func TestForeignMessagesBetweenProcesses(t *testing.T) {
	t.Parallel()
	cutRouters(t, 1, func(t *testing.T, routers []*router.Router, b []*cutBroker) { foreignMessages(t, routers[0], b[0]) })
}

func foreignMessages(t *testing.T, r *router.Router, b *cutBroker) {
	t.Helper()
	counts(t, r, "it is there", 1)
	b.mu.Lock()
	var process string
	for topic := range b.subs {
		if strings.HasPrefix(topic, "$ws:process:") {
			process = topic
		}
	}
	b.mu.Unlock()
	other := strings.Repeat("A", 16)
	valid := fmt.Sprintf(`{"kind":"query","from":%q,"query":1,"do":"close","topic":"$ws:all","code":4000}`, other)
	topics := func(do, list string) string {
		return fmt.Sprintf(`{"kind":"query","from":%q,"query":1,"do":%q,"topic":"$ws:all","topics":[%s]}`, other, do, list)
	}
	var sent int64
	for _, frame := range []string{
		"", "{}", "null", "[]", "\n", "\xff", strings.Repeat("[", 1<<20), strings.Repeat(" ", 3<<20) + "{}",
		strings.Replace(valid, other, "a", 1), strings.Replace(valid, other, other+"A", 1), strings.Replace(valid, other, strings.Repeat("*", 16), 1),
		strings.Replace(valid, "query", "other", 1), strings.Replace(valid, `"close"`, `"drop"`, 1), strings.Replace(valid, "4000", "1005", 1),
		strings.Replace(valid, "4000", "-1", 1), strings.Replace(valid, "4000", "70000", 1), strings.Replace(valid, "$ws:", "", 1),
		strings.Replace(valid, "$ws:all", "$ws:"+strings.Repeat("x", 300), 1), strings.Replace(valid, `"topic":"$ws:all"`, `"id":"`+strings.Repeat("x", 300)+`"`, 1),
		fmt.Sprintf(`{"kind":"alive","from":%q}`, other), fmt.Sprintf(`{"kind":"alive","from":%q,"timeoutMs":-5}`, other),
		fmt.Sprintf(`{"kind":"answer","from":%q,"n":-5}`, other), fmt.Sprintf(`{"kind":"answer","from":%q,"n":99999999999999999999}`, other),
		fmt.Sprintf(`{"kind":"send","from":%q}`, other), fmt.Sprintf(`{"kind":"send","from":%q,"id":"x"}`, other), valid + "\n{}",
		fmt.Sprintf(`{"kind":"send","from":%q,"id":"x"}`+"\n"+`{"type":"ERROR"}`, other),
		topics("subscribe", ""), topics("unsubscribe", ""), topics("subscribe", `"a","$ws:all"`), topics("unsubscribe", `"a",""`),
		topics("subscribe", `"`+strings.Repeat("x", 300)+`"`), topics("unsubscribe", strings.Repeat(`"a",`, 1000)+`"a"`), topics("subscribe", `1`),
	} {
		for _, topic := range []string{"$ws:fleet", process} {
			_ = b.Publish(context.Background(), pubsub.Message{Topic: topic, Frame: []byte(frame)})
			sent++
		}
	}
	if n := r.Stats().Foreign; n != sent {
		t.Errorf("%d of %d were counted", n, sent)
	}
	// Any bytes of a valid one may change.
	for range 5_000 {
		frame := []byte(strings.Replace(valid, `"do":"close"`, `"do":"count"`, 1))
		for range 1 + rand.IntN(3) {
			frame[rand.IntN(len(frame))] = byte(rand.IntN(256))
		}
		_ = b.Publish(context.Background(), pubsub.Message{Topic: []string{"$ws:fleet", process}[rand.IntN(2)], Frame: frame})
	}
	if n := r.Stats().Connections; n != 1 {
		t.Errorf("%d connections are open", n)
	}
}

// Without addressing there is no subscription but those of topics.
func TestWithoutAddressingTheBrokerIsNotUsed(t *testing.T) {
	t.Parallel()
	b := newCutBroker(memory.NewBroker())
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: b}, Authenticate: asUser}, nil)
	p := s.dial(as("acme", "ann"))
	p.write(echo("1", "x"))
	p.expect("reply 1 x")
	if b.calls != 0 || s.r.Stats().Topics != 0 {
		t.Errorf("%d calls of the broker, %d topics", b.calls, s.r.Stats().Topics)
	}
}

func TestBrokersThatDoNotCount(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "pubsub.ReceiverCounter") {
			t.Errorf("New: %s", v)
		}
	}()
	router.New(router.Options{Backend: adapters.Backend{Broker: new(stage)}, Addressing: router.AddressingOptions{Enabled: true}})
}
