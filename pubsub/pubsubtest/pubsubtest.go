// Package pubsubtest checks that a [pubsub.Broker] keeps its contract.
//
// The test of a broker passes a function that opens several of them, which share topics as the
// processes of one deployment do:
//
//	func TestBroker(t *testing.T) {
//		pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
//			brokers := make([]pubsub.Broker, n)
//			for i := range brokers {
//				b := open(t) // connected to the same server
//				t.Cleanup(func() { b.Close() })
//				brokers[i] = b
//			}
//			return brokers
//		})
//	}
//
// For a broker within one process, return the same broker n times.
//
// A failure names the broken rule and the observation. Brokers may deliver long after Publish
// has returned: the suite waits for expected messages, and checks that others do not come by
// waiting for a message that was sent after them. It
// uses no clock except for its time limit of a minute; [RunLog] also measures how long messages are kept.
// Its topics have random names, so that several runs may share a server. Run it with the race detector.
package pubsubtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
)

// timeLimit is how long the suite waits for an event before it fails.
var timeLimit = time.Minute

// Run runs the suite. It calls newBrokers for every part of it, for n brokers
// that share topics; newBrokers registers what has to be closed with t.Cleanup.
func Run(t *testing.T, newBrokers func(t *testing.T, n int) []pubsub.Broker) {
	run(t, func(t *testing.T, n int) *suite {
		brokers := newBrokers(t, n)
		if len(brokers) != n {
			t.Fatalf("pubsubtest: newBrokers returned %d brokers, asked for %d", len(brokers), n)
		}
		return &suite{T: t, brokers: brokers, prefix: "pubsubtest-" + rand.Text()[:10] + "-"}
	})
}

// run runs each part of the suite with n brokers that begin makes.
func run(t *testing.T, begin func(t *testing.T, n int) *suite) {
	for _, part := range []struct {
		name    string
		brokers int
		run     func(*suite)
	}{
		{"EverySubscriptionGetsEveryMessageOnce", 3, everySubscription},
		{"NoSubscribers", 1, noSubscribers},
		{"NoHistory", 2, noHistory},
		{"TopicsAreApart", 2, topicsAreApart},
		{"ManyTopics", 2, manyTopics},
		{"MessagesArriveUnchanged", 2, messagesArriveUnchanged},
		{"PublishersKeepTheirOrder", 3, publishersKeepTheirOrder},
		{"OneMessageAtATime", 2, oneMessageAtATime},
		{"InPlaceWhenSubscribeReturns", 2, inPlace},
		{"NothingBeginsAfterClose", 2, nothingBeginsAfterClose},
		{"CloseWhileAnotherIsDelivering", 1, closeWhileAnotherIsDelivering},
		{"NobodyWaitsForADelivery", 1, noWaitForADelivery},
		{"CloseConcernsOneSubscription", 2, closeConcernsOne},
		{"Churn", 3, churn},
		{"ContextIsForTheCall", 1, contextIsForTheCall},
		{"CancelledContext", 1, cancelledContext},
		{"ReceiversAreCounted", 3, receiversAreCounted},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(begin(t, part.brokers)) })
	}
}

// A suite is one part of the suite while it runs.
type suite struct {
	*testing.T
	brokers []pubsub.Broker
	prefix  string
}

// topic is the name of a topic that only this run uses.
func (s *suite) topic(name string) string { return s.prefix + name }

// broker is one of the brokers, for any i.
func (s *suite) broker(i int) pubsub.Broker { return s.brokers[i%len(s.brokers)] }

// broken ends the part: the rule, and what happened.
func (s *suite) broken(rule, format string, args ...any) {
	s.Helper()
	s.Fatalf("rule broken: %s\n%s", rule, fmt.Sprintf(format, args...))
}

// publish must not fail. It may be called from any goroutine.
func (s *suite) publish(b pubsub.Broker, m pubsub.Message) {
	s.Helper()
	if err := b.Publish(context.Background(), m); err != nil {
		s.Errorf("rule broken: a working broker delivers messages\nPublish to %s: %v", short(m.Topic), err)
	}
}

// subscribe must not fail. It may be called from any goroutine; with an error it
// returns a subscription that does nothing.
func (s *suite) subscribe(b pubsub.Broker, topic string, deliver func(pubsub.Message)) pubsub.Subscription {
	s.Helper()
	sub, err := b.Subscribe(context.Background(), topic, deliver)
	if err == nil && sub == nil {
		err = fmt.Errorf("neither a subscription nor an error")
	}
	if err != nil {
		s.Errorf("rule broken: a working broker accepts subscriptions\nSubscribe to %s: %v", short(topic), err)
		return nothing{}
	}
	return sub
}

func (s *suite) close(sub pubsub.Subscription) {
	s.Helper()
	if err := sub.Close(); err != nil {
		s.Errorf("rule broken: closing a subscription works, again and again\nClose: %v", err)
	}
}

type nothing struct{}

func (nothing) Close() error { return nil }

// listen subscribes with a listener that closes with the test.
func (s *suite) listen(b pubsub.Broker, topic string) *listener {
	s.Helper()
	l := newListener(topic)
	l.sub = s.subscribe(b, topic, l.deliver)
	s.Cleanup(func() { _ = l.sub.Close() })
	return l
}

// expect waits until the listener has n messages.
func (s *suite) expect(l *listener, n int, rule string) []pubsub.Message {
	s.Helper()
	got, ok := l.wait(n)
	if !ok {
		s.broken(rule, "after %v a subscription of %s has %d messages of %d: %s", timeLimit, short(l.topic), len(got), n, frames(got))
	}
	return got
}

// returns reports whether f returns within timeLimit.
func returns(f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	_, ok := poll.ReceiveWithin(timeLimit, done)
	return ok
}

// A listener is the receiving end of a subscription.
type listener struct {
	topic string
	sub   pubsub.Subscription
	// calls is changed without a lock: calls of deliver come one after the
	// other, and the race detector finds it if they do not.
	calls int

	mu   sync.Mutex
	got  []pubsub.Message
	more chan struct{} // closed and replaced with every message
}

func newListener(topic string) *listener {
	return &listener{topic: topic, more: make(chan struct{})}
}

func (l *listener) deliver(m pubsub.Message) {
	l.calls++ // a race here: two messages of a topic were delivered at once
	l.add(m)
}

func (l *listener) add(m pubsub.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, m)
	close(l.more)
	l.more = make(chan struct{})
}

// messages is what has come until now. It is not changed any more.
func (l *listener) messages() []pubsub.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got[:len(l.got):len(l.got)]
}

// wait waits until there are n messages; ok is false if no more come within timeLimit.
func (l *listener) wait(n int) (got []pubsub.Message, ok bool) {
	for {
		l.mu.Lock()
		got, more := l.got[:len(l.got):len(l.got)], l.more
		l.mu.Unlock()
		if len(got) >= n {
			return got, true
		}
		if _, ok := poll.ReceiveWithin(timeLimit, more); !ok {
			return got, false
		}
	}
}

// short is a topic or a frame for a message, of readable length.
func short(text string) string {
	const most = 64
	if len(text) > most {
		return fmt.Sprintf("%q… (%d bytes)", text[:most], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// frames lists messages by their frames, the last few of many.
func frames(messages []pubsub.Message) string {
	const most = 8
	text := "["
	if n := len(messages) - most; n > 0 {
		text += fmt.Sprintf("… %d more, ", n)
		messages = messages[n:]
	}
	for i, m := range messages {
		if i > 0 {
			text += ", "
		}
		text += short(string(m.Frame))
	}
	return text + "]"
}

func message(topic, frame string) pubsub.Message {
	return pubsub.Message{Topic: topic, Frame: []byte(frame)}
}
