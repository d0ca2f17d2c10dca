package pubsubtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/pubsub"
)

// inPlace: a message published right after Subscribe, from anywhere, arrives.
func inPlace(s *suite) {
	const rule = "when Subscribe returns, the subscription is in place, for publishers of every process"
	for i := range 50 {
		topic := s.topic(strconv.Itoa(i % 3)) // also one that had a subscription before
		l := s.listen(s.broker(i), topic)
		s.publish(s.broker(i/2), message(topic, strconv.Itoa(i)))
		if got := s.expect(l, 1, rule); string(got[0].Frame) != strconv.Itoa(i) {
			s.broken(rule, "the first message of round %d is %s", i, frames(got))
		}
		s.close(l.sub)
	}
}

const afterClose = "no call of deliver begins after Close has returned"

// nothingBeginsAfterClose closes a subscription while messages pour in.
func nothingBeginsAfterClose(s *suite) {
	topic := s.topic("close")
	witness := s.listen(s.broker(0), topic)
	stop := make(chan struct{})
	var sent atomic.Int64
	var wg sync.WaitGroup
	for _, b := range s.brokers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Never far ahead, so that closing has to meet a delivery
				// and not a backlog.
				n := sent.Add(1)
				s.publish(b, message(topic, "pour"))
				if _, ok := witness.wait(int(n) - 100); !ok {
					return // the witness will be missed below
				}
			}
		})
	}
	for round := range 30 {
		var begun, atClose atomic.Int64
		first := make(chan struct{})
		sub := s.subscribe(s.broker(round), topic, func(pubsub.Message) {
			if begun.Add(1) == 1 {
				close(first)
			}
		})
		if !returns(func() { <-first }) {
			s.Errorf("rule broken: a message goes to every subscription of its topic\nnothing came in %v", timeLimit)
			break
		}
		s.close(sub)
		atClose.Store(begun.Load())
		if _, ok := witness.wait(len(witness.messages()) + 50); !ok {
			break
		}
		// One may have begun without having counted yet.
		if late := begun.Load() - atClose.Load(); late > 1 {
			s.Errorf("rule broken: %s\n%d calls in round %d began after it", afterClose, late, round)
			break
		}
	}
	close(stop)
	wg.Wait()
	s.expect(witness, int(sent.Load()), "a message goes to every subscription of its topic, whichever others are closed meanwhile")
}

// closeWhileAnotherIsDelivering closes all subscriptions of a topic but the one
// whose turn it is. A broker that goes on with a list it has made before calls
// those that are closed, each time. One with a goroutine for each subscription may have begun with
// another one before it was closed, and that call may be noted late: once in a thousand times.
func closeWhileAnotherIsDelivering(s *suite) {
	for round := range 5 {
		if !calledWhenClosed(s, s.topic(fmt.Sprint("turn", round))) {
			return
		}
	}
	s.broken(afterClose, "a subscription that was closed while another one's deliver ran was called after that")
}

// calledWhenClosed reports whether deliver of a subscription was entered after its Close had returned.
func calledWhenClosed(s *suite, topic string) bool {
	s.Helper()
	const n = 4
	var subs [n]pubsub.Subscription
	var closed [n]atomic.Bool
	var late atomic.Bool
	entered := make(chan int, n)
	goOn := make(chan struct{})
	for i := range n {
		subs[i] = s.subscribe(s.broker(0), topic, func(pubsub.Message) {
			if closed[i].Load() {
				late.Store(true)
				return
			}
			entered <- i
			<-goOn
		})
	}
	published := make(chan struct{})
	go func() {
		defer close(published)
		s.publish(s.broker(0), message(topic, "one"))
	}()
	var turn int
	if !returns(func() { turn = <-entered }) {
		s.broken("a message goes to every subscription of its topic", "nothing came in %v", timeLimit)
	}
	for i, sub := range subs {
		if i == turn {
			continue
		}
		if !returns(func() { s.close(sub) }) {
			close(goOn)
			s.broken(nobodyWaits, "Close does not return while another subscription's deliver runs")
		}
		// A broker that has a goroutine for each subscription may have begun
		// with this one, too, before it was closed. If so, it waits at goOn.
		closed[i].Store(true)
	}
	close(goOn)
	if !returns(func() { <-published }) {
		s.broken("Publish returns", "it does not, %v after the last deliver", timeLimit)
	}
	// What the broker still does with that message it has done when a later one
	// has come.
	s.close(subs[turn])
	witness := s.listen(s.broker(0), topic)
	s.publish(s.broker(0), message(topic, "two"))
	s.expect(witness, 1, "a topic whose subscriptions were all closed can be subscribed to again")
	return late.Load()
}

const nobodyWaits = "neither Subscribe nor Close waits for a call of deliver that is running"

// noWaitForADelivery subscribes and closes while the topic's only deliver
// runs, the way a caller does that holds a lock which deliver needs.
func noWaitForADelivery(s *suite) {
	topic := s.topic("held")
	entered, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	sub := s.subscribe(s.broker(0), topic, func(pubsub.Message) {
		once.Do(func() { close(entered) })
		<-goOn
	})
	published := make(chan struct{})
	go func() {
		defer close(published)
		s.publish(s.broker(0), message(topic, "held"))
	}()
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	if !returns(func() { <-entered }) {
		s.broken("a message goes to every subscription of its topic", "nothing came in %v", timeLimit)
	}
	if !returns(func() { s.close(sub) }) {
		s.broken(nobodyWaits, "Close does not return while the subscription's own deliver runs")
	}
	var again *listener
	if !returns(func() { again = s.listen(s.broker(0), topic) }) {
		s.broken(nobodyWaits, "Subscribe does not return while the deliver of a closed subscription of the topic runs")
	}
	if !returns(func() { s.close(s.subscribe(s.broker(0), s.topic("other"), func(pubsub.Message) {})) }) {
		s.broken(nobodyWaits, "Subscribe to another topic does not return while a deliver runs")
	}
	release()
	if !returns(func() { <-published }) {
		s.broken("Publish returns", "it does not, %v after the last deliver", timeLimit)
	}
	s.publish(s.broker(0), message(topic, "free"))
	l, rule := again, "a subscription made while another was delivering gets the messages after it"
	for n := 1; ; n++ {
		got := s.expect(l, n, rule)
		if string(got[n-1].Frame) == "free" {
			return
		}
	}
}

// closeConcernsOne: closing, once, twice or from everywhere, ends that
// subscription and no other.
func closeConcernsOne(s *suite) {
	const rule = "closing a subscription ends that one alone, and closing it again does nothing"
	topic := s.topic("neighbours")
	stays, elsewhere := s.listen(s.broker(0), topic), s.listen(s.broker(1), topic)
	goes := s.listen(s.broker(0), topic)
	s.publish(s.broker(1), message(topic, "first"))
	for _, l := range []*listener{stays, elsewhere, goes} {
		s.expect(l, 1, "a message goes to every subscription of its topic")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { s.close(goes.sub) })
	}
	wg.Wait()
	s.close(goes.sub)
	for i := range 20 {
		s.publish(s.broker(i), message(topic, strconv.Itoa(i)))
	}
	for _, l := range []*listener{stays, elsewhere} {
		s.expect(l, 21, rule)
	}
	if got := goes.messages(); len(got) != 1 {
		s.broken(afterClose, "the closed subscription has got %s", frames(got))
	}

	// A closed subscription's Close does not reach one that came after it.
	s.close(stays.sub)
	s.close(elsewhere.sub)
	after := s.listen(s.broker(0), topic)
	for _, l := range []*listener{stays, elsewhere, goes} {
		s.close(l.sub)
	}
	s.publish(s.broker(1), message(topic, "last"))
	s.expect(after, 1, rule)
}

// churn subscribes and closes from many goroutines while messages flow; those
// that stay miss nothing.
func churn(s *suite) {
	const rule = "subscribers get everything in order while others subscribe and close"
	const messages = 300
	topics := []string{s.topic("churn a"), s.topic("churn b")}
	var stay []*listener
	for i, topic := range topics {
		stay = append(stay, s.listen(s.broker(i), topic), s.listen(s.broker(i+1), topic))
	}
	var publishing, coming sync.WaitGroup
	done := make(chan struct{})
	for g := range 6 {
		coming.Go(func() {
			b, own := s.broker(g), s.topic(fmt.Sprint("own ", g))
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				guest := newListener(topics[i%2])
				sub := s.subscribe(b, guest.topic, guest.deliver)
				// A topic that comes and goes with its only subscription.
				alone := newListener(own)
				aloneSub := s.subscribe(b, own, alone.deliver)
				s.publish(s.broker(g+i), message(own, strconv.Itoa(i)))
				if got, ok := alone.wait(1); !ok || string(got[0].Frame) != strconv.Itoa(i) {
					s.Errorf("rule broken: when Subscribe returns, the subscription is in place\nround %d of a topic that is subscribed and closed again: got %s", i, frames(got))
					return
				}
				s.close(sub)
				s.close(aloneSub)
			}
		})
	}
	for i, topic := range topics {
		publishing.Go(func() {
			for n := range messages {
				s.publish(s.broker(i), message(topic, strconv.Itoa(n)))
				// In step with the listeners, so that those that subscribe and close do
				// so all the time.
				if _, ok := stay[2*i].wait(n - 10); !ok {
					return
				}
			}
		})
	}
	publishing.Wait()
	close(done)
	coming.Wait()
	for _, l := range stay {
		for n, m := range s.expect(l, messages, rule) {
			if string(m.Frame) != strconv.Itoa(n) {
				s.broken(rule, "message %s came where %d was due", short(string(m.Frame)), n)
			}
		}
	}
}

// contextIsForTheCall: a subscription outlives the context it was made with,
// usually that of the one message that asked for it.
func contextIsForTheCall(s *suite) {
	const rule = "a context applies only to the call: a subscription lasts until it is closed"
	topic := s.topic("context")
	ctx, cancel := context.WithCancel(context.Background())
	l := newListener(topic)
	sub, err := s.broker(0).Subscribe(ctx, topic, l.deliver)
	if err != nil {
		s.broken("a working broker accepts subscriptions", "Subscribe: %v", err)
	}
	defer func() { _ = sub.Close() }()
	cancel()
	for i := range 10 {
		ctx, cancel := context.WithCancel(context.Background())
		if err := s.broker(0).Publish(ctx, message(topic, strconv.Itoa(i))); err != nil {
			s.broken("a working broker delivers messages", "Publish: %v", err)
		}
		cancel()
		s.expect(l, i+1, rule)
	}
}

// cancelledContext: a call whose context has ended may succeed or fail.
func cancelledContext(s *suite) {
	const rule = "a call with a cancelled context fails with an error or works, and harms nothing"
	topic := s.topic("cancelled")
	l := s.listen(s.broker(0), topic)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	published := 0
	if err := s.broker(0).Publish(ctx, message(topic, "late")); err == nil {
		published++
	}
	second := newListener(topic)
	sub, err := s.broker(0).Subscribe(ctx, topic, second.deliver)
	switch {
	case err == nil && sub == nil:
		s.broken(rule, "Subscribe returned neither a subscription nor an error")
	case err == nil:
		defer func() { _ = sub.Close() }()
	}

	// In both cases the broker continues to work.
	s.publish(s.broker(0), message(topic, "next"))
	for n := 1; ; n++ {
		if got := s.expect(l, n, rule); string(got[n-1].Frame) == "next" {
			if n < published+1 {
				s.broken(rule, "Publish returned nil and nothing came")
			}
			break
		}
	}
	if err == nil {
		s.expect(second, 1, "a subscription without an error is in place")
		return
	}
	s.listen(s.broker(0), topic)
	s.publish(s.broker(0), message(topic, "more"))
	for n := 1; ; n++ {
		if got := s.expect(l, n, rule); string(got[n-1].Frame) == "more" {
			break
		}
	}
	if got := second.messages(); len(got) != 0 {
		s.broken(rule, "Subscribe returned the error %q, and yet its deliver was called: %s", err, frames(got))
	}
}
