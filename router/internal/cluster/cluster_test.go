package cluster

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
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// cutBroker is one process's way to a broker, which can be cut.
type cutBroker struct {
	memory.Broker

	mu    sync.Mutex
	deaf  bool // its subscriptions are lost
	mute  bool // it cannot publish
	subs  map[*cutSubscription]bool
	calls int
}

type cutSubscription struct {
	b       *cutBroker
	topic   string
	deliver func(pubsub.Message)
	pubsub.Subscription
}

func newCutBroker(shared memory.Broker) *cutBroker {
	return &cutBroker{Broker: shared, subs: make(map[*cutSubscription]bool)}
}

func (b *cutBroker) Subscribe(
	ctx context.Context, topic string, deliver func(pubsub.Message),
) (pubsub.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.deaf {
		return nil, errors.New("not reachable")
	}
	s := &cutSubscription{b: b, topic: topic, deliver: deliver}
	s.Subscription, _ = b.Broker.Subscribe(ctx, topic, deliver)
	b.subs[s] = true
	return s, nil
}

func (s *cutSubscription) Close() error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	delete(s.b.subs, s)
	return s.Subscription.Close()
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

// cut cuts a process off, or connects it again.
func (b *cutBroker) cut(deaf, mute bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = mute
	if deaf == b.deaf {
		return
	}
	b.deaf = deaf
	for s := range b.subs {
		if deaf {
			_ = s.Subscription.Close()
		} else {
			s.Subscription, _ = b.Broker.Subscribe(context.Background(), s.topic, s.deliver)
		}
	}
}

const testProcessTimeout = 6 * time.Second

// process is one of several, and has a connection.
type process struct {
	*Cluster[string]
	stop func()
	back atomic.Int32 // calls of Back
}

var everyone = Target{Topic: "$ws:all"}

// count counts the connections of all.
func (p *process) count() (int, error) {
	n, err := p.Count(context.Background(), everyone)
	return n + 1, err
}

// newProcess is one whose connection is called as it.
func newProcess(t *testing.T, b pubsub.ReceiverCounter, name string) *process {
	ctx, stop := context.WithCancel(context.Background())
	p := &process{stop: stop}
	p.Cluster = New(Config[string]{
		Broker: b, Timeout: 4 * time.Second, ProcessTimeout: testProcessTimeout, Stop: ctx, Topics: "$ws:",
		Back:    func() { p.back.Add(1) },
		Count:   func(Target) int { return 1 },
		List:    func(Target) ([]string, bool) { return []string{name}, true },
		Close:   func(Target, errors.CloseCode, string) int { return 1 },
		Deliver: func(string, pubsub.Message) error { return nil },
		Refuse:  func(topic string, err error) { t.Errorf("a message of %s is refused: %v", topic, err) },
	})
	t.Cleanup(func() {
		stop()
		p.Leave(context.Background())
	})
	return p
}

// cutOff runs a test in a bubble with n processes.
func cutOff(t *testing.T, n int, test func(t *testing.T, processes []*process, brokers []*cutBroker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared := memory.NewBroker()
		var processes []*process
		var brokers []*cutBroker
		for i := range n {
			b := newCutBroker(shared)
			p := newProcess(t, b, fmt.Sprint(i))
			if err := p.AwaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			processes, brokers = append(processes, p), append(brokers, b)
		}
		test(t, processes, brokers)
	})
}

// counts counts until the number is there; until then it is unknown, or one of those that are right.
func counts(t *testing.T, p *process, what string, want int, right ...int) {
	t.Helper()
	poll.Until(t, what, func() bool {
		n, err := p.count()
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

// staysUnknown counts for longer than a process is waited for, and longer.
func staysUnknown(t *testing.T, p *process, what string) {
	t.Helper()
	for end := time.Now().Add(3 * testProcessTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n, err := p.count(); errors.CodeOf(err) != errors.Unavailable {
			t.Fatalf("%s: %d, %v are counted", what, n, err)
		}
	}
}

func TestAProcessWithoutItsSubscriptionsIsNotLeftOut(t *testing.T) {
	t.Parallel()
	cutOff(t, 3, func(t *testing.T, r []*process, b []*cutBroker) {
		counts(t, r[0], "all are reached", 3)
		b[1].cut(true, false)
		staysUnknown(t, r[0], "one is not reached")
		b[1].cut(false, false)
		counts(t, r[0], "all are reached again", 3)
	})
}

func TestAProcessThatDoesNotAnswerIsNotLeftOut(t *testing.T) {
	t.Parallel()
	cutOff(t, 3, func(t *testing.T, r []*process, b []*cutBroker) {
		counts(t, r[0], "all are reached", 3)
		b[1].cut(false, true)
		staysUnknown(t, r[0], "one does not answer")
		b[1].cut(false, false)
		counts(t, r[0], "all answer again", 3)
	})
}

func TestAProcessThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	cutOff(t, 3, func(t *testing.T, r []*process, b []*cutBroker) {
		counts(t, r[0], "all are reached", 3)
		b[1].cut(true, true)
		counts(t, r[0], "one is gone", 2)
		b[1].cut(false, false)
		counts(t, r[0], "it is back", 3, 2)
	})
}

// The broker is away for long, and the processes reach it again one after the other.
func TestAnOutageOfTheBrokerLosesNoProcess(t *testing.T) {
	t.Parallel()
	cutOff(t, 3, func(t *testing.T, r []*process, b []*cutBroker) {
		for range 10 {
			counts(t, r[0], "all are reached", 3)
			for _, b := range b {
				b.cut(true, true)
			}
			staysUnknown(t, r[0], "the broker is away")
			for _, i := range rand.Perm(len(b)) {
				b[i].cut(true, false) // publishing works first
				time.Sleep(testProcessTimeout / 16)
				if _, err := r[0].count(); err == nil {
					t.Fatal("all are counted where some are not reached")
				}
			}
			for i := range b {
				time.Sleep(rand.N(testProcessTimeout / 2))
				b[i].cut(false, false)
				if n, err := r[0].count(); err == nil && n != 3 {
					t.Fatalf("%d are counted", n)
				}
			}
		}
	})
}

// The first process that reaches the broker again does not count without the others, however long the
// outage was.
func TestAnOutageDoesNotCountAsSilence(t *testing.T) {
	t.Parallel()
	cutOff(t, 2, func(t *testing.T, r []*process, b []*cutBroker) {
		counts(t, r[0], "both are reached", 2)
		for _, b := range b {
			b.cut(true, true)
		}
		time.Sleep(testProcessTimeout * 3 / 2)
		back := time.Now()
		b[0].cut(false, false)
		for ; time.Since(back) < testProcessTimeout; time.Sleep(time.Millisecond) {
			n, err := r[0].count()
			if err == nil && time.Since(back) < testProcessTimeout {
				t.Fatalf("%d are counted %v after the outage", n, time.Since(back))
			}
		}
		b[1].cut(false, false)
		counts(t, r[0], "both are reached again", 2, 1)
	})
}

// A process that has been shut down need not be waited for.
func TestAProcessThatEndsIsForgottenAtOnce(t *testing.T) {
	t.Parallel()
	cutOff(t, 3, func(t *testing.T, r []*process, _ []*cutBroker) {
		counts(t, r[0], "all are reached", 3)
		r[1].stop()
		r[1].Leave(t.Context())
		start := time.Now()
		if n, err := r[0].count(); n != 2 || err != nil || time.Since(start) > 0 {
			t.Errorf("after a process has ended: %d, %v after %v", n, err, time.Since(start))
		}
	})
}

// Each process lists, closes and counts for all that ask, and the sum is right.
func TestAllProcessesAnswer(t *testing.T) {
	t.Parallel()
	cutOff(t, 4, func(t *testing.T, all []*process, _ []*cutBroker) {
		for i, p := range all {
			list, ok, err := p.List(t.Context(), everyone)
			slices.Sort(list)
			want := slices.Delete([]string{"0", "1", "2", "3"}, i, i+1)
			if !ok || err != nil || !slices.Equal(list, want) {
				t.Errorf("process %d lists %q, %t, %v", i, list, ok, err)
			}
			if n, err := p.Close(t.Context(), everyone, 4000, ""); n != 3 || err != nil {
				t.Errorf("process %d closes %d, %v", i, n, err)
			}
		}
		// A connection is asked for at its process alone.
		id := all[2].NewID()
		if n, err := all[0].Count(t.Context(), Target{ID: id}); n != 1 || err != nil || !all[0].Elsewhere(Target{ID: id}) {
			t.Errorf("%d, %v", n, err)
		}
		if all[2].Elsewhere(Target{ID: id}) || all[2].Elsewhere(Target{ID: "no such"}) {
			t.Error("a connection of this process is looked for elsewhere")
		}
	})
}

// A process knows for how long the others wait for it, and when they do so again: before they have forgotten it, and not later.
func TestAProcessKnowsWhetherItIsWaitedFor(t *testing.T) {
	t.Parallel()
	cutOff(t, 2, func(t *testing.T, r []*process, b []*cutBroker) {
		counts(t, r[0], "both are reached", 2)
		for _, c := range []struct{ deaf, mute bool }{{true, true}, {false, true}, {true, false}} {
			if !r[1].IsWaitedFor() {
				t.Error("a process is not waited for")
			}
			b[1].cut(c.deaf, c.mute)
			for cut := time.Now(); r[1].IsWaitedFor(); time.Sleep(time.Millisecond) {
				if time.Since(cut) > testProcessTimeout {
					t.Fatalf("%+v: a process that is cut off does not know it", c)
				}
			}
			if n, err := r[0].count(); err == nil && c.mute {
				t.Errorf("%+v: it is forgotten, %d are counted, and it has not known", c, n)
			}
			over, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := r[1].Renew(over); err == nil {
				t.Errorf("%+v: it renews what does not reach it", c)
			}
			cancel()
			if n := r[1].back.Swap(0); n > 0 {
				t.Errorf("%+v: it is said to be back", c)
			}
			b[1].cut(false, false)
			if err := r[1].Renew(t.Context()); err != nil || !r[1].IsWaitedFor() {
				t.Errorf("%+v: Renew: %v", c, err)
			}
			if n := r[1].back.Swap(0); n != 1 {
				t.Errorf("%+v: it is back %d times", c, n)
			}
			if n, err := r[0].count(); err != nil && errors.CodeOf(err) != errors.Unavailable || err == nil && n != 2 {
				t.Errorf("%+v: %d, %v are counted after Renew", c, n, err)
			}
			counts(t, r[0], "both are reached again", 2)
		}
	})
}
